// Witnesses: models of a layer that show its worst sums.
#include "analysis/accumulator/witness.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "graph/passes/passes.h"
#include "tests/analysis/accumulator/networks.h"
#include "tests/support/testing.h"

namespace crumb::analysis {
namespace {

using Ints = std::vector<std::int64_t>;

/// The sums of a dense witness's samples, by its own numbers.
std::vector<Ints> dense_sums(const Witness& witness) {
  const ProductLayer alone = ProductLayers(witness.graph).layer(0);
  const std::vector<float> x = witness.input.to_floats();
  std::vector<Ints> sums(2, Ints(alone.channels));
  for (std::size_t n = 0; n < 2; ++n) {
    for (std::size_t c = 0; c < alone.channels; ++c) {
      sums[n][c] = alone.bias_codes.empty() ? 0 : alone.bias_codes[c];
      for (std::size_t k = 0; k < alone.length; ++k)
        sums[n][c] += alone.codes[c * alone.length + k] * static_cast<std::int64_t>(x[n * alone.length + k]);
    }
  }
  return sums;
}

/// What an adversary without an engine sees: the witness's layer counted again, and its own samples' sums. The number
/// of models.
std::size_t check_witnesses(const ProductLayer& layer, std::size_t tile) {
  const auto witnesses = witnesses_of(layer, tile);
  REQUIRE((witnesses.size() == 1 || witnesses.size() == 2));
  const auto sums = layer.worst_sums(*layer.input_range, tile);
  WorstSums worst;
  for (const graph::ChannelSums& channel : *sums) {
    for (const WorstSums& one : channel) {
      worst.max = std::max(worst.max, one.max);
      worst.min = std::min(worst.min, one.min);
    }
  }
  CHECK(witnesses.front().shows_max);
  CHECK(witnesses.back().shows_min);
  CHECK(witnesses.front().reached.max == worst.max);
  CHECK(witnesses.back().reached.min == worst.min);
  for (const Witness& witness : witnesses) {
    CHECK((witnesses.size() == 1) == (witness.shows_max && witness.shows_min));
    const ProductLayers again(witness.graph);
    REQUIRE(again.size() == 1);
    const ProductLayer alone = again.layer(0);
    CHECK(alone.name == layer.name);
    CHECK(alone.codes == layer.codes);
    CHECK(alone.input_range == layer.input_range);
    if (layer.kind != ProductLayer::Kind::kMatrix || layer.weight_shape.size() != 2) continue;
    const auto found = dense_sums(witness);
    if (witness.shows_max) CHECK(found[0][witness.channel_of_max] == worst.max);
    if (witness.shows_min) CHECK(found[1][witness.channel_of_min] == worst.min);
  }
  return witnesses.size();
}

TEST_CASE("witnesses have their layer's codes and input range, and reach both of its worst sums") {
  const graph::Graph graph = sample_network();
  for (const graph::Graph& form : {graph, graph::channels_last(graph, true), graph::gemm_to_matmul(graph)}) {
    const ProductLayers layers(form);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      for (const std::size_t tile : {0, 3, 16}) check_witnesses(layers.layer(i), tile);
    }
  }
}

TEST_CASE("two models show the extremes of one channel whose bias is a term of one of them") {
  std::size_t pairs = 0, alone = 0;
  for (unsigned seed = 0; seed < (testing::slow() ? 300U : 100U); ++seed) {
    Net net;
    net.engine.seed(seed);
    const auto channels = static_cast<std::int64_t>(1 + seed % 3);
    const std::string x = net.quant(net.input("x", {1, 5}), graph::Tensor::scalar(0.5F), 0, 3, seed % 2 == 0);
    net.graph.outputs = {
        net.node("Gemm", {x, net.weight({5, channels}, 0.25F), net.bias({channels}, 0.125F)})};
    const ProductLayer layer = ProductLayers(graph::infer_shapes(net.graph)).layer(0);
    REQUIRE(layer.input_range);
    for (const std::size_t tile : {0, 2}) (check_witnesses(layer, tile) == 2 ? pairs : alone) += 1;
  }
  CHECK(pairs > 15);
  CHECK(alone > 15);
}

TEST_CASE("a witness's samples are rows of what they are multiplied by, and broadcast to its matrices") {
  for (const Ints& shape : {Ints{4, 5}, {3, 4, 5}, {2, 3, 4, 5}}) {
    for (const bool weight_first : {false, true}) {
      CAPTURE(shape.size());
      CAPTURE(weight_first);
      Net net;
      Ints operand = shape;
      operand[operand.size() - 2] = weight_first ? 5 : 2;
      operand[operand.size() - 1] = weight_first ? 2 : 4;
      const std::string x = net.quant(net.input("x", operand), graph::Tensor::scalar(0.5F), 0, 3, false);
      const std::string w = net.weight(shape, 0.25F);
      net.graph.outputs = {net.node("MatMul", weight_first ? std::vector{w, x} : std::vector{x, w})};
      const ProductLayer layer = ProductLayers(graph::infer_shapes(net.graph)).layer(0);
      REQUIRE(layer.failure() == "");
      for (const Witness& witness : witnesses_of(layer, 0)) {
        Ints expected(shape.size() - 2, 1);
        expected.insert(expected.begin(), 2);  // samples
        if (weight_first) {
          expected.insert(expected.end(), {5, 1});
        } else {
          if (shape.size() > 2) expected.push_back(1);
          expected.push_back(4);
        }
        CHECK(witness.input.shape() == expected);
        CHECK(witness.graph.opsets.at(std::string(graph::kQonnxDomain)) == 1);
      }
    }
  }
}

/// Of one sample, the numbers of a channel of "y": a convolution or a transposed one by its definition, from what the
/// witness's own graph says.
std::vector<double> window_results(const Witness& witness, std::size_t sample, std::size_t channel) {
  const graph::Graph& graph = witness.graph;
  const auto is_product = [](const graph::Node& node) { return node.is("Conv") || node.is("ConvTranspose"); };
  const graph::Node& node = *std::ranges::find_if(graph.nodes, is_product);
  const bool transposed = node.is("ConvTranspose");
  const auto quantizer = std::ranges::find_if(
      graph.nodes, [&](const graph::Node& one) { return one.outputs.at(0) == node.inputs.at(1); });
  const graph::Tensor& weights = graph.initializers.at(quantizer->inputs.at(0));
  const std::vector<float> w = weights.to_floats(), all = witness.input.to_floats();
  const Ints shape = witness.input.shape(), kernel(weights.shape().begin() + 2, weights.shape().end());
  const Ints strides = node.ints_or("strides", {}), dilations = node.ints_or("dilations", {});
  REQUIRE(kernel.size() == 2);
  CHECK(node.ints_or("pads", {}) == Ints{0, 0, 0, 0});
  CHECK(node.ints_or("kernel_shape", {}) == kernel);
  const std::int64_t groups = node.int_or("group", 1), inputs = shape[1], height = shape[2], width = shape[3];
  const std::int64_t outputs = transposed ? weights.shape()[1] * groups : weights.shape()[0];
  const auto c = static_cast<std::int64_t>(channel), n = static_cast<std::int64_t>(sample);
  std::map<std::pair<std::int64_t, std::int64_t>, double> made;
  for (std::int64_t ci = 0; ci < inputs; ++ci) {
    if (ci / (inputs / groups) != c / (outputs / groups)) continue;
    for (std::int64_t y = 0; y < height; ++y) {
      for (std::int64_t x = 0; x < width; ++x) {
        for (std::int64_t i = 0; i < kernel[0]; ++i) {
          for (std::int64_t j = 0; j < kernel[1]; ++j) {
            const std::int64_t first = transposed ? ci : c,
                               second = transposed ? c % (outputs / groups) : ci % (inputs / groups);
            const std::int64_t at = ((first * weights.shape()[1] + second) * kernel[0] + i) * kernel[1] + j;
            const double product =
                static_cast<double>(w[static_cast<std::size_t>(at)]) *
                all[static_cast<std::size_t>(((n * inputs + ci) * height + y) * width + x)];
            if (transposed) {
              made[{y * strides[0] + i * dilations[0], x * strides[1] + j * dilations[1]}] += product;
            } else if (y - i >= 0 && x - j >= 0 && y - i + kernel[0] <= height &&
                       x - j + kernel[1] <= width) {
              made[{y - i, x - j}] += product;  // strides and dilations of 1
            }
          }
        }
      }
    }
  }
  std::vector<double> results;
  for (const auto& [place, sum] : made) results.push_back(sum);
  return results;
}

TEST_CASE("layers whose sums nothing can drive have no witness") {
  using S = std::string;
  const auto count = [](const std::function<S(Net&)>& input, const std::function<S(Net&)>& weight) {
    Net net;
    const S x = input(net), w = weight(net);
    net.graph.outputs = {net.node("MatMul", {x, w})};
    return witnesses_of(ProductLayers(graph::infer_shapes(net.graph)).layer(0), 0).size();
  };
  const auto known = [](Net& net) {
    return net.quant(net.input("x", {4, 3}), graph::Tensor::scalar(0.5F), 0, 3);
  };
  const auto unknown = [](Net& net) { return net.input("x", {4, 3}); };
  const auto codes = [](Net& net) { return net.weight({3, 2}, 0.5F); };
  const auto floats = [](Net& net) {
    return net.constant("f", graph::Tensor::floats({3, 2}, std::vector<float>(6, 0.3F)));
  };
  const auto computed = [](Net& net) {
    return net.quant(net.input("w", {3, 2}), graph::Tensor::scalar(0.5F), 0, 3);
  };
  CHECK(count(known, codes) > 0);
  CHECK(count(unknown, codes) == 0);
  CHECK(count(known, floats) == 0);
  CHECK(count(unknown, floats) == 0);
  CHECK(count(known, computed) == 0);
  CHECK(count(unknown, computed) == 0);
}

TEST_CASE("the samples of windows' witnesses give their worst sums, by the operators' definitions") {
  for (unsigned seed = 0; seed < (testing::slow() ? 400U : 140U); ++seed) {
    CAPTURE(seed);
    Net net;
    net.engine.seed(seed);
    const auto draw = [&](int low, int high) {
      return static_cast<std::int64_t>(std::uniform_int_distribution<int>(low, high)(net.engine));
    };
    const std::int64_t groups = draw(1, 3), inputs = groups * draw(1, 3), outputs = groups * draw(1, 3);
    const bool transposed = seed % 2 == 0, is_signed = seed % 3 != 0;
    const int most = transposed ? 6 : 3;  // so that several taps have one phase
    const Ints kernel{draw(1, most), draw(1, most)}, strides{draw(1, 4), draw(1, 3)},
        dilations{draw(1, 3), draw(1, 3)};
    const bool narrow = is_signed && seed % 5 == 0;
    const std::string x =
        net.quant(net.input("x", {1, inputs, 9, 9}), graph::Tensor::scalar(0.5F),
                  seed % 7 == 0 && !narrow ? 1.0F : 0.0F, static_cast<float>(draw(2, 5)), is_signed, narrow);
    const Ints shape = transposed ? Ints{inputs, outputs / groups, kernel[0], kernel[1]}
                                  : Ints{outputs, inputs / groups, kernel[0], kernel[1]};
    net.graph.outputs = {net.node(
        transposed ? "ConvTranspose" : "Conv", {x, net.weight(shape, 0.25F)},
        {{"group", groups}, {"kernel_shape", kernel}, {"strides", strides}, {"dilations", dilations}})};
    const ProductLayer layer = ProductLayers(graph::infer_shapes(net.graph)).layer(0);
    REQUIRE(layer.input_range);
    check_witnesses(layer, 0);
    for (const Witness& witness : witnesses_of(layer, 0)) {
      CHECK(std::ranges::max(window_results(witness, 0, witness.channel_of_max)) ==
            static_cast<double>(witness.reached.max));
      CHECK(std::ranges::min(window_results(witness, 1, witness.channel_of_min)) ==
            static_cast<double>(witness.reached.min));
    }
  }
}

}  // namespace
}  // namespace crumb::analysis
