// Networks whose scales are powers of two, so that floats are exact: integers must give the same bits.
#include "runtime/lower/lower.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "runtime/model.h"
#include "tests/graph/node_builder.h"

namespace crumb::runtime {
namespace {

using graph::ElementType;
using graph::NodeBuilder;
using graph::Tensor;

struct Draws {
  std::mt19937_64 engine;

  std::int64_t from(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool one_in(std::int64_t n) { return from(1, n) == 1; }
  /// A whole number of quarters, at most eight.
  float number() { return static_cast<float>(from(-32, 32)) / 4; }
  Tensor numbers(const std::vector<std::int64_t>& shape) {
    std::vector<float> values(static_cast<std::size_t>(graph::count_elements(shape).value()));
    for (float& v : values) v = number();
    return Tensor::floats(shape, values);
  }
  Tensor power(int low, int high) {
    return Tensor::scalar(std::ldexp(1.0F, static_cast<int>(from(low, high))));
  }
};

/// The kinds of weights that there are; scales are powers of two.
constexpr const char* kSpecs[] = {
    "int4:channel:scale=e8m0",  "int8:channel:scale=e8m0",   "int2:channel:scale=e8m0",
    "int2h:channel:scale=e8m0", "binary:channel:scale=e8m0", "ternary:channel:scale=e8m0",
    "e2m1:channel:scale=e8m0",  "e3m2:channel:scale=e8m0",   "int3:channel:range=full:scale=e8m0"};

std::string quantized(NodeBuilder& builder, Draws& draw, const std::string& x) {
  if (draw.one_in(8))
    return builder.node("BipolarQuant", {x, builder.constant(x + "_s", draw.power(-3, 1))}, {},
                        graph::kQonnxDomain);
  const bool is_signed = draw.one_in(2);
  return builder.quant(x, draw.power(-4, 1), static_cast<float>(draw.one_in(3) ? draw.from(-3, 3) : 0),
                       static_cast<float>(draw.from(2, 8)), is_signed, draw.one_in(2));
}

/// The weight of a node under a name of its own.
std::string weight(NodeBuilder& builder, Draws& draw, const std::vector<std::int64_t>& shape,
                   std::size_t output_axis) {
  const std::string name = "w" + std::to_string(builder.graph.nodes.size());
  const QuantSpec spec = QuantSpec::parse(kSpecs[draw.from(0, std::ssize(kSpecs) - 1)]);
  builder.graph.quantized[name] = graph::quantize_constant(spec, draw.numbers(shape), output_axis, name, 1);
  builder.graph.values[name] = {.type = ElementType::kFloat,
                                .shape = graph::Shape(shape.begin(), shape.end())};
  return name;
}

/// A network of one or two layers, and its input's shape.
struct Drawn {
  NodeBuilder builder;
  std::vector<std::int64_t> shape;
  std::int64_t most_outputs = 5;

  /// Large ones have panels of several rows, of parts of rows, of several samples, and channels of several
  /// blocks.
  explicit Drawn(Draws& draw, bool large = false) {
    builder.graph.opsets[""] = 17;
    const auto axes = static_cast<std::size_t>(draw.from(0, large ? 2 : 3));
    shape = {draw.from(1, large ? 5 : 2), draw.from(1, large ? 24 : 4)};
    most_outputs = large ? 60 : 5;
    for (std::size_t i = 0; i < axes; ++i) {
      const std::int64_t most = !large ? axes == 3 ? 4 : 7 : i + 1 < axes ? 20 : 140;
      shape.push_back(draw.from(3, most));
    }
    std::string x = builder.input("x", shape);
    builder.graph.values["x"].shape->at(0) = graph::Dim("n");
    std::int64_t channels = shape[1];
    for (std::int64_t layer = draw.from(1, 2); layer > 0; --layer) {
      x = quantized(builder, draw, x);
      std::int64_t outputs = draw.from(1, most_outputs);
      x = axes == 0 ? product(draw, x, channels, outputs) : convolution(draw, x, axes, channels, outputs);
      channels = outputs;
      x = chain(draw, x, axes, channels);
    }
    if (!draw.one_in(3)) x = quantized(builder, draw, x);
    builder.graph.outputs = {x};
    for (graph::Node& node : builder.graph.nodes) {
      if (node.domain.empty()) node.version = 17;
    }
  }

