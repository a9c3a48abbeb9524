// What follows the transformer in a sentence-transformers model: pooling, then dense layers and normalisation
// in the order of modules.json.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "encoder/elementwise.h"
#include "encoder/layers.h"
#include "encoder/pooling.h"
#include "models/weight_source.h"
#include "runtime/linear.h"

namespace crumb::encoder {

class SentenceHead {
 public:
  /// Reads modules.json and the folders that it names: Transformer and Pooling first, then any of Dense
  /// (activation Tanh, ReLU, GELU or Identity; tensors FOLDER/linear.weight and FOLDER/linear.bias beside the transformer's; those in a
  /// file of their own are refused) and Normalize. Other modules are refused by name. Without modules.json the model is a bare transformer and
  /// its sentence vector the mean of its tokens' states, as in sentence-transformers.
  static SentenceHead load(const models::WeightSource& source, size_t hidden_size);

  /// The folder of the transformer's files, "" for the top. Needs no tensors.
  static std::string transformer_path(const models::WeightSource& source);

  size_t width() const { return width_; }
  /// The sentence vector of `states`, [length, hidden_size], to `out` of width().
  void apply(std::span<const float> states, std::span<float> out) const;

 private:
  struct Step {
    std::optional<Linear> dense;  ///< nothing: divide by max(L2 norm, 1e-12)
    Activation activation = Activation::kIdentity;
  };

  size_t hidden_size_ = 0;
  size_t width_ = 0;
  std::vector<PoolingMode> pooling_;
  std::vector<Step> steps_;
};

}  // namespace crumb::encoder
