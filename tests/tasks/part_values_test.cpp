// Decoders cut into their layers, some of which read what layers further back made: parts give what the whole
// gives, with its gradients, and keep nothing longer than somebody reads it; layers that train one by one
// have the errors of the whole.
#include "tasks/language/student/part_values.h"

#include <doctest/doctest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "graph/qonnx/quantized_constants.h"
#include "graph/quantize/apply.h"
#include "libtorch/execute/graph_module.h"
#include "qat/network.h"
#include "tasks/language/student/block_wise.h"
#include "tasks/language/text/decoder_inputs.h"
#include "tests/models/shared_decoder.h"
#include "tests/qat/networks.h"

namespace {

using crumb::DecoderConfig;
using crumb::graph::Graph;
using crumb::libtorch::GraphModule;
using crumb::libtorch::typed_all;
using crumb::tasks::LanguageText;
using crumb::tasks::PartValues;

constexpr std::int64_t kLength = 9;

LanguageText drawn_text(std::mt19937& random, std::int64_t sequences) {
  LanguageText text;
  for (std::int64_t i = 0; i < sequences * kLength; ++i)
    text.tokens.push_back(static_cast<std::int64_t>(random()) % crumb::testing::kSharedWords);
  return text;
}

std::vector<at::Tensor> inputs_of(const Graph& decoder, const LanguageText& text, std::int64_t batch) {
  return crumb::tasks::decoder_tensors(decoder, text, batch);
}

PartValues::Named named(const Graph& decoder, const std::vector<at::Tensor>& inputs) {
  PartValues::Named made;
  for (std::size_t i = 0; i < inputs.size(); ++i) made[decoder.inputs[i]] = inputs[i];
  return made;
}

Graph of_layers(Graph decoder) {
  decoder.outputs = crumb::models::layer_outputs(decoder);
  return decoder;
}

/// Values of one sequence that wait behind a part: the states, and keys and values that a later layer reads.
std::size_t waiting(const DecoderConfig& config, std::size_t part) {
  std::set<std::size_t> sources;
  for (std::size_t i = part + 1; i < config.layers.size(); ++i)
    if (const auto source = config.layers[i].kv_source; source && *source <= part) sources.insert(*source);
  return (part + 1 < config.layers.size() ? 1 : 0) + 2 * sources.size();
}

/// What the whole decoder's layers have as errors, by the definition: of each token but a sequence's first,
/// squares of what is off over squares of what is meant.
std::vector<double> errors_of_layers(const Graph& floats, const Graph& found,
                                     const std::vector<std::vector<at::Tensor>>& batches) {
  const torch::NoGradGuard no_gradients;
  const GraphModule one(of_layers(floats)), other(of_layers(found));
  std::vector<double> errors(one.graph().outputs.size());
  for (const auto& inputs : batches) {
    const auto meant = crumb::libtorch::tensors_of(one.run(typed_all(inputs))),
               made = crumb::libtorch::tensors_of(other.run(typed_all(inputs)));
    for (std::size_t layer = 0; layer < errors.size(); ++layer) {
      const at::Tensor wanted = meant[layer].slice(1, 1).to(at::kDouble),
                       off = made[layer].slice(1, 1).to(at::kDouble) - wanted;
      errors[layer] += (off.square().sum(-1) / wanted.square().sum(-1)).mean().item<double>() /
                       static_cast<double>(batches.size());
    }
  }
  return errors;
}

crumb::tasks::LanguageRequest request_of(const Graph& decoder, const std::string& recipe,
                                         std::mt19937& random) {
  crumb::tasks::LanguageRequest request;
  request.network = decoder;
  request.recipe = crumb::testing::recipe_of(recipe);
  request.samples.text = drawn_text(random, 6);
  request.samples.length = kLength;
  request.steps.batch = 3;
  request.block_wise.passes = 4;
  request.block_wise.sequences = 6;
  request.block_wise.rate = 2e-3;
  return request;
}

}  // namespace

