// Prunes while a network trains ("Ps and Qs", arXiv:2102.11289): masks of weights, and the schedule by which
// they grow.
//
// Weights that are zero when they are added stay zero. Masks are buffers, so that they are saved, loaded and
// moved with the quantizers. Where a mask is false the weight counts as zero and gets no gradient; its
// parameter keeps its value.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "qat/weights/weight_quantizer.h"
#include "quant/quant_spec.h"
#include "quant/recipe/pruning.h"

namespace crumb::qat {

/// How many of one weight's elements are pruned.
struct PrunedLayer {
  std::string name;
  std::int64_t weights = 0, pruned = 0;
};

/// A parameter that is to be pruned.
struct PrunedParameter {
  std::string name;
  at::Tensor latent;
  std::vector<std::int64_t> to_rows, to_value;  ///< permutations: output channels to axis 0, and back
  std::shared_ptr<WeightQuantizer> quantizer;   ///< gets the mask; null: the weight is not quantized
};

/// Returns the share of all elements together; none where there are no layers.
std::optional<double> pruned_share(const std::vector<PrunedLayer>& layers);

class PruneGroup;

class Pruner : public torch::nn::Module {
 public:
  Pruner() : torch::nn::Module("pruning") {}

  /// Elements that are zero now are pruned from the beginning, and count in the share. Throws
  /// Error where elements are, or become, zero and the weight's grid has no zero.
  void add(PrunedParameter weight, const PruneGoal& goal, const SpecOrKeep& spec);

  bool empty() const { return weights_.empty(); }
  const std::vector<std::string>& names() const { return order_; }

  /// Returns the parameter with zeros where it is pruned, differentiable; as it is where it is not to be
  /// pruned.
  at::Tensor masked(const std::string& name, const at::Tensor& latent) const;

  /// Prunes as much as is due at `progress`, the share of the training that is done. Does nothing where this
  /// step was taken already. Throws Error where a weight is inf or NaN.
  void prune(double progress);

  std::vector<PrunedLayer> layers() const;

 private:
  struct Weight {
    std::shared_ptr<PruneGroup> group;
    std::size_t index = 0;  ///< in it
  };
  std::vector<std::shared_ptr<PruneGroup>> groups_;  ///< by goal: the weights of a group share a threshold
  std::map<std::string, Weight> weights_;
  std::vector<std::string> order_;
};

}  // namespace crumb::qat
