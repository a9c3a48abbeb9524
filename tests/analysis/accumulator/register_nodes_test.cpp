// Nodes drawn in every form that registers take, against the runtime's kernels; and the witnesses of their layers, executed.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "analysis/accumulator/run_in_registers.h"
#include "analysis/accumulator/witness.h"
#include "graph/strided_index.h"
#include "runtime/engine.h"
#include "tests/analysis/accumulator/drawn_node.h"
#include "tests/support/capture_copy.h"
#include "tests/support/testing.h"

namespace crumb::analysis {
namespace {

using Ints = std::vector<std::int64_t>;
using Text = std::string;
using graph::ElementType;
using graph::Tensor;

Tensor moved(const Tensor& x, const Ints& order) { return graph::transposed(x, order); }

/// By the runtime, each input of the node an input of the graph. Channels-last by way of channels first.
Tensor by_runtime(const DrawnNode& drawn) {
  graph::Graph graph{.inputs = {}, .outputs = {"y"}, .opsets = {{"", 13}}};
  graph::Node node = drawn.node;
  std::vector<Tensor> inputs = drawn.inputs;
  if (drawn.is_integer()) {  // floats less their zero points
    node.op = node.op == "ConvInteger" ? "Conv" : "MatMul";
    const bool by_row = node.op == "Conv";
    for (std::size_t i = 0; i < 2; ++i) {
      std::vector<float> values = inputs[i].to_floats();
      const std::vector<float> zeros =
          i + 2 < inputs.size() ? inputs[i + 2].to_floats() : std::vector<float>{0};
      const std::size_t each = values.size() / zeros.size();
      for (std::size_t at = 0; at < values.size(); ++at)
        values[at] -= zeros[by_row ? at / each : at % zeros.size()];
      inputs[i] = Tensor::floats(inputs[i].shape(), values);
    }
    inputs.resize(2);
    node.inputs.resize(2);
  }
  const bool is_last = node.domain == graph::kChannelsLastDomain;
  const auto rank = static_cast<std::int64_t>(inputs[0].rank());
  Ints first{0, rank - 1}, last{0};
  for (std::int64_t i = 1; i < rank - 1; ++i) first.push_back(i);
  for (std::int64_t i = 2; i < rank; ++i) last.push_back(i);
  last.push_back(1);
  if (is_last) {
    inputs[0] = moved(inputs[0], first);
    inputs[1] = moved(inputs[1], first);
    node.domain.clear();
  }
  node.version = 13;
  node.outputs = {"y"};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    node.inputs[i] = "in" + std::to_string(i);
    graph.inputs.push_back(node.inputs[i]);
    graph.values[node.inputs[i]] = {
        .type = inputs[i].type(), .shape = graph::Shape(inputs[i].shape().begin(), inputs[i].shape().end())};
  }
  graph.nodes = {node};
  const Tensor made = runtime::Engine(1).prepare_in_floats(graph::infer_shapes(graph))->run(inputs).at(0);
  return is_last ? moved(made, last) : made;
}

TEST_CASE(
    "nodes in registers give what the runtime gives, whatever their shapes, attributes and order of "
    "operands") {
  const std::vector<std::pair<const char*, void (DrawnNode::*)()>> kinds{
      {"matrices", &DrawnNode::matrices},
      {"gemm", &DrawnNode::gemm},
      {"convolution", &DrawnNode::convolution},
      {"equation", &DrawnNode::equation},
      {"integers", &DrawnNode::integers}};
  for (const auto& [name, make] : kinds) {
    for (unsigned seed = 0; seed < (testing::slow() ? 250U : 80U); ++seed) {
      CAPTURE_COPY(Text(name));
      CAPTURE(seed);
      DrawnNode drawn(seed);
      (drawn.*make)();
      const ProductLayers layers(graph::infer_shapes(drawn.net.graph));
      REQUIRE(layers.size() == 1);
      const ProductLayer layer = layers.layer(0);
      REQUIRE(layer.failure() == "");
      REQUIRE(why_not_simulated(layer) == "");
      SimulatedLayer simulated(layer, seed % 3, {40, OverflowMode::kCheck});
      const Tensor found = run_in_registers(simulated, drawn.node, drawn.inputs), wanted = by_runtime(drawn);
      CHECK(found.type() == (drawn.is_integer() ? ElementType::kInt32 : ElementType::kFloat));
      REQUIRE(found.shape() == wanted.shape());
      CHECK(found.to_floats() == wanted.to_floats());
      CHECK(simulated.report().results == wanted.size());
    }
  }
}

/// Whether inputs can be absent: else no input keeps a term out of a sum.
bool has_zero(const ProductLayer& layer) {
  return layer.input_range->low <= 0 && layer.input_range->high >= 0;
}

TEST_CASE("witnesses, executed, give the sums that they are there for") {
  const std::vector<void (DrawnNode::*)()> kinds{&DrawnNode::matrices, &DrawnNode::gemm,
                                                 &DrawnNode::convolution};
  int shown = 0, of_tiles = 0, pairs = 0;
  for (const auto make : kinds) {
    for (unsigned seed = 1000; seed < 1250; ++seed) {
      CAPTURE(seed);
      DrawnNode drawn(seed);
      (drawn.*make)();
      const ProductLayer layer = ProductLayers(graph::infer_shapes(drawn.net.graph)).layer(0);
      REQUIRE(layer.failure() == "");
      const std::size_t tile = seed % 3;
      const auto witnesses = witnesses_of(layer, tile);
      if (!layer.has_codes()) {
        CHECK(witnesses.empty());
        continue;
      }
      REQUIRE(has_zero(layer));
      WorstSums worst;
      const auto sums = layer.worst_sums(tile).value();
      for (const graph::ChannelSums& channel : sums) {
        for (const WorstSums& one : channel)
          worst = {.max = std::max(worst.max, one.max), .min = std::min(worst.min, one.min)};
      }
      pairs += witnesses.size() == 2;
      for (const Witness& witness : witnesses) {
        ++shown;
        of_tiles += tile > 0;
        const std::vector<float> y =
            runtime::Engine(1).prepare_in_floats(witness.graph)->run({witness.input}).at(0).to_floats();
        const std::size_t sample = y.size() / 2, places = sample / layer.channels;
        REQUIRE(places * layer.channels * 2 == y.size());
        const auto holds = [&](std::size_t at, std::size_t channel, std::int64_t sum) {
          const auto first = y.begin() + static_cast<std::ptrdiff_t>(at * sample + channel * places);
          const auto last = first + static_cast<std::ptrdiff_t>(places);
          return std::find(first, last, static_cast<float>(sum)) != last;
        };
        CHECK(holds(0, witness.channel_of_max, witness.reached.max));
        CHECK(holds(1, witness.channel_of_min, witness.reached.min));
        if (witness.shows_max) CHECK(witness.reached.max == worst.max);
        if (witness.shows_min) CHECK(witness.reached.min == worst.min);
        if (tile == 0) {  // nothing goes beyond it
          for (std::size_t i = 0; i < y.size(); ++i) {
            CHECK(y[i] <= static_cast<float>(worst.max));
            CHECK(y[i] >= static_cast<float>(worst.min));
          }
        }
      }
    }
  }
  CHECK(shown > 400);
  CHECK(of_tiles > 200);
  CHECK(pairs > 10);
}

TEST_CASE("a weight of strided windows has a part for each phase, and one of strides 1 has none") {
  for (const auto& strides : {Ints{1, 1}, Ints{2, 1}, Ints{1, 3}, Ints{2, 2}}) {
    Net net;
    const Text x = net.quant(net.input("x", {1, 2, 4, 4}), Tensor::scalar(0.5F), 0, 4);
    net.graph.outputs = {
        net.node("ConvTranspose", {x, net.weight({2, 1, 3, 3}, 0.25F)}, {{"strides", strides}})};
    const ProductLayer layer = ProductLayers(graph::infer_shapes(net.graph)).layer(0);
    REQUIRE(layer.failure() == "");
    CHECK(layer.part.size() == (strides == Ints{1, 1} ? 0 : layer.codes.size()));
    std::set<std::uint32_t> parts(layer.part.begin(), layer.part.end());
    CHECK(parts.size() == (strides == Ints{1, 1} ? 0 : static_cast<std::size_t>(strides[0] * strides[1])));
  }
}

}  // namespace
}  // namespace crumb::analysis