TEST_CASE(
    "parts of a decoder: what each gives, and its gradients, are the whole's; nothing waits for nobody") {
  std::mt19937 random(21);
  torch::manual_seed(3);
  for (unsigned round = 0; round < 24; ++round) {
    const DecoderConfig config = crumb::testing::drawn_decoder(random, round % 4 != 0);
    CAPTURE(config.model_type);
    CAPTURE(round);
    const Graph decoder = crumb::testing::shared_decoder(config, round);
    GraphModule whole(of_layers(decoder));
    std::vector<std::vector<at::Tensor>> inputs;
    std::vector<PartValues::Named> batches;
    for (int i = 0; i < 2; ++i) {
      inputs.push_back(inputs_of(decoder, drawn_text(random, 2), 2));
      batches.push_back(named(decoder, inputs.back()));
    }
    PartValues values(decoder, batches);
    REQUIRE(values.parts() == config.layers.size());
    std::vector<std::vector<at::Tensor>> meant;
    for (const auto& batch : inputs)
      meant.push_back(crumb::libtorch::tensors_of(whole.run(typed_all(batch))));

    std::vector<std::unique_ptr<GraphModule>> parts;
    std::vector<at::Tensor> ends(2);
    for (std::size_t part = 0; part < values.parts(); ++part) {
      parts.push_back(std::make_unique<GraphModule>(values.graph(part)));
      for (std::size_t batch = 0; batch < 2; ++batch) {
        auto made = crumb::libtorch::tensors_of(parts[part]->run(typed_all(values.inputs(part, batch))));
        CHECK(made[0].equal(meant[batch][part]));
        ends[batch] = made[0];
        values.put(part, batch, std::move(made));
      }
      CHECK(values.carried() == 2 * waiting(config, part));
    }

    const at::Tensor aims = torch::randn(ends[0].sizes());
    ((ends[0] - ends[1]) * aims).sum().backward();
    ((meant[0].back() - meant[1].back()) * aims).sum().backward();
    const auto all = whole.named_parameters();
    std::set<std::string> seen;
    for (const auto& part : parts) {
      for (const auto& parameter : part->named_parameters()) {
        CHECK(seen.insert(parameter.key()).second);
        CHECK(torch::allclose(parameter.value().grad(), all[parameter.key()].grad(), 1e-4, 1e-6));
      }
    }
    for (const auto& parameter : all)
      CHECK(seen.contains(parameter.key()) == parameter.value().grad().defined());
  }
}

TEST_CASE(
    "layers that are computed again give the same gradients where later ones read their keys and values") {
  std::mt19937 random(22);
  torch::manual_seed(4);
  for (unsigned round = 0; round < 12; ++round) {
    const DecoderConfig config = crumb::testing::drawn_decoder(random, true);
    CAPTURE(round);
    const Graph decoder = crumb::testing::shared_decoder(config, round);
    GraphModule plain(decoder), again(decoder);
    again.recompute_between(crumb::models::layer_outputs(decoder));
    const std::vector<at::Tensor> inputs = inputs_of(decoder, drawn_text(random, 2), 2);
    const at::Tensor one = plain.run(typed_all(inputs)).at(0).tensor,
                     other = again.run(typed_all(inputs)).at(0).tensor, aims = torch::randn(one.sizes());
    CHECK(one.equal(other));
    (one * aims).sum().backward();
    (other * aims).sum().backward();
    const auto meant = plain.named_parameters();
    for (const auto& parameter : again.named_parameters())
      CHECK(torch::allclose(parameter.value().grad(), meant[parameter.key()].grad(), 1e-4, 1e-6));
  }
}

TEST_CASE(
    "block-wise training: errors are those of the whole network that was trained, whatever layers read") {
  std::mt19937 random(23);
  const std::vector<std::string> recipes = {
      "weights: int3:channel\n", "weights: int4:channel\nkv_cache: int4\n",
      "weights: int4:channel\nkv_cache: int4:rotate\n", "weights: int4:channel\nactivations: int8:token\n"};
  for (unsigned round = 0; round < 2 * recipes.size(); ++round) {
    const DecoderConfig config = crumb::testing::drawn_decoder(random, true);
    const std::string& recipe = recipes[round % recipes.size()];
    CAPTURE(config.model_type);
    CAPTURE(recipe);
    CAPTURE(round);
    auto request = request_of(crumb::testing::shared_decoder(config, round), recipe, random);
    if (round >= recipes.size() && !request.recipe.activations) {
      // Codes are there before: those of rounding, whose scales learn.
      request.start.network = crumb::graph::apply(
          request.network, crumb::graph::plan_quantizers(
                               request.network, crumb::testing::recipe_of("weights: int4:channel\n")));
      request.recipe = crumb::testing::recipe_of("weights: int4:channel\n");
    }
    crumb::qat::Network network(
        request.start.network ? crumb::graph::fold_quantized(*request.start.network) : request.network,
        request.recipe);
    if (request.start.network) network.begin_with(request.start.network->quantized);
    network.calibrate({});
    const crumb::tasks::Sequences sequences(request.samples.text, request.samples.first,
                                            request.samples.length, "the text");
    const auto lines = crumb::tasks::train_block_wise(request, sequences, network, {});
    REQUIRE(lines.size() == config.layers.size());

    std::vector<std::vector<at::Tensor>> batches;
    for (std::size_t begin = 0; begin < 2; ++begin) {
      LanguageText text;
      const auto from =
          request.samples.text.tokens.begin() + static_cast<std::ptrdiff_t>(begin) * 3 * kLength;
      text.tokens.assign(from, from + 3 * kLength);
      batches.push_back(inputs_of(request.network, text, 3));
    }
    network.eval();
    {
      const torch::NoGradGuard no_gradients;
      (void)network.forward(batches[0]);
    }
    const std::vector<double> errors = errors_of_layers(request.network, network.freeze(), batches);
    double before = 0, after = 0;
    for (std::size_t layer = 0; layer < lines.size(); ++layer) {
      CHECK(lines[layer].error == doctest::Approx(errors[layer]).epsilon(1e-3));
      before += lines[layer].error_before;
      after += lines[layer].error;
    }
    CHECK(after < before);
  }
}