  std::string product(Draws& draw, const std::string& x, std::int64_t terms, std::int64_t outputs) {
    if (draw.one_in(2)) {
      const std::string made = builder.node("MatMul", {x, weight(builder, draw, {terms, outputs}, 1)});
      builder.graph.values[made].shape = graph::Shape{graph::Dim("n"), outputs};
      return made;
    }
    const bool turned = draw.one_in(2);
    std::vector<std::string> inputs{
        x, turned ? weight(builder, draw, {outputs, terms}, 0) : weight(builder, draw, {terms, outputs}, 1)};
    if (draw.one_in(2))
      inputs.push_back(
          builder.constant("b" + x, draw.numbers(draw.one_in(2) ? std::vector<std::int64_t>{outputs}
                                                                : std::vector<std::int64_t>{1, outputs})));
    std::map<std::string, graph::Attribute> attributes{{"transB", std::int64_t{turned}}};
    if (draw.one_in(4)) attributes["alpha"] = 0.5F;
    if (draw.one_in(4)) attributes["beta"] = 2.0F;
    return builder.node("Gemm", inputs, attributes);
  }

  std::string convolution(Draws& draw, const std::string& x, std::size_t axes, std::int64_t channels,
                          std::int64_t& outputs) {
    const std::int64_t groups = draw.one_in(3) ? channels : 1;
    outputs =
        groups * (groups == 1 ? draw.from(1, std::max<std::int64_t>(most_outputs, 3)) : draw.from(1, 3));
    if (draw.one_in(3)) return transposed(draw, x, axes, channels, outputs, groups);
    std::vector<std::int64_t> kernel{outputs, channels / groups}, strides, dilations, pads;
    for (std::size_t i = 0; i < axes; ++i) {
      kernel.push_back(draw.from(1, 3));
      strides.push_back(draw.from(1, 3));
      dilations.push_back(draw.from(1, 2));
    }
    for (std::size_t i = 0; i < 2 * axes; ++i) pads.push_back(draw.from(2, 4));  // so that every window fits
    std::vector<std::string> inputs{x, weight(builder, draw, kernel, 0)};
    if (draw.one_in(2)) inputs.push_back(builder.constant("b" + x, draw.numbers({outputs})));
    std::map<std::string, graph::Attribute> attributes{
        {"strides", strides}, {"dilations", dilations}, {"group", groups}};
    if (draw.one_in(4)) {
      attributes["auto_pad"] = std::string(draw.one_in(2) ? "SAME_UPPER" : "SAME_LOWER");
    } else {
      attributes["pads"] = pads;
    }
    return builder.node("Conv", inputs, attributes);
  }

  /// Cut at both ends, or longer than what the inputs reach. Large ones have no kernels that leave most
  /// weights of a convolution of their phases zero: these stay floats.
  std::string transposed(Draws& draw, const std::string& x, std::size_t axes, std::int64_t channels,
                         std::int64_t outputs, std::int64_t groups) {
    const bool large = most_outputs > 5;
    std::vector<std::int64_t> kernel{channels, outputs / groups}, strides, dilations, longer, begin, end;
    for (std::size_t i = 0; i < axes; ++i) {
      strides.push_back(draw.from(1, 3));
      kernel.push_back(draw.from(large ? strides.back() : 1, large || axes < 3 ? 4 : 2));
      dilations.push_back(draw.from(1, large ? 1 : 2));
      const std::int64_t reach = (kernel.back() - 1) * dilations.back();
      begin.push_back(draw.from(0, reach));
      end.push_back(draw.from(0, reach - begin.back()));
      longer.push_back(draw.from(0, strides.back() - 1));
    }
    begin.insert(begin.end(), end.begin(), end.end());
    std::vector<std::string> inputs{x, weight(builder, draw, kernel, 1)};
    if (draw.one_in(2)) inputs.push_back(builder.constant("b" + x, draw.numbers({outputs})));
    std::map<std::string, graph::Attribute> attributes{
        {"strides", strides}, {"dilations", dilations}, {"group", groups}, {"output_padding", longer}};
    if (draw.one_in(4)) {
      attributes["auto_pad"] = std::string(draw.one_in(2) ? "SAME_UPPER" : "SAME_LOWER");
    } else {
      attributes["pads"] = begin;
    }
    return builder.node("ConvTranspose", inputs, attributes);
  }

