// The stage fisher under squared gradients that somebody gives: its codebooks are those of weighted k-means, whatever lies where.
#include "ptq/rounding/fisher.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "graph/onnx/infer_shapes.h"
#include "graph/strided_index.h"
#include "ptq/matrices/weight_rows.h"
#include "quant/quantized_tensor.h"
#include "runtime/engine.h"
#include "tests/graph/node_builder.h"
#include "tests/ptq/layers.h"
#include "tests/ptq/settings.h"

namespace {

using crumb::graph::Tensor;
using crumb::ptq::Setting;

/// A product, a Gemm of a turned matrix and a convolution side by side on one image, in drawn specs, one of them no palette.
struct Given {
  Setting setting;
  crumb::runtime::Engine engine{1};
  crumb::graph::SquaredGradients squares;
  std::set<std::string> asked;
  std::size_t samples = 0, draws = 0;

  explicit Given(std::mt19937& random, bool is_even = false) {
    crumb::graph::NodeBuilder build;
    const std::string x = build.input("x", {1, 3, 6, 6});
    build.graph.values["x"].shape->front() = crumb::graph::Dim("n");
    const std::string flat = build.node("Flatten", {x});
    build.graph.outputs = {
        build.node("MatMul", {flat, weight(build, random, "product", {108, 7}, 1)}),
        build.node("Gemm", {flat, weight(build, random, "turned", {5, 108}, 0)},
                   {{"transB", std::int64_t{1}}}),
        build.node("Conv", {x, weight(build, random, "window", {8, 3, 3, 3}, 0)}),
        build.node("MatMul",
                   {flat, build.constant("other", crumb::ptq::test::drawn_tensor(random, {108, 4}))})};
    crumb::ptq::test::will_be(setting, "other", 1, "int4:channel");
    setting.graph = crumb::graph::infer_shapes(build.graph);
    crumb::ptq::test::feed(setting, engine,
                           {crumb::ptq::test::drawn_tensor(random, {3, 3, 6, 6}),
                            crumb::ptq::test::drawn_tensor(random, {2, 3, 6, 6})});
    std::gamma_distribution<float> gamma(0.5F);
    for (const crumb::graph::PlannedConstant& constant : setting.plan.constants)
      for (std::int64_t i = 0; i < setting.graph.initializers.at(constant.value).size(); ++i)
        squares[constant.value].push_back(is_even ? 1.0F : gamma(random));
    setting.squared_gradients = [this](const crumb::graph::Graph&, const std::set<std::string>& constants,
                                       const crumb::graph::Batches& batches, std::size_t wanted) {
      asked = constants;
      draws = wanted;
      batches([&](const std::vector<Tensor>& sample) {
        CHECK(sample.at(0).shape() == std::vector<std::int64_t>{1, 3, 6, 6});
        ++samples;
      });
      return squares;
    };
  }
  Given(const Given&) = delete;
  Given& operator=(const Given&) = delete;

 private:
  std::string weight(crumb::graph::NodeBuilder& build, std::mt19937& random, const std::string& name,
                     const std::vector<std::int64_t>& shape, std::size_t axis) {
    const std::array<const char*, 4> specs = {"palette2:channel", "palette3:tensor", "palette4:group=9",
                                              "palette1:channel"};
    crumb::ptq::test::will_be(setting, name, axis, specs[random() % specs.size()]);
    return build.constant(name, crumb::ptq::test::drawn_tensor(random, shape, true));
  }
};

/// What a constant's codes are, beside what they should be made of.
struct Codes {
  std::vector<float> weights, scales;  ///< of each weight
  std::vector<double> importance;
  std::vector<std::uint8_t> codes;
  std::vector<float> codebook;

  Codes(const Given& given, const crumb::graph::PlannedConstant& constant, double damping) {
    const Tensor& tensor = given.setting.graph.initializers.at(constant.value);
    weights = crumb::ptq::weight_rows(tensor, constant.axes.output).values;
    std::vector<float> squares = given.squares.at(constant.value);
    double all = 0;
    for (const float square : squares) all += static_cast<double>(square);
    squares = crumb::graph::permuted(squares, tensor.shape(), crumb::graph::inverse(constant.rounded->axes));
    for (const float square : squares)
      importance.push_back(static_cast<double>(square) + damping * all / static_cast<double>(squares.size()));
    const crumb::QuantizedTensor& made = *constant.rounded->tensor;
    codebook.resize(made.codebook.size() / sizeof(float));
    std::memcpy(codebook.data(), made.codebook.data(), made.codebook.size());
    const crumb::RowDecoder decoder(made.view());
    const std::uint64_t columns = decoder.cols();
    codes.resize(weights.size());
    for (std::uint64_t row = 0; row < decoder.rows(); ++row) {
      decoder.codes(row, 0, std::span(codes).subspan(row * columns, columns));
      for (std::uint64_t column = 0; column < columns; ++column)
        scales.push_back(decoder.scale(row / made.encoding.block_rows * made.layout.blocks_per_row +
                                       column / made.encoding.block_cols));
    }
  }

  double lost() const {
    double sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double off = static_cast<double>(codebook[codes[i]]) * static_cast<double>(scales[i]) -
                         static_cast<double>(weights[i]);
      sum += importance[i] * off * off;
    }
    return sum;
  }
};

}  // namespace

