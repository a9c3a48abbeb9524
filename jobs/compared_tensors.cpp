#include "jobs/compared_tensors.h"

#include <algorithm>

#include "graph/control/decide.h"
#include "graph/onnx/read.h"

namespace crumb::jobs {
namespace {

/// The values of a tensor that it keeps.
class OwnedStream final : public ValueStream {
 public:
  explicit OwnedStream(std::vector<float> values) : values_(std::move(values)), stream_(values_) {}

  std::span<const float> next(std::uint64_t count) override { return stream_.next(count); }
  void rewind() override { stream_.rewind(); }

 private:
  std::vector<float> values_;
  SpanStream stream_;
};

/// Values that are decoded a piece at a time.
class CodesStream final : public ValueStream {
 public:
  explicit CodesStream(const graph::QuantizedConstant& constant) : constant_(constant) {}

  std::span<const float> next(std::uint64_t count) override {
    values_.resize(std::min(count, constant_.tensor->layout.matrix.size() - at_));
    graph::read_values(constant_, at_, values_);
    at_ += values_.size();
    return values_;
  }
  void rewind() override { at_ = 0; }

 private:
  const graph::QuantizedConstant& constant_;
  std::vector<float> values_;
  std::uint64_t at_ = 0;
};

/// Whether a network may have packed weights: they are bytes, in two axes or three.
bool may_be_packed(const TensorSource& source) {
  return source.kind() == "onnx" && std::ranges::any_of(source.tensors(), [](const SourceTensor& tensor) {
           return tensor.dtype == DType::kU8 && tensor.shape.size() > 1;
         });
}

}  // namespace

ComparedTensors ComparedTensors::open(const std::filesystem::path& path, const std::string& key) {
  ComparedTensors made(TensorSource::open(path, key));
  if (may_be_packed(made.source_)) {
    graph::Graph network = graph::decide_control_flow(graph::read_onnx(path));
    if (!network.quantized.empty()) made.network_ = std::move(network);
  }
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    made.rows_.push_back({name, {shape.begin(), shape.end()}});
  };
  if (!made.network_) {
    for (const SourceTensor& tensor : made.source_.tensors())
      made.rows_.push_back({tensor.name, tensor.shape});
    return made;
  }
  for (const auto& [name, tensor] : made.network_->initializers) add(name, tensor.shape());
  for (const auto& [name, constant] : made.network_->quantized) add(name, constant.shape());
  std::ranges::sort(made.rows_, {}, &Row::name);
  return made;
}

const ComparedTensors::Row* ComparedTensors::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(rows_, name, {}, &Row::name);
  return found != rows_.end() && found->name == name ? &*found : nullptr;
}

std::unique_ptr<ValueStream> ComparedTensors::stream(const Row& row) const {
  if (!network_) return source_.stream(*source_.find(row.name));
  if (const graph::Tensor* tensor = network_->constant(row.name))
    return std::make_unique<OwnedStream>(tensor->to_floats());
  return std::make_unique<CodesStream>(network_->quantized.at(row.name));
}

}  // namespace crumb::jobs
