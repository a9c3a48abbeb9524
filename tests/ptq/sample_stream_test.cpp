// Samples on their way through a network: what they bring to each layer is what the whole network computes there.
#include "ptq/samples/sample_stream.h"

#include <doctest/doctest.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/quantized_constant.h"
#include "ptq/rounding/gptq.h"
#include "ptq/samples/layer_moments.h"
#include "runtime/engine.h"
#include "tests/graph/node_builder.h"

namespace {

using crumb::graph::Graph;
using crumb::graph::QuantPlan;
using crumb::graph::Tensor;
using crumb::ptq::SampledLayer;
using crumb::ptq::SampleStream;
using crumb::ptq::Station;

Tensor drawn(std::mt19937& random, const std::vector<std::int64_t>& shape) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return Tensor::floats(shape, values);
}

void plan(QuantPlan& plan, const std::string& name, std::size_t axis, const std::string& spec) {
  plan.constants.push_back({.value = name,
                            .node = "node of " + name,
                            .axes = axis,
                            .spec = crumb::QuantSpec::parse(spec),
                            .kept_because = "",
                            .rounded = {}});
}

struct Network {
  Graph graph;
  QuantPlan plan;
  std::vector<std::string> inputs;
};

/// A network of random shape over [2, 6, 5, 4]: convolutions of any stride, padding, dilation and number of groups, behind and
/// beside each other, sums of what lies further back, in the end products of matrices.
Network drawn_network(std::mt19937& random) {
  crumb::graph::NodeBuilder build;
  Network made;
  std::vector<std::string> known = {build.input("x", {2, 6, 5, 4})};  // all of that shape
  for (unsigned i = 0; i < 2 + random() % 6; ++i) {
    const std::string name = "conv" + std::to_string(i) + ".weight";
    const std::string from = known[random() % known.size()];
    const std::int64_t groups = std::vector<std::int64_t>{1, 2, 6}[random() % 3], dilation = 1 + random() % 2;
    const std::string y =
        build.node("Conv", {from, build.constant(name, drawn(random, {6, 6 / groups, 3, 3}))},
                   {{"group", groups},
                    {"dilations", std::vector<std::int64_t>(2, dilation)},
                    {"pads", std::vector<std::int64_t>(4, dilation)}});
    plan(made.plan, name, 0, random() % 2 == 0 ? "int4:channel" : "int3:group=9:pad");
    const std::string z = build.node(random() % 2 == 0 ? "Relu" : "Sigmoid", {y});
    known.push_back(random() % 2 == 0 ? z : build.node("Add", {z, known[random() % known.size()]}));
  }
  const std::string strided = build.node(
      "Conv", {known.back(), build.constant("strided.weight", drawn(random, {4, 6, 2, 3}))},
      {{"strides", std::vector<std::int64_t>{2, 1}}, {"pads", std::vector<std::int64_t>{0, 1, 1, 2}}});
  plan(made.plan, "strided.weight", 0, "int4:channel");
  const std::string flat = build.node("Flatten", {build.node("GlobalAveragePool", {strided})});
  std::string y = build.node("MatMul", {flat, build.constant("first.weight", drawn(random, {4, 7}))});
  plan(made.plan, "first.weight", 1, "int3:channel");
  y = build.node(
      "Gemm",
      {y, build.constant("second.weight", drawn(random, {3, 7})), build.constant("bias", drawn(random, {3}))},
      {{"transB", std::int64_t{1}}});
  plan(made.plan, "second.weight", 0, "int4:channel");
  build.graph.outputs = {y, build.node("GlobalMaxPool", {known[known.size() / 2]})};
  made.graph = crumb::graph::infer_shapes(build.graph);
  return made;
}