TEST_CASE("fisher: a codebook's values are the weighed means of what is nearest to them") {
  std::mt19937 random(311);
  for (int round = 0; round < 20; ++round) {
    Given given(random);
    const double damping = round % 3 == 0 ? 0.5 : 0;
    const auto report = crumb::ptq::test::run_one(
        "fisher:draws=3" + std::string(damping > 0 ? ":damp=0.5" : ""), given.setting);
    CHECK(given.asked == std::set<std::string>{"product", "turned", "window"});
    CHECK(given.samples == 5);
    CHECK(given.draws == 3);
    CHECK(report.layers.size() == 3);
    CHECK(report.notes == std::vector<std::string>{"1 constant of other specs keeps rounding"});
    for (const crumb::graph::PlannedConstant& constant : given.setting.plan.constants) {
      if (constant.value == "other") continue;
      CAPTURE(constant.spec->to_string());
      const Codes found(given, constant, damping);
      std::vector<double> sums(found.codebook.size()), shares(found.codebook.size());
      for (std::size_t i = 0; i < found.weights.size(); ++i) {
        const auto scale = static_cast<double>(found.scales[i]);
        const double level = static_cast<double>(found.weights[i]) / scale;
        double nearest = std::fabs(static_cast<double>(found.codebook[0]) - level);
        for (const float value : found.codebook)
          nearest = std::min(nearest, std::fabs(static_cast<double>(value) - level));
        // Of two that are as near one is as good.
        CHECK(std::fabs(static_cast<double>(found.codebook[found.codes[i]]) - level) <= nearest + 1e-6);
        const double share = found.importance[i] * scale * scale;
        sums[found.codes[i]] += share * level;
        shares[found.codes[i]] += share;
      }
      for (std::size_t code = 0; code < sums.size(); ++code)
        if (shares[code] > 0)  // levels are within 1 and float32 numbers, a mean is rounded to one
          CHECK(static_cast<double>(found.codebook[code]) ==
                doctest::Approx(sums[code] / shares[code]).epsilon(1e-6).scale(1));
    }
  }
}

TEST_CASE("fisher: what weighs is lost less of than by a codebook for weights that count alike") {
  std::mt19937 random(312);
  int better = 0, all = 0;
  for (int round = 0; round < 20; ++round) {
    const std::uint32_t seed = random();
    std::mt19937 one(seed), two(seed);
    Given weighed(one), even(two, true);
    const auto report = crumb::ptq::test::run_one("fisher", weighed.setting);
    (void)crumb::ptq::test::run_one("fisher", even.setting);
    for (const crumb::ptq::LayerReport& layer : report.layers) CHECK(layer.after <= layer.before);
    even.squares = weighed.squares;
    for (std::size_t i = 0; i < weighed.setting.plan.constants.size(); ++i) {
      if (!weighed.setting.plan.constants[i].rounded) continue;
      const Codes found(weighed, weighed.setting.plan.constants[i], 0),
          flat(even, even.setting.plan.constants[i], 0);
      better += found.lost() < 0.99 * flat.lost() ? 1 : 0;
      ++all;
    }
  }
  CHECK(4 * better > 3 * all);  // k-means from other starts can end elsewhere
}

TEST_CASE("fisher: constants that no gradient reaches, and settings without samples or gradients") {
  std::mt19937 random(313);
  Given given(random);
  std::ranges::fill(given.squares["turned"], 0.0F);
  const auto report = crumb::ptq::test::run_one("fisher", given.setting);
  CHECK(report.notes.at(0) == "turned: no gradient reaches it, and rounding stays");
  CHECK(given.setting.palettes == std::set<std::string>{"product", "window"});
  // What it left is still open; then there is nothing.
  std::ranges::fill(given.squares["turned"], 1.0F);
  CHECK(crumb::ptq::test::run_one("fisher", given.setting).layers.size() == 1);
  CHECK_THROWS_WITH_AS(
      (void)crumb::ptq::test::run_one("fisher", given.setting),
      "the stage fisher finds no palette (palette1 to palette8) that has no codes yet, found "
      "int4:channel for 'other'",
      crumb::Error);
  Given without(random);
  without.setting.squared_gradients = {};
  CHECK_THROWS_AS((void)crumb::ptq::test::run_one("fisher", without.setting), crumb::Error);
  without.setting.samples = {};
  CHECK_THROWS_WITH_AS((void)crumb::ptq::test::run_one("fisher", without.setting),
                       "the stage fisher needs samples that run through the network: --data", crumb::Error);
}

TEST_CASE("fisher: stages behind it choose codes in its codebooks, once") {
  std::mt19937 random(314);
  for (const char* stage : {"gptq", "clip", "gpfq", "adaround:steps=3", "best:trials=2"}) {
    Given given(random);
    (void)crumb::ptq::test::run_one("fisher", given.setting);
    std::map<std::string, std::vector<std::byte>> codebooks;
    for (const crumb::graph::PlannedConstant& constant : given.setting.plan.constants)
      if (constant.rounded) codebooks[constant.value] = constant.rounded->tensor->codebook;
    const auto report = crumb::ptq::test::run_one(stage, given.setting);
    CHECK(report.layers.size() == 4);
    for (const crumb::graph::PlannedConstant& constant : given.setting.plan.constants)
      if (codebooks.contains(constant.value))
        CHECK(constant.rounded->tensor->codebook == codebooks.at(constant.value));
    CHECK(given.setting.palettes.empty());
    CHECK_THROWS_AS((void)crumb::ptq::test::run_one(stage, given.setting), crumb::Error);
  }
}
