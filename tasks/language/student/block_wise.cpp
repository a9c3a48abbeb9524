#include "tasks/language/student/block_wise.h"

#include <ATen/ATen.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>
#include <torch/utils.h>

#include <cmath>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "graph/qonnx/quantized_constants.h"
#include "libtorch/device.h"
#include "tasks/language/student/part_values.h"
#include "tasks/language/student/short_products.h"
#include "tasks/language/student/start_adapters.h"
#include "tasks/language/teachers/float_network.h"
#include "tasks/language/text/decoder_inputs.h"
#include "tasks/language/text/language_loss.h"
#include "tasks/train/fit.h"

namespace crumb::tasks {
namespace {

using graph::Graph;

constexpr std::uint64_t kOrderStream = std::uint64_t{1} << 40;  ///< a stream of the seed apart from the other
                                                                ///< orders

/// Returns the mean relative error without the first position of each sequence. States [batch, length,
/// width].
at::Tensor relative_error(const at::Tensor& found, const at::Tensor& meant) {
  const std::int64_t length = meant.size(1);
  return relative_errors(found.narrow(1, 1, length - 1), meant.narrow(1, 1, length - 1)).mean();
}

/// Moves weights by the signs of gradients, by at most half a step of their grids.
class SignedRounding {
 public:
  explicit SignedRounding(std::vector<qat::Network::Rounded> weights) : weights_(std::move(weights)) {
    for (const qat::Network::Rounded& one : weights_) {
      least_.push_back(one.weight.detach() - one.steps / 2);
      most_.push_back(one.weight.detach() + one.steps / 2);
    }
  }

  /// Steps by `share` of a grid's step.
  void step(double share) {
    const torch::NoGradGuard no_gradients;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      at::Tensor weight = weights_[i].weight;
      if (!weight.grad().defined()) continue;
      weight.sub_(weight.grad().sign() * weights_[i].steps, share).clamp_(least_[i], most_[i]);
    }
  }

 private:
  std::vector<qat::Network::Rounded> weights_;
  std::vector<at::Tensor> least_, most_;
};

class LayerTraining {
 public:
  /// `part`: the part in floats; `start`: the part with the weights from which training begins.
  LayerTraining(const LanguageRequest& request, const Graph& part, const Graph& start)
      : request_(request),
        floats_(part, libtorch::device_named(request.compute.device)),
        student_(start, request.recipe) {
    if (request.start.network) student_.begin_with(request.start.network->quantized);
    student_.calibrate({});
    if (request.block_wise.scales_alone) student_.fix_codes();
    student_.to(libtorch::device_named(request.compute.device));
  }

  /// Returns the part's outputs without gradients, its states first: what later layers read of it they take
  /// as it is.
  std::vector<at::Tensor> meant(const std::vector<at::Tensor>& inputs) const {
    return floats_.outputs(inputs);
  }

  std::vector<at::Tensor> found(const std::vector<at::Tensor>& inputs) {
    const torch::NoGradGuard no_gradients;
    student_.eval();
    return student_.forward(inputs);
  }

  /// Trains on `inputs` and `meant`, one entry for each batch.
  void train(const std::vector<std::vector<at::Tensor>>& inputs, const std::vector<at::Tensor>& meant,
             std::int64_t layer) {
    const BlockWise& how = request_.block_wise;
    torch::optim::AdamW optimizer(
        student_.parameter_groups(
            {.learning_rate = how.rate, .weight_decay = 0, .scale_learning_rate = how.scale_rate}),
        torch::optim::AdamWOptions(how.rate));
    std::vector<double> rates = rates_of(optimizer);
    if (how.signs) rates.at(0) = 0;  // the rate of weights
    SignedRounding rounding(how.signs ? student_.rounded_weights() : std::vector<qat::Network::Rounded>());
    const auto batches = static_cast<std::int64_t>(inputs.size()), steps = how.passes * batches;
    Rounds rounds(batches, request_.steps.seed + kOrderStream + static_cast<std::uint64_t>(layer));
    student_.train();
    for (std::int64_t step = 0; step < steps; ++step) {
      check_interrupt();
      std::size_t group = 0;
      for (auto& parameters : optimizer.param_groups())
        parameters.options().set_lr(rates[group++] * cosine(step, steps));
      student_.advance(static_cast<double>(step) / static_cast<double>(steps));
      const auto batch = static_cast<std::size_t>(rounds.at(step));
      const ShortProducts short_products(request_.compute.products);
      const at::Tensor loss = relative_error(student_.forward(inputs[batch]).at(0), meant[batch]);
      if (!std::isfinite(loss.item<double>()))
        throw Error("the error of layer " + std::to_string(layer) + " is not finite in step " +
                    std::to_string(step + 1) + ": training diverged");
      optimizer.zero_grad();
      (loss + student_.penalty()).backward();
      torch::nn::utils::clip_grad_norm_(student_.parameters(), request_.optimizer.most_gradient);
      optimizer.step();
      rounding.step(cosine(step, steps) / static_cast<double>(steps));
    }
  }