std::map<std::string, Tensor> all_values(const Graph& graph, const std::vector<Tensor>& inputs,
                                         const std::set<std::string>& wanted) {
  std::map<std::string, Tensor> values;
  for (std::size_t i = 0; i < inputs.size(); ++i) values[graph.inputs[i]] = inputs[i];
  Graph watched = graph;
  for (const std::string& value : wanted)
    if (!values.contains(value) && std::ranges::find(watched.outputs, value) == watched.outputs.end())
      watched.outputs.push_back(value);
  const std::vector<Tensor> outputs = crumb::runtime::Engine(1).prepare(watched)->run(inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) values[watched.outputs[i]] = outputs[i];
  return values;
}

}  // namespace

TEST_CASE("sample stream: each layer sees what it sees in the network with the codes of those before it") {
  std::mt19937 random(41);
  for (int round = 0; round < 60; ++round) {
    Network network = drawn_network(random);
    const std::vector<SampledLayer> layers = crumb::ptq::sampled_layers(network.graph, network.plan);
    REQUIRE(layers.size() == network.plan.constants.size());
    const std::vector<Station> stations = crumb::ptq::stations_of(network.graph, layers);
    std::size_t counted = 0;
    for (const Station& station : stations) counted += station.layers.size();
    CHECK(counted == layers.size());
    const crumb::runtime::Engine engine(1);
    SampleStream stream(network.graph, stations, engine, random() % 2 == 0 ? 0 : 2000);
    std::vector<Tensor> samples;
    for (int i = 0; i < 3; ++i) samples.push_back(drawn(random, {2, 6, 5, 4}));
    Graph now = network.graph;
    for (const Station& station : stations) {
      stream.advance();
      std::set<std::string> wanted;
      for (const SampledLayer& layer : station.layers) wanted.insert(layer.input);
      for (const Tensor& sample : samples) {
        const auto brought = stream.run({sample});
        const auto meant = all_values(now, {sample}, wanted);
        for (const std::string& value : wanted) CHECK(brought.at(value) == meant.at(value));
      }
      for (const SampledLayer& layer : station.layers) {
        const auto& constant = network.plan.constants[layer.constant];
        auto codes = crumb::graph::quantize_constant(*constant.spec, now.initializers.at(constant.value),
                                                     constant.axes.output, constant.value);
        now.initializers.erase(constant.value);
        now.quantized[constant.value] = codes;
        stream.set_constant(constant.value, codes);
      }
    }
  }
}

TEST_CASE("sampled layers: a layer's outputs are its rows times what the samples bring") {
  std::mt19937 random(43);
  for (int round = 0; round < 60; ++round) {
    const Network network = drawn_network(random);
    const Graph& graph = network.graph;
    std::set<std::string> wanted;
    const auto layers = crumb::ptq::sampled_layers(graph, network.plan);
    for (const SampledLayer& layer : layers) wanted.insert({layer.input, graph.nodes[layer.node].outputs[0]});
    const auto values = all_values(graph, {drawn(random, {2, 6, 5, 4})}, wanted);
    for (const SampledLayer& layer : layers) {
      const crumb::graph::Node& node = graph.nodes[layer.node];
      if (node.is("Gemm")) continue;  // adds a bias
      const auto& constant = network.plan.constants[layer.constant];
      const Tensor& weight = graph.initializers.at(constant.value);
      const std::vector<float> w = weight.to_floats(), y = values.at(node.outputs[0]).to_floats();
      std::vector<float> found;  // group by group, image by image
      std::vector<std::pair<std::size_t, std::vector<float>>> parts;
      crumb::ptq::visit_samples(
          node, graph, layer, values.at(layer.input),
          [&](std::size_t group, const crumb::ptq::SampleColumns& x) {
            REQUIRE(x.size() == layer.columns);
            for (std::size_t row = 0; row < layer.rows; ++row) {
              for (std::size_t t = 0; t < x.samples; ++t) {
                double sum = 0;
                for (std::size_t k = 0; k < layer.columns; ++k) {
                  const std::size_t at = constant.axes.output == 0
                                             ? (group * layer.rows + row) * layer.columns + k
                                             : k * layer.rows + row;
                  sum += static_cast<double>(w[at]) * static_cast<double>(x.values[k * x.samples + t]);
                }
                found.push_back(static_cast<float>(sum));
              }
            }
          });
      REQUIRE(found.size() == y.size());
      for (std::size_t i = 0; i < y.size(); ++i) {
        // Convolutions come [image, channel, place]; products [sample, output], one visit for all samples.
        const std::size_t samples = y.size() / layer.rows,
                          at = layer.is_window ? i : i % layer.rows * samples + i / layer.rows;
        CHECK(found[at] == doctest::Approx(y[i]).epsilon(1e-4).scale(1));
      }
    }
  }
}