  /// Of numbers of few bits, and no divisions: floats stay exact.
  std::string chain(Draws& draw, std::string x, std::size_t axes, std::int64_t channels) {
    std::vector<std::int64_t> each{channels};
    each.insert(each.end(), axes, 1);
    for (std::int64_t left = draw.from(0, 3); left > 0; --left) {
      const Tensor other = draw.one_in(2) ? draw.numbers(each) : Tensor::scalar(draw.number());
      switch (draw.from(0, 5)) {
        case 0: x = builder.node("Add", {builder.constant("a" + x, other), x}); break;
        case 1:
          x = builder.node("Sub", draw.one_in(2) ? std::vector{x, builder.constant("a" + x, other)}
                                                 : std::vector{builder.constant("a" + x, other), x});
          break;
        case 2:
          x = builder.node("Mul", {x, builder.constant("a" + x, draw.one_in(3) ? other : draw.power(-2, 2))});
          break;
        case 3: x = builder.node("Relu", {x}); break;
        case 4:
          x = builder.node("Clip", {x, builder.constant("l" + x, Tensor::scalar(-std::fabs(draw.number()))),
                                    builder.constant("h" + x, Tensor::scalar(std::fabs(draw.number())))});
          break;
        default:
          if (axes == 0 || !draw.one_in(2)) break;
          x = builder.node("MaxPool", {x},
                           {{"kernel_shape", std::vector<std::int64_t>(axes, 2)},
                            {"pads", std::vector<std::int64_t>(2 * axes, 1)}});
      }
    }
    return x;
  }
};

TEST_CASE("integers give the bits of floats where these are exact") {
  Draws draw{std::mt19937_64(20261124)};
  std::size_t layers = 0, integers = 0, thresholds = 0, numbers = 0;
  std::set<float> different;
  for (int round = 0; round < 3000; ++round) {
    Drawn drawn(draw);
    const graph::Graph& network = drawn.builder.graph;
    Array x = Array::of(draw.numbers(drawn.shape));
    const Lowered lowered = lower(network);
    CHECK(lowered.floats.empty());
    integers += lowered.integers.size();
    thresholds += lowered.thresholds.size();
    layers += network.quantized.size();
    const std::vector<Array> exact = Model(network, Computes::kFloats).run({x}, {.threads = 1});
    const std::vector<Array> found = Model(network).run({x}, {.threads = 1 + round % 3});
    REQUIRE(found[0].shape() == exact[0].shape());
    REQUIRE(found[0].type() == exact[0].type());
    const auto a = found[0].values<float>(), b = exact[0].values<float>();
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] != b[i]) FAIL(round << ": " << a[i] << " is not " << b[i]);
      different.insert(a[i]);
    }
    numbers += a.size();
  }
  CHECK(integers == layers);
  CHECK(thresholds > layers / 3);
  CHECK(numbers > 100'000);
  CHECK(different.size() > 1000);
}

TEST_CASE("the same of large layers, on one and on several threads") {
  Draws draw{std::mt19937_64(20261125)};
  std::size_t numbers = 0;
  for (int round = 0; round < 150; ++round) {
    Drawn drawn(draw, true);
    const graph::Graph& network = drawn.builder.graph;
    const Array x = Array::of(draw.numbers(drawn.shape));
    const std::vector<Array> exact = Model(network, Computes::kFloats).run({x}, {.threads = 1});
    const Model model(network);
    for (const int threads : {1, 4}) {
      const std::vector<Array> found = model.run({x}, {.threads = threads});
      REQUIRE(found[0].shape() == exact[0].shape());
      const auto a = found[0].values<float>(), b = exact[0].values<float>();
      for (std::size_t i = 0; i < a.size(); ++i) {
        if (a[i] != b[i]) FAIL(round << ": " << a[i] << " is not " << b[i]);
      }
    }
    numbers += exact[0].size();
  }
  CHECK(numbers > 1'000'000);
}

TEST_CASE("layers with several bends behind them give the bits of floats") {
  Draws draw{std::mt19937_64(20261129)};
  std::size_t by_lines = 0, by_thresholds = 0, numbers = 0;
  std::set<float> different;
  for (int round = 0; round < 2000; ++round) {
    NodeBuilder builder;
    const bool is_image = draw.one_in(2);
    const std::int64_t outputs = draw.from(1, draw.one_in(2) ? 9 : 50), terms = draw.from(1, 6),
                       bends = draw.from(1, 6);
    std::vector<std::int64_t> shape{draw.from(1, 3), terms};
    if (is_image) shape.insert(shape.end(), {draw.from(1, 9), draw.from(1, 9)});
    std::string x = builder.quant(builder.input("x", shape), Tensor::scalar(0.25F), 0, 8);
    const std::vector<std::int64_t> each =
        is_image ? std::vector<std::int64_t>{outputs, 1, 1} : std::vector<std::int64_t>{outputs};
    x = is_image ? builder.node("Conv", {x, weight(builder, draw, {outputs, terms, 1, 1}, 0)})
                 : builder.node("Gemm", {x, weight(builder, draw, {terms, outputs}, 1)});
    for (std::int64_t i = 0; i < bends; ++i) {
      x = builder.node("LeakyRelu", {x}, {{"alpha", draw.one_in(8) ? 0.0F : draw.one_in(2) ? 0.5F : 2.0F}});
      x = builder.node("Add", {x, builder.constant("a" + x, draw.numbers(each))});
    }
    x = builder.quant(x, draw.power(-3, 0), 0, static_cast<float>(draw.from(2, 8)));
    builder.graph.outputs = {x};
    const Lowered lowered = lower(builder.graph);
    REQUIRE(lowered.thresholds.size() == 1);
    for (const auto& [name, tensor] : lowered.graph.initializers) {
      by_lines += name.ends_with(".lines") ? 1 : 0;
      by_thresholds += name.ends_with(".thresholds") ? 1 : 0;
    }
    const Array in = Array::of(draw.numbers(shape));
    const std::vector<Array> exact = Model(builder.graph, Computes::kFloats).run({in}, {.threads = 1}),
                             found = Model(builder.graph).run({in}, {.threads = 1});
    const auto a = found[0].values<float>(), b = exact[0].values<float>();
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] != b[i]) FAIL(round << ": " << a[i] << " is not " << b[i]);
      different.insert(a[i]);
    }
    numbers += a.size();
  }
  CHECK(by_lines > 1000);
  CHECK(by_thresholds > 150);  // where four lines are not enough
  CHECK(numbers > 100'000);
  CHECK(different.size() > 200);
}

