// What a certificate claims against what its layer does.
#include <doctest/doctest.h>

#include <algorithm>

#include "analysis/accumulator/check.h"
#include "tests/analysis/accumulator/networks.h"
#include "tests/support/samples.h"

namespace crumb::analysis {
namespace {

using testing::says;

constexpr auto kPlaces = {graph::BiasPlace::kNone, graph::BiasPlace::kInside, graph::BiasPlace::kAfter};

/// One dense layer with a bias of 1000 units in that place.
graph::Graph dense(graph::BiasPlace place, bool as_add) {
  Net net;
  const std::string x = net.quant(net.input("x", {1, 4}), graph::Tensor::scalar(0.5F), 0, 4, false);
  const std::string w = net.quant(
      net.constant("w", graph::Tensor::floats({4, 1}, std::vector<float>{0.25F, 0.25F, 0.25F, 0.25F})),
      graph::Tensor::scalar(0.25F), 0, 4);
  const float unit = place == graph::BiasPlace::kInside ? 0.125F : 0.3F;
  std::string b = net.constant("b", graph::Tensor::floats({1}, std::vector<float>{1000 * unit}));
  if (place == graph::BiasPlace::kInside) b = net.quant(b, graph::Tensor::scalar(unit), 0, 32);
  if (place == graph::BiasPlace::kNone) {
    net.graph.outputs = {net.node("Gemm", {x, w})};
  } else if (as_add) {
    net.graph.outputs = {net.node("Add", {net.node("MatMul", {x, w}), b})};
  } else {
    net.graph.outputs = {net.node("Gemm", {x, w, b})};
  }
  return graph::infer_shapes(net.graph);
}

TEST_CASE(
    "the claim about a bias is the layer's own, in all nine combinations; the sums are the layer's in each") {
  for (const graph::BiasPlace found : kPlaces) {
    for (const bool as_add : {false, true}) {
      const graph::Graph graph = dense(found, as_add);
      const std::int64_t most = 4 * 15 + (found == graph::BiasPlace::kInside ? 1000 : 0);
      for (const graph::BiasPlace claimed : kPlaces) {
        for (const bool true_sums : {false, true}) {
          CAPTURE(std::string(name_of(found)));
          CAPTURE(std::string(name_of(claimed)));
          graph::Graph claims = graph;
          const auto node = std::ranges::find_if(
              claims.nodes, [](const graph::Node& n) { return n.is("Gemm") || n.is("MatMul"); });
          set_certificate(*node, {.bits = true_sums ? 12 : 7,
                                  .input = {0, 15},
                                  .bias = claimed,
                                  .worst = {{{true_sums ? most : 4 * 15, 0}}}});
          const AccumulatorReport report = check_accumulators(claims);
          REQUIRE(report.layers.size() == 1);
          CHECK(report.layers[0].bias == found);
          CHECK(report.layers[0].worst == WorstSums{most, 0});
          const bool sums_hold = true_sums || found != graph::BiasPlace::kInside;
          CHECK(report.failures.size() == (found == claimed ? 0 : 1) + (sums_hold ? 0 : 1));
          if (found == claimed) continue;
          REQUIRE(!report.failures.empty());
          const auto words = [](graph::BiasPlace place) {
            return place == graph::BiasPlace::kInside  ? "inside the accumulator"
                   : place == graph::BiasPlace::kAfter ? "after the accumulator"
                                                       : "none";
          };
          CHECK(says(report.failures[0], {"its bias is ", words(found), ", certified as ", words(claimed)}));
        }
      }
    }
  }
}

}  // namespace
}  // namespace crumb::analysis
