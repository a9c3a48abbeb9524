// How many terms a sum of two computed operands has, and how many channels: by rules for each operator, held against
// what the operator's definition adds up.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

#include "analysis/accumulator/check.h"
#include "analysis/accumulator/computed_terms.h"
#include "tests/analysis/accumulator/networks.h"
#include "tests/support/samples.h"

namespace crumb::analysis {
namespace {

using Ints = std::vector<std::int64_t>;
using Attributes = std::map<std::string, graph::Attribute>;

constexpr std::int64_t kOpen = -1;  // a dimension of unknown size

struct Row : AccumulatorRow {
  std::optional<std::int64_t> columns;  ///< how many numbers a bias may have
};

/// The row of one operator between two quantizers: codes 0 to 3, and -2 to 1.
Row row_of(const std::string& op, const Ints& a, const Ints& b, const Attributes& attributes = {},
           const Ints& result = {}) {
  Net net;
  const auto made = [&](const char* name, Ints shape, bool is_signed) {
    const std::string input = net.input(name, shape);
    graph::Shape known;
    for (const std::int64_t size : shape)
      known.push_back(size == kOpen ? graph::Dim(name) : graph::Dim(size));
    net.graph.values[input].shape = known;
    const std::string quantized = net.quant(input, graph::Tensor::scalar(0.5F), 0, 2, is_signed);
    net.graph.values[quantized] = {.type = graph::ElementType::kFloat, .shape = known};
    return quantized;
  };
  std::vector<std::string> inputs{made("a", a, false)};
  if (!b.empty()) inputs.push_back(made("b", b, true));
  if (op == "Attention") inputs.push_back(net.input("v", b));
  if (op == "LSTM") inputs.push_back(net.input("r", {1, 8, 2}));
  const std::string y = net.node(op, inputs, attributes);
  if (!result.empty())
    net.graph.values[y] = {.type = graph::ElementType::kFloat,
                           .shape = graph::Shape(result.begin(), result.end())};
  net.graph.outputs = {y};
  const AccumulatorReport report = check_accumulators(net.graph);
  REQUIRE(!report.layers.empty());
  const graph::Node& node = net.graph.nodes.back();
  return {report.layers[0], count_channels(net.graph, node, graph::traits_of(node).products[0])};
}

struct Counted {
  const char* op;
  Ints a, b;
  Attributes attributes;
  std::size_t terms;
  std::int64_t columns;
};

TEST_CASE("terms and channels of products of two computed operands") {
  const std::int64_t one = 1;
  const auto equation = [](const char* text) { return Attributes{{"equation", std::string(text)}}; };
  const std::vector<Counted> all{
      {"MatMul", {2, 3}, {3, 5}, {}, 3, 5},
      {"MatMul", {7, 2, 3}, {7, 3, 5}, {}, 3, 5},
      {"MatMul", {2, 3}, {3}, {}, 3, 1},
      {"MatMul", {3}, {3, 5}, {}, 3, 5},
      {"MatMul", {2, kOpen}, {3, 5}, {}, 3, 5},
      {"MatMul", {2, kOpen}, {3}, {}, 3, 1},
      {"Gemm", {2, 3}, {3, 5}, {}, 3, 5},
      {"Gemm", {2, 3}, {3, 5}, {{"transA", std::int64_t{0}}, {"transB", std::int64_t{0}}}, 3, 5},
      {"Gemm", {3, 2}, {3, 5}, {{"transA", one}}, 3, 5},
      {"Gemm", {2, 3}, {5, 3}, {{"transB", one}}, 3, 5},
      {"Gemm", {3, 2}, {5, 3}, {{"transA", one}, {"transB", one}}, 3, 5},
      {"Gemm", {2, kOpen}, {5, 3}, {{"transB", one}}, 3, 5},
      {"Gemm", {kOpen, 2}, {3, 5}, {{"transA", one}}, 3, 5},
      {"Conv", {1, 3, 9, 9}, {4, 3, 2, 5}, {}, 30, 4},
      {"Conv", {1, 6, 9}, {4, 3, 2}, {{"group", std::int64_t{2}}}, 6, 4},
      {"ConvTranspose", {1, 2, 4}, {2, 3, 3}, {}, 6, 3},
      {"ConvTranspose", {1, 2, 4}, {2, 3, 3}, {{"strides", Ints{2}}}, 4, 3},
      {"Einsum", {2, 3}, {3, 5}, equation("ij,jk->ik"), 3, 1},
      {"Einsum", {2, 3}, {5, 3}, equation("ij,kj->ik"), 3, 1},
      {"Einsum", {2, 3}, {3, 5}, equation("...ij,...jk->...ik"), 3, 1},
      {"Einsum", {2, 3, 4}, {3, 4}, equation("ijk,jk->i"), 12, 1},
      {"Einsum", {2, kOpen, 4}, {3, kOpen}, equation("ijk,jk->i"), 12, 1},
      {"Einsum", {7, 2, 3}, {7, 3, 5}, equation("...ij,...jk->...ik"), 3, 1},
      {"Einsum", {3, 7, 2}, {3, 7, 5}, equation("j...i,j...k->...ik"), 3, 1},
      {"Einsum", {7, 6, 2, 3}, {7, 6, 3, 5}, equation("...ij,...jk->...ik"), 3, 1},
      {"Einsum", {2, 0}, {0, 5}, equation("ij,jk->ik"), 0, 1},
      {"Einsum", {2, 1}, {3, 5}, equation("ij,jk->ik"), 3, 1},
      {"LSTM", {5, 1, 3}, {1, 8, 3}, {{"hidden_size", std::int64_t{2}}}, 3, 1},
      {"LSTM", {5, 1, kOpen}, {1, 8, 3}, {{"hidden_size", std::int64_t{2}}}, 3, 1},
      {"LSTM", {5, 1, 3}, {1, 8, kOpen}, {{"hidden_size", std::int64_t{2}}}, 3, 1},
      {"Attention",
       {2, 5, 12},
       {2, 5, 12},
       {{"q_num_heads", std::int64_t{3}}, {"kv_num_heads", std::int64_t{3}}},
       4,
       1},
      {"Attention", {2, 5, 12}, {2, 5, 12}, {{"q_num_heads", one}, {"kv_num_heads", one}}, 12, 1},
      {"Attention", {2, 3, 5, 4}, {2, 3, 5, 4}, {}, 4, 1},
  };
  for (const Counted& it : all) {
    CAPTURE(it.op);
    CAPTURE(it.a);
    CAPTURE(it.b);
    const Row row = row_of(it.op, it.a, it.b, it.attributes);
    CHECK(row.reason == "");
    CHECK(row.length == it.terms);
    CHECK(row.columns == it.columns);
    const auto terms = static_cast<std::int64_t>(it.terms);
    CHECK(row.worst == WorstSums{3 * 1 * terms, 3 * -2 * terms});
  }
  CHECK(testing::says(row_of("Attention", {2, 5, 12}, {2, 5, 12}, {{"q_num_heads", std::int64_t{5}}}).reason,
                      {"are no 5 equal heads"}));
  CHECK(testing::says(row_of("Attention", {2, 5, 12}, {2, 5, 12}).reason, {"are no 0 equal heads"}));
  CHECK(testing::says(row_of("MatMul", {2, kOpen}, {kOpen, 5}).reason, {"how many terms"}));
  CHECK(testing::says(row_of("LSTM", {5, 1, kOpen}, {1, 8, kOpen}).reason, {"how many terms"}));
  CHECK(testing::says(row_of("Conv", {1, 3, 9}, {4, kOpen, 2}).reason, {"how many terms"}));
}

TEST_CASE("keys of a cache may be on another grid, a mask is none of them") {
  for (const bool has_cache : {false, true}) {
    Net net;
    const Ints shape{2, 3, 5, 4};
    const std::string q = net.quant(net.input("q", shape), graph::Tensor::scalar(0.5F), 0, 3),
                      k = net.quant(net.input("k", shape), graph::Tensor::scalar(0.5F), 0, 3);
    std::vector<std::string> inputs{q, k, net.input("v", shape), net.input("mask", {5, 5})};
    if (has_cache) inputs.push_back(net.input("keys", shape));
    net.graph.outputs = {net.node("Attention", inputs)};
    const std::string reason = check_accumulators(net.graph).layers.at(0).reason;
    CHECK((reason.find("those of a cache too") != std::string::npos) == has_cache);
    CHECK(reason.empty() == !has_cache);
  }
}

TEST_CASE("an equation's labels, blanks and ellipses aside") {
  struct Case {
    const char *equation, *a, *b, *out, *summed;
  };
  for (const Case& it :
       {Case{"ab,bc->ac", "ab", "bc", "ac", "b"}, Case{" a b , b c -> c a ", "ab", "bc", "ca", "b"},
        Case{"...ab,bc->...ac", ".ab", "bc", ".ac", "b"}, Case{"ba,bc", "ba", "bc", "ac", "b"},
        Case{"ab,ab->", "ab", "ab", "", "ab"}}) {
    CAPTURE(it.equation);
    const graph::Node node{.name = "n",
                           .op = "Einsum",
                           .inputs = {"x", "y"},
                           .attributes = {{"equation", std::string(it.equation)}}};
    const Contraction found = contraction_of(node).take();
    CHECK(found.a == it.a);
    CHECK(found.b == it.b);
    CHECK(found.out == it.out);
    CHECK(found.summed == it.summed);
  }
}

TEST_CASE("sums of squares have as many terms as elements meet in a result") {
  for (const char* op : {"ReduceSumSquare", "ReduceL2"}) {
    const Row row = row_of(op, {2, 3, 4}, {}, {{"axes", Ints{1, 2}}}, {2, 1, 1});
    CHECK(row.reason == "");
    CHECK(row.length == 12);
    CHECK(row.worst == WorstSums{9 * 12, 0});
    CHECK(row_of(op, {2, 3, 4}, {}, {{"axes", Ints{0, 1, 2}}}, {1, 1, 1}).length == 24);
    CHECK(row_of(op, {0, 3}, {}, {{"axes", Ints{1}}}, {0, 1}).length == 0);
    for (const Ints& unknown : {Ints{2, kOpen, 4}, Ints{std::int64_t{1} << 40, std::int64_t{1} << 30, 1}}) {
      for (const Ints& axes : {Ints{1, 2}, Ints{0, 1, 2}}) {
        const Ints result{axes.size() == 2 ? unknown[0] : 1, 1, 1};
        CHECK(testing::says(row_of(op, unknown, {}, {{"axes", axes}}, result).reason, {"how many terms"}));
      }
    }
  }
}

/// Most taps of a transposed convolution's axis that meet in one result, by trying every result: tap k of input i adds
/// to the result i * stride + k * dilation.
std::size_t most_that_meet(std::int64_t taps, std::int64_t stride, std::int64_t dilation) {
  std::map<std::int64_t, std::size_t> met;
  for (std::int64_t i = 0; i < 40; ++i) {
    for (std::int64_t k = 0; k < taps; ++k) ++met[i * stride + k * dilation];
  }
  return std::ranges::max_element(met, {}, [](const auto& one) { return one.second; })->second;
}

TEST_CASE("a transposed convolution's terms are those taps that meet in one result") {
  std::mt19937 engine(5);
  const auto draw = [&](int low, int high) {
    return static_cast<std::int64_t>(std::uniform_int_distribution<int>(low, high)(engine));
  };
  for (int round = 0; round < 300; ++round) {
    const std::size_t spatial = round % 3 == 0 ? 1 : 2;
    const std::int64_t groups = draw(1, 3), inputs = groups * draw(1, 3), outputs = draw(1, 4);
    Ints a{1, inputs}, b{inputs, outputs}, strides, dilations;
    std::size_t terms = static_cast<std::size_t>(inputs / groups);
    for (std::size_t i = 0; i < spatial; ++i) {
      a.push_back(9);
      b.push_back(draw(1, 5));
      strides.push_back(draw(1, 4));
      dilations.push_back(draw(1, 4));
      terms *= most_that_meet(b.back(), strides.back(), dilations.back());
    }
    Attributes attributes{{"group", groups}, {"strides", strides}, {"dilations", dilations}};
    if (round % 5 == 0) attributes.erase("group"), terms *= static_cast<std::size_t>(groups);
    const Row row = row_of("ConvTranspose", a, b, attributes);
    CAPTURE(b);
    CAPTURE(strides);
    CAPTURE(dilations);
    CHECK(row.length == terms);
    CHECK(row.columns == outputs * (round % 5 == 0 ? 1 : groups));
  }
}

TEST_CASE("operands of too few axes leave terms and channels open") {
  for (const char* op : {"MatMul", "Gemm", "Conv", "ConvTranspose"}) {
    const std::string name = op;
    for (const std::size_t of_a : {0, 1, 2}) {
      for (const std::size_t of_b : {0, 1, 2}) {
        CAPTURE(name);
        CAPTURE(of_a);
        CAPTURE(of_b);
        Net net;
        net.input("a", Ints(of_a, 3));
        net.input("b", Ints(of_b, 3));
        net.node(op, {"a", "b"});
        const graph::Node& node = net.graph.nodes.back();
        const graph::ProductRule& rule = graph::traits_of(node).products[0];
        const bool is_matrix = name == "MatMul" || name == "Gemm";
        const auto terms = count_terms(net.graph, node, rule);
        CHECK(terms.ok() == (is_matrix && (of_a > 0 || of_b > 0)));
        if (terms.ok()) CHECK(terms.value() == 3);
        if (!terms.ok()) CHECK(testing::says(terms.failure().message, {"how many terms"}));
        const std::size_t needed = name == "ConvTranspose" ? 2 : 1;
        const std::int64_t channels = is_matrix && of_b == 1 ? 1 : 3;
        CHECK(count_channels(net.graph, node, rule) ==
              (of_b >= needed ? std::optional(channels) : std::nullopt));
      }
    }
  }
}

}  // namespace
}  // namespace crumb::analysis
