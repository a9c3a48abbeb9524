// Adapters in drawn networks: what is added is found again, of every kind that it can be kept as; what is dropped leaves the
// network as it was; several stack.
#include "graph/adapters.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/error.h"
#include "base/files/text.h"
#include "formats/half.h"
#include "graph/packed/crumb_graph.h"
#include "tests/graph/node_builder.h"
#include "tests/support/testing.h"

namespace {

using crumb::Adapter;
using crumb::LowRankUpdate;
using crumb::graph::AdapterType;
using crumb::graph::Graph;
using crumb::graph::Node;
using crumb::graph::Tensor;

using Random = std::mt19937;

std::vector<float> drawn_floats(std::size_t count, Random& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

/// Layers behind one another; some matrices are codes, some meet two inputs, some products are an output.
struct Drawn {
  Graph graph;
  std::map<std::string, std::pair<std::size_t, std::size_t>> sizes;  ///< in and out, by module
};

Drawn drawn_network(Random& random) {
  crumb::graph::NodeBuilder made;
  Drawn drawn;
  std::size_t width = 1 + random() % 9;
  std::string x = made.input("x", {3, static_cast<std::int64_t>(width)});
  const std::size_t layers = 1 + random() % 4;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::size_t out = 1 + random() % 9;
    const std::string module = "layers." + std::to_string(layer) + ".fc";
    const std::string weight = random() % 4 == 0 ? module : module + ".weight";
    const bool is_gemm = random() % 3 == 0, is_transposed = is_gemm && random() % 2 == 0;
    const auto rows = static_cast<std::int64_t>(is_transposed ? out : width),
               columns = static_cast<std::int64_t>(is_transposed ? width : out);
    const Tensor values = Tensor::floats({rows, columns}, drawn_floats(width * out, random));
    if (random() % 2 == 0) {
      made.graph.quantized[weight] = crumb::graph::quantize_constant(crumb::QuantSpec::parse("int4:channel"),
                                                                     values, is_transposed ? 0 : 1, weight);
      made.graph.values[weight] = crumb::graph::value_of(values);
    } else {
      made.constant(weight, values);
    }
    const auto product = [&](const std::string& of) {
      if (!is_gemm) return made.node("MatMul", {of, weight});
      return made.node("Gemm", {of, weight}, {{"transB", static_cast<std::int64_t>(is_transposed)}});
    };
    std::string y = product(x);
    if (random() % 3 == 0) y = made.node("Add", {y, product(made.node("Neg", {x}))});
    if (random() % 2 == 0) made.graph.outputs.push_back(y);
    x = random() % 2 == 0 ? made.node("Relu", {y}) : y;
    drawn.sizes[module] = {width, out};
    width = out;
  }
  if (made.graph.outputs.empty() || made.graph.outputs.back() != x) made.graph.outputs.push_back(x);
  drawn.graph = std::move(made.graph);
  return drawn;
}

Adapter drawn_adapter(const Drawn& network, Random& random) {
  Adapter adapter;
  for (const auto& [module, sizes] : network.sizes) {
    if (random() % 4 == 0 && !adapter.updates.empty()) continue;
    const std::size_t rank = 1 + random() % 5;
    adapter.updates.push_back({.module = module,
                               .rank = rank,
                               .in = sizes.first,
                               .out = sizes.second,
                               .down = drawn_floats(rank * sizes.first, random),
                               .up = drawn_floats(rank * sizes.second, random),
                               .scale = std::ldexp(1.0F, static_cast<int>(random() % 5) - 2)});
  }
  return adapter;
}

float kept_as(float value, AdapterType type) {
  if (type == AdapterType::kFloat16) return crumb::f16_to_float(crumb::float_to_f16(value));
  if (type == AdapterType::kBfloat16) return crumb::bf16_to_float(crumb::float_to_bf16(value));
  return value;
}

/// Of each row [rows, columns], int8 is within half a step of 1/127 of the row's largest.
void check_values(const std::vector<float>& found, const std::vector<float>& meant, std::size_t columns,
                  AdapterType type) {
  REQUIRE(found.size() == meant.size());
  const auto is_kept = [&](std::size_t i) {
    if (type != AdapterType::kInt8) return found[i] == kept_as(meant[i], type);
    const auto row = meant.begin() + static_cast<std::ptrdiff_t>(i / columns * columns);
    float most = 0;
    for (std::size_t j = 0; j < columns; ++j)
      most = std::max(most, std::fabs(row[static_cast<std::ptrdiff_t>(j)]));
    return std::fabs(found[i] - meant[i]) <= most / 127 * 0.501F;
  };
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!is_kept(i)) FAIL("number " << i << " is " << found[i] << ", expected " << meant[i]);
  }
}