  /// Stores the trained tensors in the whole network, by name.
  void put_into(qat::Network& network) const {
    const torch::NoGradGuard no_gradients;
    auto whole = network.named_parameters();
    for (const auto& own : student_.named_parameters()) {
      at::Tensor* place = whole.find(own.key());
      if (!place) throw Error("the network has no parameter " + quote_text(own.key()) + " of its part");
      place->copy_(own.value());
    }
  }

 private:
  const LanguageRequest& request_;
  FloatNetwork floats_;
  qat::Network student_;
};

/// Returns the first sequences in batches.
std::vector<PartValues::Named> decoder_batches(const LanguageRequest& request, const Sequences& sequences) {
  std::vector<PartValues::Named> batches;
  const std::int64_t count = std::min(request.block_wise.sequences, sequences.count());
  for (std::int64_t begin = 0; begin < count; begin += request.steps.batch) {
    const std::int64_t batch = std::min(request.steps.batch, count - begin);
    LanguageText text;
    for (std::int64_t i = begin; i < begin + batch; ++i) sequences.append(i, text);
    const std::vector<at::Tensor> inputs =
        decoder_tensors(request.network, text, batch, libtorch::device_named(request.compute.device));
    PartValues::Named& named = batches.emplace_back();
    for (std::size_t i = 0; i < inputs.size(); ++i) named[request.network.inputs[i]] = inputs[i];
  }
  return batches;
}

/// Returns the start of the whole network (student.cpp).
Graph trainable_start(const LanguageRequest& request) {
  return StartAdapters(*request.start.network, request.steps.learn_adapters)
      .trainable(graph::fold_quantized(*request.start.network));
}

}  // namespace

std::vector<LayerLine> train_block_wise(
    const LanguageRequest& request, const Sequences& sequences, qat::Network& network,
    const std::function<void(const LayerLine&, std::int64_t layers)>& layer_done) {
  // The whole network's codes follow from its weights; they stay where the weights and the scales that find
  // codes stay.
  if (request.block_wise.scales_alone && !request.start.network)
    throw usage_error(
        "the stage block_wise learns scales alone of codes that were found before it: give "
        "--start, or a stage that rounds");
  const std::vector<PartValues::Named> batches = decoder_batches(request, sequences);
  PartValues floats(request.network, batches),
      quantized(request.start.network ? trainable_start(request) : request.network, batches);
  std::vector<LayerLine> lines;
  for (std::size_t layer = 0; layer < floats.parts(); ++layer) {
    LayerTraining training(request, floats.graph(layer), quantized.graph(layer));
    std::vector<std::vector<at::Tensor>> taken;
    std::vector<at::Tensor> meant;  // states
    for (std::size_t batch = 0; batch < batches.size(); ++batch) {
      std::vector<at::Tensor> made = training.meant(floats.inputs(layer, batch));
      meant.push_back(made.at(0));
      floats.put(layer, batch, std::move(made));
      taken.push_back(quantized.inputs(layer, batch));
    }
    const auto error_of = [&](const auto& take) {
      double sum = 0;
      for (std::size_t batch = 0; batch < batches.size(); ++batch) {
        std::vector<at::Tensor> found = training.found(taken[batch]);
        sum += relative_error(found.at(0), meant[batch]).template item<double>();
        take(batch, std::move(found));
      }
      return sum / static_cast<double>(batches.size());
    };
    LayerLine line{.layer = static_cast<std::int64_t>(layer)};
    line.error_before = error_of([](std::size_t, const std::vector<at::Tensor>&) {});
    training.train(taken, meant, line.layer);
    line.error = error_of([&](std::size_t batch, std::vector<at::Tensor> found) {
      quantized.put(layer, batch, std::move(found));
    });
    training.put_into(network);
    lines.push_back(line);
    if (layer_done) layer_done(line, static_cast<std::int64_t>(floats.parts()));
  }
  return lines;
}

}  // namespace crumb::tasks
