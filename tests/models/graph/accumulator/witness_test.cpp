// Witnesses: models of a layer that show its worst sums.
#include "models/graph/accumulator/witness.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/models/graph/accumulator/networks.h"

namespace crumb::graph {
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
  for (const ChannelSums& channel : *sums) {
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
  const Graph graph = sample_network();
  for (const Graph& form : {graph, channels_last(graph, true), gemm_to_matmul(graph)}) {
    const ProductLayers layers(form);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      for (const std::size_t tile : {0, 3, 16}) check_witnesses(layers.layer(i), tile);
    }
  }
}

TEST_CASE("two models show the extremes of one channel whose bias is a term of one of them") {
  std::size_t pairs = 0, alone = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    Net net;
    net.engine.seed(seed);
    const auto channels = static_cast<std::int64_t>(1 + seed % 3);
    const std::string x = net.quant(net.input("x", {1, 5}), Tensor::scalar(0.5F), 0, 3, seed % 2 == 0);
    net.graph.outputs = {
        net.node("Gemm", {x, net.weight({5, channels}, 0.25F), net.bias({channels}, 0.125F)})};
    const ProductLayer layer = ProductLayers(infer_shapes(net.graph)).layer(0);
    REQUIRE(layer.input_range);
    for (const std::size_t tile : {0, 2}) (check_witnesses(layer, tile) == 2 ? pairs : alone) += 1;
  }
  CHECK(pairs > 50);
  CHECK(alone > 50);
}

}  // namespace
}  // namespace crumb::graph
