// Layers, certificates and witnesses: against counting by hand, through every pass and file.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "analysis/accumulator/check.h"
#include "analysis/accumulator/witness.h"
#include "graph/facts/lift_quantized.h"
#include "graph/onnx/expand_functions.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/onnx/read.h"
#include "graph/onnx/write.h"
#include "graph/packed/crumb_graph.h"
#include "graph/passes/opset.h"
#include "graph/passes/passes.h"
#include "graph/qonnx/quantized_constants.h"
#include "models/read_graph.h"
#include "tests/analysis/accumulator/networks.h"
#include "tests/support/capture_copy.h"
#include "tests/support/samples.h"
#include "tests/support/testing.h"

namespace crumb::analysis {
namespace {

using testing::says;
using Ints = std::vector<std::int64_t>;

std::map<std::string, graph::Certificate> certificates_in(const graph::Graph& graph) {
  std::map<std::string, graph::Certificate> found;
  for (const graph::Node& node : graph.nodes) {
    if (auto one = certificate_of(node).take()) found[node.op + node.domain] = *one;
  }
  return found;
}

void check_sound(const graph::Graph& graph, std::size_t certified) {
  const AccumulatorReport report = check_accumulators(graph);
  for (const std::string& failure : report.failures) FAIL_CHECK(failure);
  CHECK(std::ranges::count_if(report.layers, [](const auto& row) {
          return row.bits_certified.has_value();
        }) == static_cast<std::ptrdiff_t>(certified));
}

TEST_CASE("a layer's codes, range, bias and sums are those counted by hand") {
  Net net;
  const std::string x =
      net.quant(net.input("x", {2, 3}), graph::Tensor::scalar(0.5F), 3, 4, false);  // -3 to 12
  const std::string w = net.quant(
      net.constant("w", graph::Tensor::floats({3, 2}, std::vector<float>{0.25F, -0.5F, 0.75F, 1, -0.5F, 0})),
      graph::Tensor::floats({1, 2}, std::vector<float>{0.25F, 0.5F}), 0, 4);
  const std::string b =
      net.quant(net.constant("b", graph::Tensor::floats({2}, std::vector<float>{0.5F, -0.75F})),
                graph::Tensor::floats({2}, std::vector<float>{0.125F, 0.25F}), 0, 16);
  net.graph.outputs = {net.node("Add", {net.node("MatMul", {x, w}), b})};
  const ProductLayers layers(net.graph);
  REQUIRE(layers.size() == 1);
  const ProductLayer layer = layers.layer(0);
  CHECK(layer.weight_failure == "");
  CHECK(layer.channels == 2);
  CHECK(layer.length == 3);
  CHECK(layer.codes == Ints{1, 3, -2, -1, 2, 0});
  CHECK(layer.input_range == IntegerRange{-3, 12});
  CHECK(layer.bias == graph::BiasPlace::kInside);
  CHECK(layer.bias_codes == Ints{4, -3});
  CHECK(layer.bias_sum == net.graph.outputs[0]);
  const auto sums = layer.worst_sums({-3, 12}, 0);
  REQUIRE(sums);
  CHECK(*sums == std::vector<graph::ChannelSums>{{{4 * 12 + 2 * 3 + 4, -4 * 3 - 2 * 12}},
                                                 {{2 * 12 + 1 * 3, -2 * 3 - 12 - 3}}});
  const auto tiled = layer.worst_sums({-3, 12}, 2);
  CHECK((*tiled)[0] == graph::ChannelSums{{4 * 12 + 4, -12}, {6, -24}});
  CHECK((*tiled)[1] == graph::ChannelSums{{2 * 12 + 3, -6 - 12 - 3}, {0, 0}});
}

TEST_CASE("a Gemm's constant for each row is no start of a channel's sums") {
  for (const bool by_row : {false, true}) {
    Net net;
    const std::string x = net.quant(net.input("x", {3, 4}), graph::Tensor::scalar(0.5F), 0, 4, false);
    const std::string bias = net.bias(by_row ? Ints{3, 1} : Ints{1, 3}, 0.125F);
    net.graph.outputs = {net.node("Gemm", {x, net.weight({4, 3}, 0.25F), bias})};
    const ProductLayer layer = ProductLayers(graph::infer_shapes(net.graph)).layer(0);
    CHECK(layer.bias == (by_row ? graph::BiasPlace::kAfter : graph::BiasPlace::kInside));
    CHECK(layer.bias_sum == "");
  }
}

TEST_CASE("the input's range is found behind movers, pools, sums and joins of one scale, and not else") {
  const auto range_of = [](const std::function<std::string(Net&)>& make) {
    Net net;
    const std::string x = make(net);
    net.graph.outputs = {net.node("MatMul", {x, net.weight({4, 2}, 0.5F)})};
    const ProductLayers layers(graph::infer_shapes(net.graph));
    REQUIRE(layers.size() == 1);
    return layers.layer(0);
  };
  const auto q = [](Net& net, const char* name, float scale, bool is_signed, const Ints& shape = {1, 4}) {
    return net.quant(net.input(name, shape), graph::Tensor::scalar(scale), 0, 3, is_signed);
  };
  using R = IntegerRange;
  CHECK(range_of([&](Net& n) { return q(n, "a", 0.5F, true); }).input_range == R{-4, 3});
  CHECK(range_of([&](Net& n) { return n.node("Relu", {q(n, "a", 0.5F, true)}); }).input_range == R{0, 3});
  CHECK(range_of([&](Net& n) {
          return n.node("Add", {q(n, "a", 0.5F, true), q(n, "b", 0.5F, false)});
        }).input_range == R{-4, 10});
  CHECK(range_of([&](Net& n) {
          return n.node("Sub", {q(n, "a", 0.5F, true), q(n, "b", 0.5F, false)});
        }).input_range == R{-11, 3});
  CHECK(range_of([&](Net& n) {
          return n.node("Concat", {q(n, "a", 0.5F, true, {1, 2}), q(n, "b", 0.5F, false, {1, 2})},
                        {{"axis", std::int64_t{1}}});
        }).input_range == R{-4, 7});
  CHECK(range_of([&](Net& n) {
          return n.node("Mul", {q(n, "a", 0.5F, true), n.constant("k", graph::Tensor::scalar(0.3F))});
        }).input_range == R{-4, 3});
  const auto pooled = [&](Net& n, float in_bits, bool second) {
    const std::string pool =
        n.node("AveragePool", {q(n, "a", 0.5F, false, {1, 4, 2, 2})}, {{"kernel_shape", Ints{2, 2}}});
    const std::string sum = n.node("Mul", {pool, n.constant("four", graph::Tensor::scalar(4.0F))});
    std::vector<std::string> inputs{sum, n.constant("ts", graph::Tensor::scalar(0.5F)),
                                    n.constant("tz", graph::Tensor::scalar(0.0F)),
                                    n.constant("ti", graph::Tensor::scalar(in_bits))};
    if (second) inputs.push_back(n.constant("to", graph::Tensor::scalar(2.0F)));
    inputs.push_back(n.constant("tb", graph::Tensor::scalar(3.0F)));
    const std::string made =
        n.node("Trunc", inputs, {{"rounding_mode", std::string("FLOOR")}, {"signed", std::int64_t{0}}},
               graph::kQonnxDomain);
    n.graph.nodes.back().version = second ? 2 : 1;
    return n.node("Flatten", {made});
  };
  CHECK(range_of([&](Net& n) { return pooled(n, 5, false); }).input_range == R{0, 7});  // 28 of 32, by 4
  CHECK(range_of([&](Net& n) { return pooled(n, 4, false); }).input_range == R{0, 14});
  CHECK(range_of([&](Net& n) { return pooled(n, 5, true); }).input_range == R{0, 7});
  CHECK(range_of([&](Net& n) { return pooled(n, 5, true); }).input_scale == 2.0);
  const std::vector<std::pair<std::function<std::string(Net&)>, const char*>> unknown{
      {[&](Net& n) {
         return n.node("Add", {q(n, "a", 0.5F, true), q(n, "b", 0.25F, true)});
       },
       "Add"},
      {[&](Net& n) {
         return n.node("Concat", {q(n, "a", 0.5F, true, {1, 2}), q(n, "b", 0.25F, false, {1, 2})},
                       {{"axis", std::int64_t{1}}});
       },
       "Concat"},
      {[&](Net& n) { return n.node("Sigmoid", {q(n, "a", 0.5F, true)}); }, "Sigmoid"},
      {[&](Net& n) {
         return n.input("a", {1, 4});
       },
       "--input-range"},
      {[&](Net& n) {
         return n.quant(n.input("a", {1, 4}), graph::Tensor::floats({1, 4}, std::vector<float>{1, 2, 3, 4}),
                        0, 3);
       },
       "several scales"},
      {[&](Net& n) {
         return n.node("MatMul", {q(n, "a", 1, true), n.weight({4, 4}, 1)});
       },
       "MatMul"},
  };
  for (const auto& [make, why] : unknown) {
    Net net;
    const std::string x = make(net);
    net.graph.outputs = {net.node("MatMul", {x, net.weight({4, 2}, 0.5F)})};
    const ProductLayers layers(graph::infer_shapes(net.graph));
    const ProductLayer layer = layers.layer(layers.size() - 1);
    CHECK_FALSE(layer.input_range);
    CHECK(says(layer.input_failure, {why}));
  }
}

TEST_CASE("ranges that are given count where nothing else does") {
  Net net;
  net.graph.outputs = {
      net.node("MatMul", {net.node("Identity", {net.input("x", {1, 4})}), net.weight({4, 2}, 0.5F)})};
  CHECK(ProductLayers(net.graph, {{"x", {-2, 9}}}).layer(0).input_range == IntegerRange{-2, 9});
  net.graph.values["x"].annotations["finn_datatype"] = "UINT3";
  CHECK(ProductLayers(net.graph, {{"x", {-2, 9}}}).layer(0).input_range == IntegerRange{0, 7});
  CHECK_THROWS_WITH_AS(ProductLayers(net.graph, {{"y", {0, 1}}}), doctest::Contains("'y'"), Error);
}

TEST_CASE("grids without zero count in halves, minifloats in their smallest subnormal, groups apart") {
  const auto with_spec = [](const char* spec, std::size_t k) {
    Net net;
    const std::string x = net.quant(net.input("x", {1, static_cast<std::int64_t>(k)}),
                                    graph::Tensor::scalar(1.0F), 0, 4, false);
    const graph::Tensor w =
        graph::Tensor::floats({static_cast<std::int64_t>(k), 3}, testing::normal_values(3 * k, 4));
    net.graph.quantized["w"] = quantize_constant(QuantSpec::parse(spec), w, 1, "w");
    net.graph.values["w"] = value_of(w);
    net.graph.outputs = {net.node("MatMul", {x, "w"})};
    return net.graph;
  };
  for (const auto& [spec, unit] : std::vector<std::pair<const char*, double>>{{"int2h:channel", 0.5},
                                                                              {"binary:channel", 1},
                                                                              {"e2m1:channel", 0.5},
                                                                              {"e4m3:tensor", 1.0 / 512},
                                                                              {"int4:group=8", 1},
                                                                              {"ternary:channel", 1}}) {
    CAPTURE_COPY(std::string(spec));
    const graph::Graph graph = with_spec(spec, 24);
    const ProductLayer layer = ProductLayers(graph).layer(0);
    REQUIRE(layer.weight_failure == "");
    CHECK(layer.unit == unit);
    const std::vector<float> levels = levels_of(graph.quantized.at("w"));  // [24, 3]
    std::vector<graph::ChannelSums> expected(3);
    const bool grouped = std::string(spec).find("group") != std::string::npos;
    for (std::size_t n = 0; n < 3; ++n) {
      for (std::size_t g = 0; g < (grouped ? 3u : 1u); ++g) {
        Ints row;
        for (std::size_t k = 0; k < (grouped ? 8u : 24u); ++k)
          row.push_back(static_cast<std::int64_t>(levels[(g * 8 + k) * 3 + n] / unit));
        expected[n].push_back(*worst_sums(row, {0, 15}));
      }
    }
    CHECK(*layer.worst_sums({0, 15}, 0) == expected);
    CHECK(layer.one_scale != grouped);
    // The same in QONNX's words.
    if (no_quantizer_for(graph.quantized.at("w"))) continue;
    const ProductLayer lowered = ProductLayers(lower_quantized(graph)).layer(0);
    CHECK(lowered.codes == layer.codes);
    CHECK(lowered.unit == layer.unit);
    CHECK(*lowered.worst_sums({0, 15}, 0) == expected);
  }
  Net codebook;
  const graph::Tensor w = graph::Tensor::floats({24, 3}, testing::normal_values(72, 4));
  codebook.graph.quantized["w"] = quantize_constant(QuantSpec::parse("nf4:group=8"), w, 1, "w");
  codebook.graph.values["w"] = value_of(w);
  codebook.graph.outputs = {codebook.node("MatMul", {codebook.input("x", {1, 24}), "w"})};
  CHECK(says(ProductLayers(codebook.graph).layer(0).weight_failure, {"codebook"}));
}

TEST_CASE("taps of a strided ConvTranspose that never meet are apart") {
  Net net;
  const std::string x = net.quant(net.input("x", {1, 2, 4}), graph::Tensor::scalar(1.0F), 0, 2, false);
  const std::string w =
      net.quant(net.constant("w", graph::Tensor::floats({2, 1, 3}, std::vector<float>{1, 2, -3, 4, 5, 6})),
                graph::Tensor::scalar(1.0F), 0, 4);
  net.graph.outputs = {net.node("ConvTranspose", {x, w}, {{"strides", Ints{2}}})};
  const ProductLayer layer = ProductLayers(graph::infer_shapes(net.graph)).layer(0);
  CHECK(*layer.worst_sums({0, 3}, 0) ==
        std::vector<graph::ChannelSums>{{{3 * (1 + 4 + 6), -9}, {3 * (2 + 5), 0}}});
}

TEST_CASE("layers that are not sound are Errors, and kernels spread too far have no witness") {
  const auto layer_of = [](const char* op, const Ints& weight,
                           std::map<std::string, graph::Attribute> attributes) {
    Net net;
    const std::string x = net.quant(net.input("x", {1, 4, 9, 9}), graph::Tensor::scalar(1.0F), 0, 2, false);
    const std::string w = net.weight(weight, 0.5F);
    net.graph.outputs = {net.node(op, {x, w}, std::move(attributes))};
    return ProductLayers(net.graph).layer(0);
  };
  using std::int64_t;
  for (const int64_t group : {7, 0, -2}) {
    const std::string said = "4 channels are no " + std::to_string(group) + " equal groups";
    CHECK_THROWS_WITH_AS(layer_of("Conv", {4, 2, 3, 3}, {{"group", group}}), doctest::Contains(said.c_str()),
                         Error);
    CHECK_THROWS_AS(layer_of("ConvTranspose", {4, 2, 3, 3}, {{"group", group}}), Error);
  }
  CHECK_THROWS_AS(layer_of("Conv", {4, 2}, {}), Error);
  CHECK_THROWS_AS(layer_of("ConvTranspose", {4, 2, 3, 3}, {{"group", int64_t{3}}}), Error);
  for (const Ints& strides : {Ints{2}, Ints{0, 1}, Ints{-1, 1}, Ints{1 << 15, 1 << 15}}) {
    CHECK_THROWS_AS(layer_of("ConvTranspose", {4, 2, 3, 3}, {{"strides", strides}}), Error);
  }
  const ProductLayer wide = layer_of("ConvTranspose", {4, 2, 3000, 3}, {{"dilations", Ints{1 << 16, 1}}});
  CHECK(wide.worst_sums({0, 3}, 0));
  CHECK(witnesses_of(wide, 0).empty());
}

TEST_CASE("certificates survive JSON, and what is no certificate is refused") {
  const graph::Certificate certificate{.method = graph::AccumulatorMethod::kA2qPlus,
                                       .bits = 9,
                                       .input = {-3, 12},
                                       .tile = 16,
                                       .bias = graph::BiasPlace::kInside,
                                       .constrained = false,
                                       .worst = {{{5, -7}, {0, 0}}, {{1, -1}}}};
  const std::string text = to_text(certificate);
  CHECK(graph::parse_certificate(text).take() == certificate);
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    REQUIRE(changed.find(from) != std::string::npos);
    return changed.replace(changed.find(from), from.size(), to);
  };
  const std::vector<std::tuple<std::string, std::string, const char*>> wrong{
      {"\"bits\":9", "\"bits\":0", "\"bits\" is 0, expected an integer from 1 to 64"},
      {"\"bits\":9", "\"bits\":1e3", "\"bits\" is 1000.0"},
      {"\"bits\":9", "\"bits\":\"9\"", "\"bits\" is '9'"},
      {"\"bits\":9,", "", "no field \"bits\""},
      {"a2q_plus", "axe", "\"method\" is 'axe', expected one of none, a2q, a2q_plus"},
      {"[-3,12]", "[12,-3]", "\"input\""},
      {"[-3,12]", "[-3]", "\"input\""},
      {"[5,-7]", "[-5,-7]", "\"worst\""},
      {"[5,-7]", "[5,18446744073709551615]", "\"worst\""},
      {"[5,-7]", "5", "\"worst\""},
      {"[[1,-1]]", "7", "\"worst\""},
      {"\"tile\":16", "\"tile\":-1", "\"tile\""},
      {"\"constrained\":false", "\"constrained\":0", "\"constrained\""},
      {"\"inside\"", "[[[[[[[[[[]]]]]]]]]]", "deep"},
      {"}", "", ""}};
  for (const auto& [from, to, message] : wrong) {
    CAPTURE_COPY(to);
    const auto result = graph::parse_certificate(replaced(from, to));
    REQUIRE_FALSE(result.ok());
    if (std::string(message) != "deep") CHECK(says(result.failure().message, {message}));
  }
  CHECK_FALSE(graph::parse_certificate("[]").ok());
  CHECK_FALSE(graph::parse_certificate("").ok());
}

TEST_CASE("a certified network is sound, before and after every pass") {
  const graph::Graph graph = certified_sample();
  check_sound(graph, 3);
  CHECK(certificates_in(graph).at("Conv").bias == graph::BiasPlace::kInside);
  CHECK(certificates_in(graph).at("Gemm").bias == graph::BiasPlace::kInside);
  CHECK(certificates_in(graph).at("MatMul").bias == graph::BiasPlace::kAfter);
  for (const graph::Pass& pass : graph::all_passes()) {
    if (pass.needs_engine) continue;
    CAPTURE(std::string(pass.name));
    check_sound(pass.run(graph, nullptr), 3);
    const graph::Graph lifted = lift_quantized(graph);
    check_sound(pass.run(lifted, nullptr), 3);
  }
  check_sound(channels_last(graph), 3);
  check_sound(channels_last(certified_sample(5), true), 3);
  check_sound(extract_conv_bias(channels_last(gemm_to_matmul(graph))), 3);
  check_sound(matmul_to_gemm(gemm_to_matmul(graph)), 3);
  check_sound(readable_names(extract_conv_bias(gemm_to_matmul(graph))), 3);
  check_sound(with_opset(graph, 21), 3);
  check_sound(with_opset(graph, 9), 3);
  check_sound(lift_quantized(graph), 3);
  check_sound(lower_quantized(lift_quantized(graph)), 3);
  check_sound(expand_functions(graph, [](const graph::Node& node) { return node.is("Relu"); }), 3);
}

TEST_CASE("certificates are in files, and come back onto their nodes") {
  const testing::TempDir folder;
  const graph::Graph graph = certified_sample(7);
  const auto onnx = folder.path() / "model.onnx", crumb = folder.path() / "model.crumb";
  write_onnx(graph, onnx);
  write_crumb_graph(lift_quantized(graph), crumb);
  for (const auto& path : {onnx, crumb}) {
    const graph::Graph read = models::read_graph(path);
    CHECK_FALSE(read.metadata.contains(graph::kAccumulatorKey));
    CHECK(certificates_in(read) == certificates_in(graph));
    check_sound(read, 3);
  }
  // Whoever renames nodes outside leaves certificates that name none: they stay, and are failures.
  graph::Graph renamed = models::read_graph(onnx);
  const std::string text = *certificates_text(renamed);
  for (graph::Node& node : renamed.nodes) {
    node.metadata.clear();
    if (node.name == "dense") node.name = "other";
  }
  renamed.metadata[graph::kAccumulatorKey] = text;
  write_onnx(renamed, onnx);
  const AccumulatorReport report = check_accumulators(models::read_graph(onnx));
  REQUIRE(report.failures.size() == 1);
  CHECK(says(report.failures[0], {"'dense'", "does not have"}));
  write_onnx(models::read_graph(onnx), onnx);
  CHECK(check_accumulators(models::read_graph(onnx)).failures == report.failures);
  drop_certificates(renamed);
  CHECK_FALSE(certificates_text(renamed));
}

TEST_CASE("malformed certificates in a file are a Failure") {
  graph::Graph graph = sample_network();
  for (const char* text :
       {"", "{", "[]", "{\"conv\": 3}", "{\"conv\": {}}", "{\"conv\": {\"method\": \"none\"}}",
        "{\"nowhere\": []}", "{\"conv\":{},\"conv\":{}}"}) {
    graph.metadata[graph::kAccumulatorKey] = text;
    const std::string bytes = onnx_bytes(graph);
    const auto parsed = graph::parse_onnx(std::as_bytes(std::span(bytes)), ".");
    REQUIRE_FALSE(parsed.ok());
    CHECK(says(parsed.failure().message, {graph::kAccumulatorKey}));
  }
}

TEST_CASE("two nodes of one name cannot both be written with a certificate") {
  graph::Graph graph = certified_sample();
  for (graph::Node& node : graph.nodes) {
    if (node.name == "dense") node.name = "conv";
  }
  CHECK_THROWS_WITH_AS(onnx_bytes(graph), doctest::Contains("'conv'"), Error);
}

TEST_CASE("every false claim is a failure that names layer, channel and numbers") {
  const graph::Graph graph = certified_sample(7);
  const auto failures_of = [&](const std::string& name,
                               const std::function<void(graph::Certificate&)>& change) {
    graph::Graph changed = graph;
    const auto node = std::ranges::find(changed.nodes, name, &graph::Node::name);
    graph::Certificate certificate = *certificate_of(*node).take();
    change(certificate);
    set_certificate(*node, certificate);
    return check_accumulators(changed).failures;
  };
  const auto one = [&](const std::string& name, const std::function<void(graph::Certificate&)>& change,
                       std::initializer_list<const char*> parts) {
    const auto failures = failures_of(name, change);
    REQUIRE(failures.size() == 1);
    CHECK(says(failures[0], parts));
  };
  one("conv", [](graph::Certificate& c) { c.worst[2][1].max += 1; },
      {"'conv'", "channel 2", "tile 1", "certified"});
  one("dense", [](graph::Certificate& c) { c.worst[3][0].min -= 4; }, {"'dense'", "channel 3"});
  one("conv", [](graph::Certificate& c) { c.worst.pop_back(); }, {"'conv'", "4 channels", "3"});
  one("conv", [](graph::Certificate& c) { c.worst[1].pop_back(); }, {"channel 1", "registers"});
  one("conv", [](graph::Certificate& c) { c.tile = 0; }, {"channel 0", "registers"});
  one("out", [](graph::Certificate& c) { c.bias = graph::BiasPlace::kInside; },
      {"'out'", "bias is after the accumulator", "certified as inside"});
  CHECK(failures_of("dense", [](graph::Certificate& c) { c.bits = 3; }).size() == 5);  // every channel
  CHECK(says(failures_of("dense", [](graph::Certificate& c) { c.bits = 3; })[1],
             {"'dense'", "channel 1", "certified 3"}));
  const auto narrower = failures_of("dense", [](graph::Certificate& c) { c.input.high = 7; });
  REQUIRE(narrower.size() == 2);
  CHECK(says(narrower[0], {"inputs are 0..15, certified for 0..7"}));
  // A wider range than the file's is a claim that holds, where the sums are that range's.
  CHECK(failures_of("dense", [](graph::Certificate& c) {
          c.input.high = 30;
          c.bits = 20;
        }).size() == 1);
}

TEST_CASE("what cannot be certified is an Error that says why") {
  const graph::Graph graph = sample_network();
  CHECK_THROWS_WITH_AS(with_certificates(graph, {{"dense", {.bits = 4}}}),
                       doctest::Contains("'dense' (Gemm), channel"), Error);
  CHECK_THROWS_WITH_AS(with_certificates(graph, {{"nothing", {}}}), doctest::Contains("'nothing'"), Error);
}

TEST_CASE("widths are asked of constrained layers, of all where none has a certificate") {
  const auto failures = [](const graph::Graph& graph, int bits) {
    return check_accumulators(graph, {.bits = bits}).failures;
  };
  const AccumulatorReport report = check_accumulators(sample_network());
  int most = 0;
  for (const AccumulatorRow& row : report.layers) most = std::max(most, row.bits_needed.value());
  CHECK(failures(sample_network(), most).empty());
  CHECK(failures(sample_network(), 2).size() == 3);
  CHECK(failures(certified_sample(), 2).size() == 2);  // "out" is not constrained
  Net net;
  net.graph.outputs = {net.node("MatMul", {net.input("x", {1, 4}), net.weight({4, 2}, 0.5F)})};
  CHECK(check_accumulators(net.graph).failures.empty());
  CHECK(says(failures(net.graph, 32).at(0), {"not known", "--input-range"}));
  net.graph.nodes.back().metadata[graph::kAccumulatorKey] = graph::to_text({.worst = {{{0, 0}}, {{0, 0}}}});
  CHECK(says(check_accumulators(net.graph).failures.at(0), {"range of its input is not known"}));
}

}  // namespace
}  // namespace crumb::analysis
