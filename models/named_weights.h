// The weights of a network whose structure alone is wanted.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files/text.h"
#include "models/weight_source.h"

namespace crumb::models {

/// A source whose tensors are constants that nobody asks for their values.
class NamedWeights final : public WeightSource {
 public:
  explicit NamedWeights(const TensorSource& source) : opened_(weights_of(source)) {}

  std::vector<std::string> names() const override { return opened_->names(); }
  bool has(std::string_view name) const override { return opened_->has(name); }
  std::vector<size_t> shape(std::string_view name) const override { return opened_->shape(name); }
  std::vector<float> floats(std::string_view name) const override {
    throw Error("tensor " + quote_text(name) + " is named and not read");
  }
  std::optional<QuantizedTensor> codes(std::string_view name) const override {
    QuantizedTensor named;
    const std::vector<size_t> sizes = shape(name);
    named.shape.assign(sizes.begin(), sizes.end());
    return named;
  }
  std::optional<std::string> file(std::string_view path) const override { return opened_->file(path); }
  std::string describe() const override { return opened_->describe(); }

 private:
  std::unique_ptr<WeightSource> opened_;
};

}  // namespace crumb::models
