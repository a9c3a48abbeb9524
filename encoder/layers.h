// The layers that networks are made of, with their weights, and how they come out of a WeightSource: a
// missing tensor or a wrong shape is a crumb::Error that names tensor, expected and found shape.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/weight_source.h"
#include "runtime/linear.h"

namespace crumb::encoder {

/// y = x W^T + bias.
struct Linear {
  std::unique_ptr<runtime::Matrix> weight;
  std::vector<float> bias;  ///< empty: none

  /// NAME.weight [out, in] and NAME.bias [out].
  static Linear load(const models::WeightSource& source, const std::string& name, size_t in, size_t out,
                     bool with_bias = true);
  void apply(std::span<const float> x, size_t batch, std::span<float> y) const;
};

struct LayerNorm {
  std::vector<float> weight;
  std::vector<float> bias;
  float epsilon = 0;

  /// NAME.weight and NAME.bias, or NAME.gamma and NAME.beta as early checkpoints have it, each [width].
  static LayerNorm load(const models::WeightSource& source, const std::string& name, size_t width,
                        float epsilon);
  void apply(std::span<float> rows) const;
};

std::unique_ptr<runtime::Matrix> load_matrix(const models::WeightSource& source, const std::string& name,
                                             size_t rows, size_t cols);
std::vector<float> load_vector(const models::WeightSource& source, const std::string& name, size_t size);

}  // namespace crumb::encoder