TEST_CASE("layers that cannot be integers stay floats, and say why") {
  const auto reason_of = [](const char* spec, bool quantizes, const char* op = "MatMul") {
    NodeBuilder builder;
    std::string x = builder.input("x", {2, 64});
    if (quantizes) x = builder.quant(x, Tensor::scalar(0.5F), 0, 8);
    std::vector<float> values(64 * 4);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.37F * (static_cast<float>(i % 17) - 8);
    builder.graph.quantized["w"] =
        graph::quantize_constant(QuantSpec::parse(spec), Tensor::floats({64, 4}, values), 1, "w", 1);
    builder.graph.outputs = {builder.node(op, {x, "w"})};
    const Lowered lowered = lower(builder.graph);
    CHECK(lowered.integers.size() + lowered.floats.size() == 1);
    Model(builder.graph)
        .run({Array::of(Tensor::floats({2, 64}, std::vector<float>(128, 1.25F)))}, {.threads = 1});
    return lowered.floats.empty() ? std::string() : lowered.floats[0].second;
  };
  CHECK(reason_of("int4:channel", true).empty());
  CHECK(reason_of("int4:channel", false).find("no quantizer's") != std::string::npos);
  CHECK(reason_of("int4:group=32", true).find("several scales") != std::string::npos);
  CHECK(reason_of("palette4:channel", true).find("no integers of 16 bits") != std::string::npos);
  CHECK(reason_of("e5m2:channel", true).find("no integers of 16 bits") != std::string::npos);
}