namespace {

crumb::ptq::Setting setting_of(const Network& network, const crumb::graph::Engine& engine,
                               std::vector<Tensor> samples) {
  return {.graph = network.graph,
          .plan = network.plan,
          .threads = 2,
          .engine = &engine,
          .samples = [samples](const auto& batch) {
            for (const Tensor& sample : samples) batch({sample});
          }};
}

const crumb::ptq::LayerReport& line_of(const crumb::ptq::StageReport& report, const std::string& layer) {
  return *std::ranges::find(report.layers, layer, &crumb::ptq::LayerReport::layer);
}

}  // namespace

TEST_CASE("gptq: every layer of a network loses less than by rounding, or keeps it") {
  std::mt19937 random(47);
  const crumb::runtime::Engine engine(1);
  for (int round = 0; round < 24; ++round) {
    const Network network = drawn_network(random);
    std::vector<Tensor> samples;
    for (int i = 0; i < 12; ++i) samples.push_back(drawn(random, {2, 6, 5, 4}));
    const std::string stage = std::vector<std::string>{"gptq", "gptq:sweeps=0:scales=off",
                                                       "gptq:float_inputs=on:order=off"}[random() % 3];
    CAPTURE(stage);
    crumb::ptq::Setting setting = setting_of(network, engine, samples);
    const auto report = crumb::ptq::run_stages({crumb::parse_stage(stage)}, setting).at(0);
    REQUIRE(report.layers.size() == network.plan.constants.size());
    for (const crumb::ptq::LayerReport& layer : report.layers) CHECK(layer.after <= layer.before);
    for (const auto& constant : setting.plan.constants) CHECK(constant.rounded);
    CHECK(line_of(report, "strided.weight").after < line_of(report, "strided.weight").before);
    // The same in another number of threads, with everything in a file.
    crumb::ptq::Setting other = setting_of(network, engine, samples);
    other.threads = 1;
    other.memory = 0;
    (void)crumb::ptq::run_stages({crumb::parse_stage(stage)}, other);
    for (std::size_t i = 0; i < setting.plan.constants.size(); ++i) {
      CHECK(setting.plan.constants[i].rounded->tensor->codes ==
            other.plan.constants[i].rounded->tensor->codes);
      CHECK(setting.plan.constants[i].rounded->tensor->scales ==
            other.plan.constants[i].rounded->tensor->scales);
    }
  }
}

