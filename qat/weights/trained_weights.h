// The weights that a recipe quantizes or prunes while they train, and what they share: masks, a budget of
// widths, a penalty. qat::Network and qat::Hooks have one each, and know where weights are stored and who
// reads them.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/quantize/plan.h"
#include "qat/optimize/parameter_groups.h"
#include "qat/weights/bit_costs.h"
#include "qat/weights/learned_bits.h"
#include "qat/weights/learned_widths.h"
#include "qat/weights/pruner.h"
#include "qat/weights/weight_quantizer.h"
#include "quant/recipe/recipe.h"

namespace crumb::qat {

struct TrainedWeight {
  std::string name;
  std::vector<std::int64_t> to_rows, to_value;  ///< permutations: output channels to axis 0, and back
  std::shared_ptr<WeightQuantizer> quantizer;   ///< null: the weight is only pruned
  AccumulatorQuantizer* constrained = nullptr;  ///< the quantizer, where it constrains an accumulator
};

class TrainedWeights {
 public:
  /// Registers quantizers, masks and widths as submodules of `quantizers`. Throws as make_bits_learner()
  /// does.
  TrainedWeights(const Recipe& recipe, const graph::QuantPlan& plan,
                 std::shared_ptr<torch::nn::Module> quantizers);

  /// Adds a weight with a spec, a goal of pruning, or both. `latent` is the parameter as it is stored. Its
  /// quantizer gets parameters of the right shapes; start it again when training begins. Throws Error where
  /// the plan does not fit the weight.
  TrainedWeight add(const graph::PlannedConstant& planned, const at::Tensor& latent, std::size_t output_axis,
                    const std::optional<AccumulatorConstraint>& constraint);

  /// Call it when all weights are added. `bops` where counts_bops(). Throws as BitsLearner::start() does.
  void finish(const BopsByWeight& bops = {});

  bool counts_bops() const { return bits_ && bits_->budget().bops > 0; }

  /// Returns the parameter with zeros where it is pruned.
  at::Tensor masked(const std::string& name, const at::Tensor& latent) const {
    return pruner_->masked(name, latent);
  }
  /// The same with output channels on axis 0, as quantizers take it.
  at::Tensor rows(const TrainedWeight& weight, const at::Tensor& latent) const {
    return masked(weight.name, latent).permute(weight.to_rows).contiguous();
  }
  const std::vector<std::string>& pruned_names() const { return pruner_->names(); }

  /// Call it before every step, with the share of the training that is done.
  void prune(double progress) { pruner_->prune(progress); }
  void advance(double progress);

  /// Returns the penalty of accumulators, times lambda, plus that of widths; 0 where there is neither.
  at::Tensor penalty(double lambda) const;

  std::vector<PrunedLayer> pruned() const { return pruner_->layers(); }
  std::optional<LearnedWidths> learned_widths() const;
  bool learns_widths() const { return bits_ && !bits_->is_fixed(); }
  void throw_while_widths_are_learned() const;

  /// `scales`: those in addition to the quantizers' own parameters.
  std::vector<torch::optim::OptimizerParamGroup> parameter_groups(std::vector<at::Tensor> weights,
                                                                  std::vector<at::Tensor> others,
                                                                  std::vector<at::Tensor> scales,
                                                                  const Rates& rates) const;

 private:
  struct Quantized {
    TrainedWeight weight;
    QuantSpec spec;
    std::vector<std::int64_t> shape;  ///< that of its rows
  };
  std::shared_ptr<torch::nn::Module> quantizers_;
  std::shared_ptr<Pruner> pruner_ = std::make_shared<Pruner>();
  std::shared_ptr<BitsLearner> bits_;  ///< null: no width is learned
  std::vector<Quantized> quantized_;
};

}  // namespace crumb::qat