TEST_CASE("values that others take, too, stay where they are") {
  NodeBuilder builder;
  std::string x = builder.quant(builder.input("x", {3, 4}), Tensor::scalar(0.25F), 1, 4);
  builder.graph.quantized["w"] =
      graph::quantize_constant(QuantSpec::parse("int4:channel:scale=e8m0"),
                               Tensor::floats({4, 4}, std::vector<float>(16, 0.75F)), 1, "w", 1);
  const std::string sums = builder.node("MatMul", {x, "w"});
  const std::string after = builder.quant(builder.node("Relu", {sums}), Tensor::scalar(0.5F), 0, 4);
  builder.graph.outputs = {sums, after, builder.node("Add", {x, after})};  // sums and x are taken twice
  const Array in =
      Array::of(Tensor::floats({3, 4}, std::vector<float>{1, 2, 3, 4, -1, -2, .1F, .2F, 9, 8, 7, 6}));
  const auto exact = Model(builder.graph, Computes::kFloats).run({in}, {}),
             found = Model(builder.graph).run({in}, {});
  for (std::size_t i = 0; i < exact.size(); ++i) {
    CHECK(std::ranges::equal(found[i].values<float>(), exact[i].values<float>()));
  }
  CHECK(lower(builder.graph).thresholds.empty());
}

TEST_CASE(
    "lowering: an operator with too few inputs or outputs, behind codes, is an error or runs; nothing ends") {
  Draws draws{std::mt19937_64(11)};
  const std::string known[] = {"q", "x", "w", ""};
  for (const OperatorRow& row : all_operators()) {
    for (int round = 0; round < 24; ++round) {
      graph::Graph graph{
          .inputs = {"x"}, .outputs = {"q"}, .opsets = {{"", 20}, {std::string(graph::kQonnxDomain), 1}}};
      graph.values["x"] = {.type = ElementType::kFloat, .shape = graph::Shape{2, 4}};
      for (const auto& [name, value] : {std::pair{"one", 1.0F}, {"zero", 0.0F}, {"four", 4.0F}})
        graph.initializers[name] = Tensor::scalar(value);
      graph.initializers["w"] = draws.numbers({4, 4});
      graph.nodes.push_back({.name = "quant",
                             .op = "Quant",
                             .domain = std::string(graph::kQonnxDomain),
                             .inputs = {"x", "one", "zero", "four"},
                             .outputs = {"q"}});
      graph::Node node{.name = "node",
                       .op = std::string(row.op),
                       .domain = std::string(row.domain),
                       .version = row.domain.empty() ? 20 : 1};
      for (std::int64_t i = draws.from(0, 3); i > 0; --i) node.inputs.push_back(known[draws.from(0, 3)]);
      for (std::int64_t i = draws.from(0, 2); i > 0; --i)
        node.outputs.push_back(draws.one_in(3) ? "" : "y" + std::to_string(i));
      for (const std::string& made : node.outputs)
        if (!made.empty()) graph.outputs.push_back(made);
      graph.nodes.push_back(std::move(node));
      try {
        Model(graph).run({Array::of(draws.numbers({2, 4}))}, {.threads = 1});
      } catch (const Error& error) {
        CHECK(error.what()[0] != 0);
      }
    }
  }
}

TEST_CASE("an output that the node leaves out at its end is made nowhere: TopK without places") {
  for (const bool named : {false, true}) {
    graph::Graph graph{.inputs = {"x"}, .outputs = {"y"}, .opsets = {{"", 20}}};
    graph.values["x"] = {.type = ElementType::kFloat, .shape = graph::Shape{1, 4}};
    graph.initializers["k"] = Tensor::ints({1}, std::array<std::int64_t, 1>{2});
    graph.nodes.push_back(
        {.name = "top", .op = "TopK", .version = 20, .inputs = {"x", "k"}, .outputs = {"y"}});
    if (named) graph.nodes[0].outputs.emplace_back("places");
    const std::vector<Array> made = Model(graph).run(
        {Array::of(Tensor::floats({1, 4}, std::array{3.0F, 9.0F, 1.0F, 7.0F}))}, {.threads = 1});
    CHECK(made[0].tensor() == Tensor::floats({1, 2}, std::array{9.0F, 7.0F}));
  }
}

}  // namespace
}  // namespace crumb::runtime
