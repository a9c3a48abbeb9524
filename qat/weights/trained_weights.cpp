#include "qat/weights/trained_weights.h"

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "graph/strided_index.h"
#include "qat/child_name.h"

namespace crumb::qat {

TrainedWeights::TrainedWeights(const Recipe& recipe, const graph::QuantPlan& plan,
                               std::shared_ptr<torch::nn::Module> quantizers)
    : quantizers_(std::move(quantizers)), bits_(make_bits_learner(recipe, plan)) {}

TrainedWeight TrainedWeights::add(const graph::PlannedConstant& planned, const at::Tensor& latent,
                                  std::size_t output_axis,
                                  const std::optional<AccumulatorConstraint>& constraint) {
  TrainedWeight weight{.name = planned.value};
  weight.to_value = graph::tensor_axes(static_cast<std::size_t>(latent.dim()), output_axis);
  weight.to_rows = graph::inverse(weight.to_value);
  if (constraint) {
    auto quantizer = std::make_shared<AccumulatorQuantizer>(*planned.spec, *constraint, weight.name);
    weight.constrained = quantizer.get();
    weight.quantizer = std::move(quantizer);
  } else if (planned.spec) {
    if (bits_) weight.quantizer = bits_->quantizer_for(planned);
    if (!weight.quantizer)
      weight.quantizer = make_weight_quantizer(*planned.spec, planned.scales, weight.name);
  }
  if (weight.quantizer) {
    quantizers_->register_module(child_name(*quantizers_, weight.name), weight.quantizer);
    at::Tensor first = rows(weight, latent).detach().clone();
    weight.quantizer->start(first);
    quantized_.push_back({weight, *planned.spec, first.sizes().vec()});
  }
  if (planned.prune) {
    pruner_->add({.name = weight.name,
                  .latent = latent,
                  .to_rows = weight.to_rows,
                  .to_value = weight.to_value,
                  .quantizer = weight.quantizer},
                 *planned.prune, planned.spec);
  }
  return weight;
}

void TrainedWeights::finish(const BopsByWeight& bops) {
  if (!pruner_->empty()) quantizers_->register_module(child_name(*quantizers_, "pruning"), pruner_);
  if (!bits_) return;
  for (const Quantized& one : quantized_) {
    const auto per_bit = bops.per_bit.find(one.weight.name);
    bits_->add(one.weight.name, one.spec, one.shape, one.weight.quantizer,
               per_bit == bops.per_bit.end() ? 0 : per_bit->second);
  }
  bits_->add_cost(bops.rest);
  bits_->start();
  quantizers_->register_module(child_name(*quantizers_, "learned_bits"), bits_);
}

void TrainedWeights::advance(double progress) {
  prune(progress);
  if (bits_) bits_->advance(progress);
}

at::Tensor TrainedWeights::penalty(double lambda) const {
  at::Tensor sum = torch::zeros({});
  for (const Quantized& one : quantized_) {
    if (one.weight.constrained) sum = sum + one.weight.constrained->penalty();
  }
  sum = sum * lambda;
  const at::Tensor price = bits_ ? bits_->penalty() : at::Tensor();
  return price.defined() ? sum + price : sum;
}

std::optional<LearnedWidths> TrainedWeights::learned_widths() const {
  if (!bits_) return std::nullopt;
  return bits_->report();
}

void TrainedWeights::throw_while_widths_are_learned() const {
  if (!learns_widths()) return;
  throw Error(
      "widths are still being learned, and may be over their budget: advance(progress) fixes them when half "
      "of "
      "the training is done");
}

std::vector<torch::optim::OptimizerParamGroup> TrainedWeights::parameter_groups(
    std::vector<at::Tensor> weights, std::vector<at::Tensor> others, std::vector<at::Tensor> scales,
    const Rates& rates) const {
  std::vector<at::Tensor> bits = bits_ ? bits_->parameters_of_bits() : std::vector<at::Tensor>();
  for (const at::Tensor& one : quantizers_->parameters()) {
    if (std::ranges::none_of(bits, [&](const at::Tensor& other) { return other.is_same(one); }))
      scales.push_back(one);
  }
  return grouped(std::move(weights), std::move(others), std::move(scales), rates, std::move(bits));
}

}  // namespace crumb::qat
