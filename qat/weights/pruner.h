// Pruning while a network trains ("Ps and Qs", arXiv:2102.11289): masks of weights, and the schedule by which they grow.
//
// Masks are buffers, so that they are saved, loaded and moved with the quantizers. Where a mask is false a weight reads
// as zero and gets no gradient; the parameter behind it keeps its value.
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

/// What became of one weight's elements.
struct PrunedLayer {
  std::string name;
  std::int64_t weights = 0, pruned = 0;
};

/// What is to be pruned.
struct PrunedParameter {
  std::string name;
  at::Tensor latent;
  std::vector<std::int64_t> to_rows, to_value;  ///< permutations: output channels to axis 0, and back
  std::shared_ptr<WeightQuantizer> quantizer;   ///< is told of the mask; null: the weight stays as it is
};

/// Of all elements together; none where there are no layers.
std::optional<double> pruned_share(const std::vector<PrunedLayer>& layers);

class PruneGroup;

class Pruner : public torch::nn::Module {
 public:
  Pruner() : torch::nn::Module("pruning") {}

  /// Throws Error where the weight's grid cannot say zero.
  void add(PrunedParameter weight, const PruneGoal& goal, const SpecOrKeep& spec);

  bool empty() const { return weights_.empty(); }
  const std::vector<std::string>& names() const { return order_; }

  /// The parameter with zeros where it is pruned, differentiable; as it is where it is none that is pruned.
  at::Tensor masked(const std::string& name, const at::Tensor& latent) const;

  /// Brings the masks to where they are due; `progress`: the share of the training that is done. Nothing happens at a
  /// step that was taken before. Throws Error where a weight is inf or NaN.
  void prune(double progress);

  std::vector<PrunedLayer> layers() const;

 private:
  struct Weight {
    std::shared_ptr<PruneGroup> group;
    std::size_t index = 0;  ///< in it
  };
  std::vector<std::shared_ptr<PruneGroup>> groups_;  ///< by goal: those that share a threshold
  std::map<std::string, Weight> weights_;
  std::vector<std::string> order_;
};

}  // namespace crumb::qat