/// Nodes in any order that can be executed.
void check_same(Graph found, Graph meant) {
  for (Graph* graph : {&found, &meant}) std::ranges::sort(graph->nodes, {}, &Node::name);
  REQUIRE(found.inputs == meant.inputs);
  REQUIRE(found.outputs == meant.outputs);
  REQUIRE(found.initializers.size() == meant.initializers.size());
  REQUIRE(found.quantized.size() == meant.quantized.size());
  REQUIRE(found.nodes.size() == meant.nodes.size());
  for (std::size_t i = 0; i < found.nodes.size(); ++i) {
    const Node &one = found.nodes[i], &other = meant.nodes[i];
    REQUIRE(one.name == other.name);
    REQUIRE(one.op == other.op);
    REQUIRE(one.inputs == other.inputs);
    REQUIRE(one.outputs == other.outputs);
  }
}

std::string error_of(const auto& action) {
  try {
    action();
  } catch (const crumb::Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("adapters: what is added is found, and what is dropped leaves the network as it was") {
  Random random(31);
  const int trials = crumb::testing::slow() ? 3000 : 1000;
  for (int trial = 0; trial < trials; ++trial) {
    const Drawn network = drawn_network(random);
    const Adapter first = drawn_adapter(network, random), second = drawn_adapter(network, random);
    const auto type = static_cast<AdapterType>(random() % 4);
    const Graph one = crumb::graph::add_adapter(network.graph, first, "one", type);
    REQUIRE(crumb::graph::adapter_names(one) == std::vector<std::string>{"one"});
    REQUIRE(crumb::graph::linear_products(one).size() == crumb::graph::linear_products(network.graph).size());
    const Adapter found = crumb::graph::adapter_of(one, "one");
    REQUIRE(found.updates.size() == first.updates.size());
    for (std::size_t i = 0; i < found.updates.size(); ++i) {
      const LowRankUpdate &update = found.updates[i], &meant = first.updates[i];
      REQUIRE(update.module == meant.module);
      REQUIRE(update.rank == meant.rank);
      REQUIRE(update.in == meant.in);
      REQUIRE(update.out == meant.out);
      REQUIRE(update.scale == meant.scale);
      check_values(update.down, meant.down, meant.in, type);
      check_values(update.up, meant.up, meant.rank, type);
    }
    check_same(crumb::graph::drop_adapter(one, "one"), crumb::graph::sorted(network.graph));

    REQUIRE(crumb::graph::adapter_type(one, "one") == type);
    // What a type has rounded it keeps.
    const Graph again = crumb::graph::add_adapter(network.graph, found, "one", type);
    REQUIRE(crumb::graph::adapter_of(again, "one") == found);

    const Graph both = crumb::graph::add_adapter(one, second, "two-b_");
    std::vector<std::string> names = crumb::graph::adapter_names(both);
    std::ranges::sort(names);
    REQUIRE(names == std::vector<std::string>{"one", "two-b_"});
    REQUIRE(crumb::graph::adapter_of(both, "two-b_") == second);
    REQUIRE(crumb::graph::adapter_of(both, "one") == found);
    const Graph rest = crumb::graph::drop_adapter(both, "one");
    REQUIRE(crumb::graph::adapter_of(rest, "two-b_") == second);
    check_same(crumb::graph::drop_adapter(rest, "two-b_"), crumb::graph::sorted(network.graph));
    check_same(crumb::graph::drop_adapter(both, "two-b_"), one);
  }
}

TEST_CASE("adapters: merged, they are in the matrices") {
  Random random(34);
  const int trials = crumb::testing::slow() ? 1000 : 400;
  for (int trial = 0; trial < trials; ++trial) {
    const Drawn network = drawn_network(random);
    const Adapter one = drawn_adapter(network, random), two = drawn_adapter(network, random);
    const Graph both =
        crumb::graph::add_adapter(crumb::graph::add_adapter(network.graph, one, "one"), two, "two");
    const crumb::graph::MergedGraph merged =
        crumb::graph::merge_adapters(both, trial % 2 ? "int8:channel" : "");
    CHECK(crumb::graph::adapter_names(merged.graph).empty());
    for (const crumb::graph::LinearProduct& product : crumb::graph::linear_products(network.graph)) {
      const auto value_in = [&](const Graph& graph) {
        const auto coded = graph.quantized.find(product.weight);
        return (coded != graph.quantized.end() ? coded->second.value()
                                               : graph.initializers.at(product.weight))
            .to_floats();
      };
      const std::vector<float> before = value_in(network.graph), after = value_in(merged.graph);
      std::vector<double> meant(before.begin(), before.end());
      bool is_changed = false;
      for (const Adapter& adapter : {one, two})
        for (const LowRankUpdate& update : adapter.updates) {
          if (update.module != product.module) continue;
          is_changed = true;
          for (std::size_t o = 0; o < product.out; ++o)
            for (std::size_t i = 0; i < product.in; ++i)
              for (std::size_t k = 0; k < update.rank; ++k)
                meant[product.is_transposed ? o * product.in + i : i * product.out + o] +=
                    static_cast<double>(update.scale) * update.up[o * update.rank + k] *
                    update.down[k * product.in + i];
        }
      const bool is_coded = network.graph.quantized.contains(product.weight) || trial % 2 == 1;
      double most = 0;
      for (const double value : meant) most = std::max(most, std::fabs(value));
      for (std::size_t i = 0; i < meant.size(); ++i) {
        if (!is_changed) REQUIRE(after[i] == before[i]);
        // Half a step of the coarsest grid here, 4 bits with one scale for a row, or float32's rounding.
        REQUIRE(std::fabs(after[i] - meant[i]) <=
                (is_coded && is_changed ? most / 7 * 0.501 : most * 1e-6 + 1e-30));
      }
    }
  }
}

TEST_CASE("adapters: packed files keep them") {
  Random random(32);
  const crumb::testing::TempDir folder;
  for (int trial = 0; trial < 60; ++trial) {
    const Drawn network = drawn_network(random);
    const auto type = static_cast<AdapterType>(trial % 4);
    const Graph graph =
        crumb::graph::add_adapter(network.graph, drawn_adapter(network, random), "kept", type);
    crumb::graph::write_crumb_graph(graph, folder.path() / "a.crumb", {.reads_back = true});
    const Graph read = crumb::graph::read_crumb_graph(folder.path() / "a.crumb");
    CHECK(crumb::graph::adapter_of(read, "kept") == crumb::graph::adapter_of(graph, "kept"));
  }
}

TEST_CASE("adapters: what does not fit is named") {
  Random random(33);
  const Drawn network = drawn_network(random);
  const Adapter adapter = drawn_adapter(network, random);
  const Graph one = crumb::graph::add_adapter(network.graph, adapter, "one");
  CHECK(error_of([&] { crumb::graph::add_adapter(one, adapter, "one"); }).find("'one' already") !=
        std::string::npos);
  for (const char* name : {"", "a.b", "a b", "é"})
    CHECK(error_of([&] {
            crumb::graph::add_adapter(network.graph, adapter, name);
          }).find("letters, digits") != std::string::npos);
  CHECK(error_of([&] { crumb::graph::adapter_of(one, "other"); }).find("'one'") != std::string::npos);
  CHECK(error_of([&] { crumb::graph::drop_adapter(network.graph, "one"); }).find("none at all") !=
        std::string::npos);
  Adapter wrong = adapter;
  wrong.updates[0].module = "nowhere";
  CHECK(error_of([&] { crumb::graph::add_adapter(network.graph, wrong, "one"); }).find("'nowhere'") !=
        std::string::npos);
  wrong = adapter;
  ++wrong.updates[0].in;
  wrong.updates[0].down.resize(wrong.updates[0].in * wrong.updates[0].rank);
  CHECK(error_of([&] {
          crumb::graph::add_adapter(network.graph, wrong, "one");
        }).find(crumb::quote_text(wrong.updates[0].module)) != std::string::npos);
}
