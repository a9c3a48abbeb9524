// Constants that are kept as codes: into QONNX's words and back, and what QONNX files hold into codes.
#include "graph/facts/lift_quantized.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "graph/facts/constant_values.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/qonnx/quant_arithmetic.h"
#include "graph/qonnx/quantized_constants.h"
#include "tests/graph/packed/samples.h"

namespace crumb::graph {
namespace {

using testing::Layer;
using testing::layer_graph;
using testing::normal_floats;
using testing::same_tensor;
using Ints = std::vector<std::int64_t>;

const std::vector<Layer> kLayers = {
    {"MatMul", {12, 7}, 1},
    {"Gemm", {9, 8}, 1},
    {"Gemm", {8, 12}, 0, {{"transB", std::int64_t{1}}}},
    {"Conv", {6, 4, 3}, 0},
    {"ConvTranspose", {4, 6, 2}, 1},
    {"MatMul", {2, 12, 5}, 2},
    {"LSTM", {1, 8, 20}, 1},
    {"GRU", {2, 6, 10}, 1},
};

TEST_CASE("lift: what was lowered comes back byte for byte") {
  std::uint64_t seed = 1;
  for (const Layer& layer : kLayers) {
    for (const std::string spec : {"int2",
                                   "int3",
                                   "int4",
                                   "int8",
                                   "uint4",
                                   "uint1",
                                   "uint8:tensor",
                                   "int4:tensor",
                                   "int5:range=full",
                                   "uint3:range=narrow",
                                   "int2h",
                                   "int4h:tensor",
                                   "int3h:group=4",
                                   "binary",
                                   "binary:tensor",
                                   "binary:group=4",
                                   "int4:group=4",
                                   "int8:group=2",
                                   "int4:group=4:scale=f32",
                                   "int4:zero=int",
                                   "uint4:group=4:zero=int",
                                   "uint4:zero=float",
                                   "int3:group=4:zero=float",
                                   "uint8:tensor:zero=int",
                                   "e4m3fn",
                                   "e5m2",
                                   "e3m2:tensor",
                                   "e2m1:group=4",
                                   "e2m3",
                                   "e4m3fnuz",
                                   "e5m2fnuz:group=4",
                                   "e1m2",
                                   "int4:group=5:pad=on"}) {
      CAPTURE(layer.op);
      CAPTURE(spec);
      CAPTURE(layer.shape);
      const QuantSpec parsed = QuantSpec::parse(spec);
      const std::int64_t columns =
          std::accumulate(layer.shape.begin(), layer.shape.end(), std::int64_t{1}, std::multiplies()) /
          layer.shape[layer.output_axis];
      if (!parsed.pad && parsed.block_cols > 0 && columns % static_cast<std::int64_t>(parsed.block_cols) != 0)
        continue;
      const Graph graph = layer_graph(layer, spec, seed++);
      const QuantizedConstant& meant = graph.quantized.at("w");
      const Graph lowered = lower_quantized(graph);
      CHECK(lowered.quantized.empty());
      const Graph lifted = lift_quantized(lowered);
      REQUIRE(lifted.quantized.contains("w"));
      const QuantizedConstant& found = lifted.quantized.at("w");
      CHECK(found.axes == meant.axes);
      CHECK(same_tensor(*found.tensor, *meant.tensor));
      CHECK(lifted.nodes.size() == graph.nodes.size());
      CHECK(lifted.initializers.size() == graph.initializers.size());
      CHECK(lifted.shape_of("w") == Shape(layer.shape.begin(), layer.shape.end()));
    }
  }
}

/// Every integer that the graph's quantizers of constants make, by their outputs' names.
std::map<std::string, std::vector<double>> values_of(const Graph& graph) {
  const Graph known = infer_shapes(sorted(graph));
  const ConstantValues constants(known);
  std::map<std::string, std::vector<double>> made;
  for (const Node& node : known.nodes) {
    for (const std::string& value : node.outputs) {
      if (!constants.is_constant(value)) continue;
      if (const auto found = constants.find(value)) made[value] = found->values;
    }
  }
  return made;
}

/// x -> MatMul(x, Quant(w)).
struct QuantOf {
  Tensor weight, scale, zero = Tensor::scalar(0.0F), bits = Tensor::scalar(4.0F);
  bool is_signed = true, narrow = false;
  std::string rounding = "ROUND", op = "Quant";
};

Graph quant_graph(const QuantOf& wanted) {
  Graph graph{.inputs = {"x"}, .outputs = {"y"}, .opsets = {{"", 13}, {std::string(kQonnxDomain), 1}}};
  graph.values["x"] = {.type = ElementType::kFloat, .shape = Shape{Dim("n"), wanted.weight.shape()[0]}};
  graph.values["y"] = {.type = ElementType::kFloat};
  graph.initializers = {
      {"data", wanted.weight}, {"scale", wanted.scale}, {"zero", wanted.zero}, {"bits", wanted.bits}};
  graph.nodes = {{.name = "quant",
                  .op = wanted.op,
                  .domain = std::string(kQonnxDomain),
                  .inputs = {"data", "scale", "zero", "bits"},
                  .outputs = {"w"},
                  .attributes = {{"signed", std::int64_t{wanted.is_signed}},
                                 {"narrow", std::int64_t{wanted.narrow}},
                                 {"rounding_mode", wanted.rounding}}},
                 {.name = "product", .op = "MatMul", .version = 13, .inputs = {"x", "w"}, .outputs = {"y"}}};
  return graph;
}

void check_lifts(const Graph& graph, const std::string& spec) {
  const Graph lifted = lift_quantized(graph);
  REQUIRE(lifted.quantized.contains("w"));
  CHECK(lifted.quantized.at("w").tensor->spec == spec);
  CHECK(lifted.nodes.size() == 1);
  const auto before = values_of(graph).at("w");
  CHECK(before == values_of(lower_quantized(lifted)).at("w"));
  const std::vector<float> values = lifted.quantized.at("w").value().to_floats();
  CHECK(std::vector<double>(values.begin(), values.end()) == before);
  const Graph again = lift_quantized(lower_quantized(lifted));
  CHECK(same_tensor(*again.quantized.at("w").tensor, *lifted.quantized.at("w").tensor));
}

void check_stays(const Graph& graph) {
  const Graph same = lift_quantized(graph);
  CHECK(same.quantized.empty());
  CHECK(same.nodes.size() == graph.nodes.size());
  CHECK(same.initializers == graph.initializers);
}

TEST_CASE("lift: rounding modes are applied once") {
  const Tensor weight = Tensor::floats({6, 5}, normal_floats(30, 3));
  for (const std::string mode :
       {"ROUND", "HALF_EVEN", "CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "HALF_DOWN", "floor"}) {
    CAPTURE(mode);
    QuantOf wanted{.weight = weight, .scale = Tensor::scalar(0.3F)};
    wanted.rounding = mode;
    check_lifts(quant_graph(wanted), "int4:tensor:range=full");
  }
}

TEST_CASE("lift: scales and zero points of every granularity") {
  const Tensor weight = Tensor::floats({6, 5}, normal_floats(30, 3));
  QuantOf wanted{.weight = weight, .scale = Tensor::scalar(0.3F), .zero = Tensor::scalar(2.0F)};
  check_lifts(quant_graph(wanted), "int4:tensor:range=full:zero=int");
  wanted.zero = Tensor::scalar(0.25F);
  check_lifts(quant_graph(wanted), "int4:tensor:range=full:zero=float");
  wanted.zero = Tensor::scalar(9.0F);  // beyond the codes
  check_lifts(quant_graph(wanted), "int4:tensor:range=full:zero=float");
  wanted.zero = Tensor::scalar(-0.5F);
  check_lifts(quant_graph(wanted), "int4h:tensor");
  wanted.narrow = true;
  check_lifts(quant_graph(wanted), "int4:tensor:zero=float");
  wanted.zero = Tensor::floats({1, 5}, std::vector<float>{0, 1, 2, 3, 4});
  check_lifts(quant_graph(wanted), "int4:channel:zero=int");
  wanted.zero = Tensor::scalar(0.0F);
  wanted.scale = Tensor::floats({5}, std::vector<float>{.1F, .2F, .3F, .4F, .5F});
  check_lifts(quant_graph(wanted), "int4:channel");
  wanted.scale = Tensor::floats({6, 1}, std::vector<float>{.1F, .2F, .3F, .4F, .5F, .6F});  // of the inputs
  check_lifts(quant_graph(wanted), "int4:channel");
  CHECK(lift_quantized(quant_graph(wanted)).quantized.at("w").axes == Ints{0, 1});
  wanted.scale = Tensor::floats({6, 5}, normal_floats(30, 4, true));  // of every element
  check_lifts(quant_graph(wanted), "int4:group=1:scale=f32");
  std::vector<float> powers(30);
  for (std::size_t i = 0; i < 30; ++i) powers[i] = std::ldexp(1.0F, static_cast<int>(i) - 15);
  wanted.scale = Tensor::floats({6, 5}, powers);  // float16 holds them
  check_lifts(quant_graph(wanted), "int4:group=1");
  for (float& power : powers) power *= 0x1p-60F;  // only bfloat16 does
  wanted.scale = Tensor::floats({6, 5}, powers);
  check_lifts(quant_graph(wanted), "int4:group=1:scale=bf16");
  std::vector<float> blocks(30);
  for (std::size_t i = 0; i < 30; ++i) blocks[i] = (i / 5 < 3 ? 0.5F : 0.25F) * (i % 5 < 2 ? 1.0F : 3.0F);
  wanted.scale = Tensor::floats({6, 5}, blocks);
  const Graph lifted = lift_quantized(quant_graph(wanted));
  CHECK(lifted.quantized.at("w").tensor->spec == "int4:block=2x3:pad=on");
  wanted = {.weight = weight, .scale = Tensor::scalar(0.7F), .bits = Tensor::scalar(1.0F)};
  check_lifts(quant_graph(wanted), "binary:tensor");
  wanted.is_signed = false;
  check_lifts(quant_graph(wanted), "uint1:tensor");
  wanted.op = "IntQuant";
  wanted.bits = Tensor::scalar(std::int64_t{8});
  check_lifts(quant_graph(wanted), "uint8:tensor");
}

TEST_CASE("lift: what no tensor of codes holds stays a node") {
  const Tensor weight = Tensor::floats({6, 5}, normal_floats(30, 3));
  const QuantOf good{.weight = weight, .scale = Tensor::scalar(0.3F)};
  const auto with = [&](auto change) {
    QuantOf wanted = good;
    change(wanted);
    return quant_graph(wanted);
  };
  check_stays(with([](QuantOf& q) { q.bits = Tensor::scalar(9.0F); }));
  check_stays(with([](QuantOf& q) { q.bits = Tensor::scalar(3.5F); }));
  check_stays(with([](QuantOf& q) { q.scale = Tensor::scalar(-0.3F); }));
  check_stays(with([](QuantOf& q) { q.scale = Tensor::scalar(0.0F); }));
  check_stays(with([](QuantOf& q) { q.scale = Tensor::scalar(INFINITY); }));
  check_stays(with([](QuantOf& q) {
    q.bits = Tensor::scalar(1.0F);
    q.zero = Tensor::scalar(1.0F);
  }));
  check_stays(with([](QuantOf& q) {
    q.bits = Tensor::scalar(1.0F);
    q.is_signed = false;
    q.narrow = true;
  }));
  check_stays(with([](QuantOf& q) { q.weight = Tensor::floats({1, 2}, std::vector<float>{1, NAN}); }));
  check_stays(with([](QuantOf& q) { q.weight = Tensor::floats({0, 2}, {}); }));
  Graph output = quant_graph(good);
  output.outputs.emplace_back("w");
  check_stays(output);
  Graph open = quant_graph(good);
  open.inputs.emplace_back("scale");
  open.initializers.erase("scale");
  check_stays(open);
}

TEST_CASE("lift: binary and minifloats") {
  const Tensor weight = Tensor::floats({6, 5}, normal_floats(30, 3));
  QuantOf wanted{.weight = weight, .scale = Tensor::scalar(0.3F), .op = "BipolarQuant"};
  Graph graph = quant_graph(wanted);
  graph.nodes[0].inputs.resize(2);
  check_lifts(graph, "binary:tensor");

  const auto float_quant = [&](float exponent, float mantissa, float bias, float most) {
    QuantOf floats{.weight = weight, .scale = Tensor::scalar(0.25F), .op = "FloatQuant"};
    Graph made = quant_graph(floats);
    made.nodes[0].inputs = {"data", "scale", "e", "m", "bias", "most"};
    made.nodes[0].attributes = {{"rounding_mode", std::string("ROUND")}};
    made.initializers["e"] = Tensor::scalar(exponent);
    made.initializers["m"] = Tensor::scalar(mantissa);
    made.initializers["bias"] = Tensor::scalar(bias);
    made.initializers["most"] = Tensor::scalar(most);
    made.initializers.erase("zero");
    made.initializers.erase("bits");
    return made;
  };
  check_lifts(float_quant(4, 3, 7, 448), "e4m3fn:tensor");
  check_lifts(float_quant(4, 3, 7, 480), "e4m3:tensor");
  check_lifts(float_quant(4, 3, 7, 1e9F), "e4m3:tensor");
  check_lifts(float_quant(4, 3, 8, 240), "e4m3fnuz:tensor");
  check_lifts(float_quant(5, 2, 15, 57344), "e5m2:tensor");
  check_lifts(float_quant(2, 1, 1, 6), "e2m1:tensor");
  // Values within the limit need no saturation, but a quantizer without it needs somewhere to go.
  const auto open_ended = [&](std::int64_t has_inf, std::int64_t has_nan) {
    Graph made = float_quant(4, 3, 7, 448);
    made.nodes[0].attributes = {{"saturation", std::int64_t{0}}, {"has_inf", has_inf}, {"has_nan", has_nan}};
    return made;
  };
  check_lifts(open_ended(1, 0), "e4m3fn:tensor");
  check_lifts(open_ended(0, 1), "e4m3fn:tensor");
  CHECK(lift_quantized(open_ended(0, 0)).quantized.empty());
  check_stays(float_quant(4, 3, 7, 100));   // another limit
  check_stays(float_quant(4, 3, 6, 448));   // another bias
  check_stays(float_quant(4, 5, 7, 1e9F));  // ten bits
}

TEST_CASE("lift: Reshape and Transpose behind a quantizer go into the constant") {
  const Tensor weight = Tensor::floats({3, 4, 5}, normal_floats(60, 3));
  QuantOf wanted{.weight = weight, .scale = Tensor::floats({3, 1, 5}, normal_floats(15, 4, true))};
  Graph graph = quant_graph(wanted);
  graph.values["x"].shape = Shape{Dim("n"), 12};
  graph.nodes[0].outputs = {"groups"};
  graph.initializers["shape"] = Tensor::ints({2}, Ints{12, -1});
  graph.nodes.insert(
      graph.nodes.begin() + 1,
      {.name = "reshape", .op = "Reshape", .version = 13, .inputs = {"groups", "shape"}, .outputs = {"w"}});
  check_lifts(graph, "int4:group=4:scale=f32:range=full");
  CHECK(lift_quantized(graph).quantized.at("w").axes == Ints{1, 0});

  Graph transposed = graph;
  transposed.initializers["shape"] = Tensor::ints({2}, Ints{5, 12});
  transposed.initializers["data"] = weight.reshaped({5, 4, 3});
  transposed.initializers["scale"] = Tensor::floats({5, 1, 3}, normal_floats(15, 4, true));
  transposed.initializers["scale"] = Tensor::scalar(0.3F);
  transposed.nodes[1].outputs = {"rows"};
  transposed.nodes.insert(
      transposed.nodes.begin() + 2,
      {.name = "transpose", .op = "Transpose", .version = 13, .inputs = {"rows"}, .outputs = {"w"}});
  check_lifts(transposed, "int4:tensor:range=full");

  // With another use of what the quantizer makes, the constant is that.
  Graph forked = graph;
  forked.nodes.push_back(
      {.name = "fork", .op = "Neg", .version = 13, .inputs = {"groups"}, .outputs = {"z"}});
  forked.outputs.emplace_back("z");
  const Graph lifted = lift_quantized(forked);
  CHECK(lifted.quantized.contains("groups"));
  CHECK(!lifted.quantized.contains("w"));
  CHECK(lifted.nodes.size() == 3);
}

TEST_CASE("lift: groups of zeros keep their values") {
  Layer layer{"MatMul", {8, 4}, 1};
  std::vector<float> values = normal_floats(32, 9);
  for (std::size_t row = 0; row < 4; ++row) values[row * 4 + 2] = 0;
  for (const std::string spec :
       {"int4:group=4", "int2h:group=4", "int4:group=4:zero=int", "e2m1:group=4", "binary:group=4"}) {
    CAPTURE(spec);
    Graph graph = layer_graph(layer, spec, 1);
    graph.quantized["w"] = quantize_constant(QuantSpec::parse(spec), Tensor::floats({8, 4}, values), 1, "w");
    const Graph lowered = lower_quantized(graph);
    const Graph lifted = lift_quantized(lowered);
    const bool is_binary = spec.starts_with("binary");  // a scale of 0 that no quantizer takes
    REQUIRE(lifted.quantized.contains("w") == !is_binary);
    if (is_binary) continue;
    CHECK(lifted.quantized.at("w").value().to_floats() == graph.quantized.at("w").value().to_floats());
    CHECK(std::ranges::equal(lifted.quantized.at("w").tensor->codes, graph.quantized.at("w").tensor->codes));
  }
}

}  // namespace
}  // namespace crumb::graph
