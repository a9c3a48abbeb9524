// Learns the widths of weights together, under one budget.
//
// While widths are learned, penalty() adds  price * c  to the loss. c is by how much the current widths are
// over the budget, in mean bits (each weight counts by what a bit of it costs). The price is  S max(0, m +
// c). S is the sum of all weights' pressures (BitsQuantizer::pressure()), which gives the price the loss's
// own scale, whatever the loss is. m rises with the excess over the budget and falls with what is left of it
// (the multiplier of an augmented Lagrangian, moved by dual ascent), so that where widths come to rest, one
// bit less saves as much for each unit of cost in every weight.
//
// When half of the training is done widths are fixed as whole numbers, within the budget: by the choice, of
// all that keep to the budget, that loses least (quant/budget/assignment.h). A weight of real-valued width b
// is taken to lose (cost of a bit) * 4^(b - n) at n bits: one bit less is four times the squared error, and
// at rest losses are proportional to costs.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/quantize/plan.h"
#include "qat/weights/bits_quantizer.h"
#include "qat/weights/learned_widths.h"
#include "quant/recipe/recipe.h"

namespace crumb::qat {

class BitsLearner : public torch::nn::Module {
 public:
  static constexpr double kShare = 0.5;  ///< share of the training after which widths are fixed

  explicit BitsLearner(const BitBudget& budget);

  const BitBudget& budget() const { return budget_; }

  /// Returns a quantizer that learns its width; null where the weight's width is given.
  std::shared_ptr<WeightQuantizer> quantizer_for(const graph::PlannedConstant& weight) const;

  /// Adds a quantized weight, output channels first. Its width is learned where the quantizer is from
  /// quantizer_for(). `bops_per_bit`: where the budget is in bit operations.
  void add(const std::string& name, const QuantSpec& spec, const std::vector<std::int64_t>& shape,
           const std::shared_ptr<WeightQuantizer>& quantizer, std::uint64_t bops_per_bit);

  /// Adds a cost that does not depend on widths.
  void add_cost(double cost) { rest_ += cost; }

  /// Starts when all weights are added. Throws Error where no width is learned, and where the least widths
  /// pass the budget.
  void start();

  /// Returns the penalty; undefined where widths are fixed.
  at::Tensor penalty() const;

  /// Call it before every step, with the share of the training that is done.
  void advance(double progress);

  bool is_fixed() const;
  std::vector<at::Tensor> parameters_of_bits() const;
  LearnedWidths report() const;

 private:
  struct Member {
    std::string name;
    std::int64_t weights = 0;
    std::shared_ptr<BitsQuantizer> quantizer;  ///< null: the width is given
    int bits = 0;                              ///< the width, where it is given
    std::vector<std::uint64_t> costs;          ///< one for each width, or one
    double slope() const;                      ///< cost of a bit
  };

  std::uint64_t limit() const;  ///< in units of costs, less the rest
  double in_unit(double cost) const;
  std::string amount_text(double cost) const;
  std::uint64_t least_cost() const;
  double slope() const;   ///< sum over the members
  double excess() const;  ///< in mean bits
  void fix();

  BitBudget budget_;
  std::vector<Member> members_;
  double rest_ = 0;
  std::int64_t weights_ = 0;
  at::Tensor multiplier_, progress_;  ///< float64 [1]
};

/// Returns null where the recipe has no budget. Throws usage Error where a rule asks for learned widths
/// without a budget.
std::shared_ptr<BitsLearner> make_bits_learner(const Recipe& recipe, const graph::QuantPlan& plan);

}  // namespace crumb::qat
