// An adversary that tries every input of small layers: whatever verify claims of a register is reached by a partial sum
// of some input, and no partial sum of any input goes beyond.
//
// What the adversary knows of a layer is what it was made from, and nothing that the code under test says: for each
// register the numbers that each term can be, and the bias.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>

#include "analysis/accumulator/check.h"
#include "graph/onnx/infer_shapes.h"
#include "tests/analysis/accumulator/small_layers.h"
#include "tests/support/testing.h"

namespace crumb::analysis {
namespace {

using Ints = std::vector<std::int64_t>;

/// Every input, and every choice of terms that are in the sum already, in whatever order: an odometer over them.
WorstSums extremes(const AddedNumbers& of) {
  std::vector<Ints> choices = of.terms;
  choices.push_back({of.bias});
  for (Ints& one : choices) one.push_back(0);  // not added yet
  std::vector<std::size_t> at(choices.size(), 0);
  WorstSums worst;
  std::int64_t sum = 0;
  for (const Ints& one : choices) sum += one[0];
  for (bool more = true; more;) {
    worst = {std::max(worst.max, sum), std::min(worst.min, sum)};
    more = false;
    for (std::size_t i = 0; i < at.size() && !more; ++i) {
      sum -= choices[i][at[i]];
      more = ++at[i] < choices[i].size();
      if (!more) at[i] = 0;
      sum += choices[i][at[i]];
    }
  }
  return worst;
}

int bits_for(const WorstSums& sums) {
  int bits = 1;
  while (sums.max > (std::int64_t{1} << (bits - 1)) - 1 || sums.min < -(std::int64_t{1} << (bits - 1)))
    ++bits;
  return bits;
}

/// Of every world: channels, and registers of each.
std::vector<std::vector<WorstSums>> tried(const SmallLayer& layer) {
  std::vector<std::vector<WorstSums>> all;
  for (const AddedRows& rows : layer.worlds) {
    all.resize(rows.size());
    for (std::size_t c = 0; c < rows.size(); ++c) {
      all[c].resize(rows[c].size());
      for (std::size_t r = 0; r < rows[c].size(); ++r) {
        const WorstSums one = extremes(rows[c][r]);
        all[c][r] = {std::max(all[c][r].max, one.max), std::min(all[c][r].min, one.min)};
      }
    }
  }
  return all;
}

void check_layer(const SmallLayer& layer, std::size_t tile) {
  graph::Graph graph = graph::infer_shapes(layer.net.graph);
  const auto expected = tried(layer);
  const ProductLayers layers(graph);
  REQUIRE(layers.size() == 1);
  const ProductLayer found = layers.layer(0);
  REQUIRE(found.failure() == "");
  const auto sums = found.worst_sums(tile);
  REQUIRE(sums);
  for (std::size_t c = 0; c < expected.size() && layer.has_codes; ++c) {
    REQUIRE((*sums)[c].size() == expected[c].size());
    for (std::size_t r = 0; r < expected[c].size(); ++r) {
      CAPTURE(c);
      CAPTURE(r);
      CHECK((*sums)[c][r].max == expected[c][r].max);
      CHECK((*sums)[c][r].min == expected[c][r].min);
    }
  }
  if (layer.has_codes) {
    graph = with_certificates(graph, {{layer.node, {.bits = 32, .tile = tile, .constrained = true}}});
  }
  const AccumulatorReport report = check_accumulators(graph);
  for (const std::string& failure : report.failures) FAIL_CHECK(failure);
  REQUIRE(report.layers.size() == 1);
  WorstSums worst;
  int bits = 1;
  for (const auto& channel : expected) {
    for (const WorstSums& one : channel) {
      worst = {std::max(worst.max, one.max), std::min(worst.min, one.min)};
      bits = std::max(bits, bits_for(one));
    }
  }
  const AccumulatorRow& row = report.layers[0];
  CHECK(row.worst == worst);
  CHECK(row.bits_needed == bits);
  CHECK(check_accumulators(graph, {.ranges = {}, .bits = bits}).failures.empty());
  if (bits > 1) CHECK(check_accumulators(graph, {.ranges = {}, .bits = bits - 1}).failures.size() == 1);
}

TEST_CASE("an adversary that tries every input of a small layer reaches each claim, and none goes beyond") {
  const unsigned rounds = testing::slow() ? 4000 : 20;
  for (std::size_t kind = 0; kind < LayerMaker::kKinds.size(); ++kind) {
    CAPTURE(std::string(LayerMaker::kKinds[kind].name));
    for (unsigned round = 0; round < rounds; ++round) {
      CAPTURE(round);
      LayerMaker maker(round * 64 + static_cast<unsigned>(kind));
      const auto drawn = static_cast<std::size_t>(maker.draw(0, 4));
      const SmallLayer layer = maker.make(kind, drawn);
      check_layer(layer, layer.has_codes ? drawn : 0);
    }
  }
}

}  // namespace
}  // namespace crumb::analysis