TEST_CASE("moments: even samples have no more than the median norm, and the others' cross moments go along") {
  std::mt19937 random(59);
  for (int round = 0; round < 40; ++round) {
    const std::int64_t samples = 1 + static_cast<std::int64_t>(random() % 30),
                       size = 1 + static_cast<std::int64_t>(random() % 12);
    crumb::graph::NodeBuilder build;
    const std::string x = build.input("x", {samples, size});
    build.graph.outputs = {build.node("MatMul", {x, build.constant("w", drawn(random, {size, 3}))})};
    QuantPlan planned;
    plan(planned, "w", 1, "int4:channel");
    const auto stations =
        crumb::ptq::stations_of(build.graph, crumb::ptq::sampled_layers(build.graph, planned));
    std::vector<float> a = drawn(random, {samples, size}).to_floats(),
                       b = drawn(random, {samples, size}).to_floats();
    for (std::int64_t k = 0; k < size; ++k) a[static_cast<std::size_t>(k)] *= 300;  // as a first token
    crumb::ptq::StationMoments moments(build.graph, stations.at(0), true, true);
    moments.add({{"x", Tensor::floats({samples, size}, a)}}, {{"x", Tensor::floats({samples, size}, b)}}, 1);
    const auto rows = static_cast<std::size_t>(samples), width = static_cast<std::size_t>(size);
    std::vector<double> norms;
    for (std::size_t t = 0; t < rows; ++t) {
      double sum = 0;
      for (std::size_t k = 0; k < width; ++k) sum += std::pow(static_cast<double>(a[t * width + k]), 2);
      norms.push_back(std::sqrt(sum));
    }
    std::vector<double> sorted = norms;
    std::ranges::sort(sorted);
    const double median = sorted[rows / 2];
    const auto& sums = moments.of(stations[0].layers[0]);
    for (std::size_t i = 0; i < width; ++i) {
      for (std::size_t j = 0; j < width; ++j) {
        double own = 0, cross = 0;
        for (std::size_t t = 0; t < rows; ++t) {
          const double factor = std::pow(std::min(1.0, median / norms[t]), 2),
                       right = static_cast<double>(a[t * width + j]);
          own += factor * static_cast<double>(a[t * width + i]) * right;
          cross += factor * static_cast<double>(b[t * width + i]) * right;
        }
        const auto at = [](const Eigen::MatrixXd& matrix, std::size_t r, std::size_t c) {
          return matrix(static_cast<Eigen::Index>(r), static_cast<Eigen::Index>(c));
        };
        CHECK(at(sums.moments[0], i, j) == doctest::Approx(own).epsilon(1e-5).scale(median * median));
        CHECK(at(sums.cross[0], i, j) == doctest::Approx(cross).epsilon(1e-5).scale(median * median));
      }
    }
  }
}

TEST_CASE("gptq: samples that say nothing, are no numbers, or are not there") {
  std::mt19937 random(53);
  const crumb::runtime::Engine engine(1);
  const Network network = drawn_network(random);
  const auto run = [&](std::vector<Tensor> samples) {
    crumb::ptq::Setting setting = setting_of(network, engine, std::move(samples));
    return crumb::ptq::run_stages({crumb::parse_stage("gptq")}, setting).at(0);
  };
  const auto said = [&](std::vector<Tensor> samples) {
    try {
      (void)run(std::move(samples));
    } catch (const crumb::Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  std::vector<float> values(240, 0.0F);
  const auto zeros = run({Tensor::floats({2, 6, 5, 4}, values)});
  const bool says = std::ranges::any_of(zeros.notes, [](const std::string& note) {
    return note.find("conv0.weight: no sample reaches it, which keeps rounding") != std::string::npos;
  });
  CHECK(says);
  CHECK(run({}).notes.size() == network.plan.constants.size());
  values[7] = std::numeric_limits<float>::quiet_NaN();
  const std::string found = said({Tensor::floats({2, 6, 5, 4}, values)});
  CHECK(found.find("conv0.weight' takes, value 'x', holds inf or NaN") != std::string::npos);
  crumb::ptq::Setting without{.graph = network.graph, .plan = network.plan};
  CHECK_THROWS_WITH_AS((void)crumb::ptq::run_stages({crumb::parse_stage("gptq")}, without),
                       doctest::Contains("needs samples"), crumb::Error);
  // One sample is a sample.
  CHECK(run({drawn(random, {2, 6, 5, 4})}).layers.size() == network.plan.constants.size());
  // What has codes gets no others.
  crumb::ptq::Setting twice = setting_of(network, engine, {drawn(random, {2, 6, 5, 4})});
  CHECK_THROWS_WITH_AS(
      (void)crumb::ptq::run_stages({crumb::parse_stage("gptq"), crumb::parse_stage("gptq")}, twice),
      doctest::Contains("has none yet"), crumb::Error);
}
