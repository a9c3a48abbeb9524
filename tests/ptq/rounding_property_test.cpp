// Layers of every kind that can be drawn: what the stages that choose codes promise of any of them.
#include <doctest/doctest.h>

#include <Eigen/Cholesky>
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ptq/rounding/gpfq.h"
#include "ptq/rounding/gptq.h"
#include "ptq/rounding/layer_rounding.h"
#include "ptq/rounding/output_error.h"
#include "ptq/rounding/qronos.h"
#include "tests/ptq/layers.h"
#include "tests/support/testing.h"

namespace {

using namespace crumb::ptq;
using crumb::QuantSpec;
using Eigen::Index;
using Eigen::MatrixXd;
using test::Rows;

struct RoundingMethod {
  std::string name;
  CodeWalkOf walk;
};
const std::vector<RoundingMethod> kRoundingMethods = {
    {"gptq", gptq_walk}, {"gpfq", gpfq_walk}, {"qronos", qronos_walk}};

const std::vector<std::string> kDrawnSpecs = {"int4:channel",
                                              "int3:group=8:pad",
                                              "int2h:group=16:pad",
                                              "int2:group=32:pad:search=mse",
                                              "e2m1:group=16:pad",
                                              "mxfp4:pad",
                                              "nvfp4:pad",
                                              "ternary:channel:search=mse",
                                              "uint4:group=16:pad:zero=int",
                                              "uint4:channel:zero=int",
                                              "int4:channel:round=floor",
                                              "int4:channel:round=stochastic=3",
                                              "palette3:channel",
                                              "int8:tensor",
                                              "int5:block=2x8:pad"};

struct AnyLayer {
  std::string spec;
  Rows weights;
  float correlation = 0;
  Index samples = 0;
  Rows inputs;              ///< x, a column a sample
  Rows floats;              ///< y, the same before a network was quantized; empty: x
  MatrixXd moments, cross;  ///< cross: of y and x
};

AnyLayer drawn_any_layer(std::mt19937& random) {
  const Index size = 1 + static_cast<Index>(random() % 96);
  AnyLayer made{.spec = random() % 3 == 0 ? kDrawnSpecs[0] : kDrawnSpecs[random() % kDrawnSpecs.size()],
                .weights = test::drawn_matrix(random, 1 + static_cast<Index>(random() % 16), size),
                .correlation = std::array{0.0F, 0.5F, 0.9F}[random() % 3],
                .samples = std::array<Index, 3>{1 + size / 3, 2 * size, 4 * size}[random() % 3],
                .inputs = {},
                .floats = {},
                .moments = {},
                .cross = {}};
  const Rows y = test::drawn_samples(random, size, made.samples, made.correlation),
             x = y + 0.2F * test::drawn_matrix(random, size, made.samples);
  const bool is_late = random() % 2 == 0;  // in the network, behind layers that were quantized
  made.moments = test::moments_of(is_late ? x : y);
  made.inputs = is_late ? x : y;
  if (is_late) {
    made.floats = y;
    made.cross = y.cast<double>() * x.cast<double>().transpose();
  }
  return made;
}

/// How far outputs are from the float layer's, over its own squares.
double lost_by(const AnyLayer& layer, const MatrixXd& values) {
  const MatrixXd x = layer.inputs.cast<double>(),
                 meant = layer.weights.cast<double>() *
                         (layer.floats.size() > 0 ? layer.floats.cast<double>() : x);
  return (values * x - meant).squaredNorm() / meant.squaredNorm();
}

RoundedLayer rounded_by(const AnyLayer& layer, const RoundingOptions& options,
                        const std::optional<Budget>& budget = std::nullopt) {
  const auto rows = static_cast<std::size_t>(layer.weights.rows()),
             columns = static_cast<std::size_t>(layer.weights.cols());
  const WeightRows weights{.axes = {0, 1},
                           .shape = {rows, columns},
                           .values = {layer.weights.data(), layer.weights.data() + layer.weights.size()}};
  LayerMoments inputs{.moments = {layer.moments}, .cross = {}, .apart = {}};
  if (layer.cross.size() > 0) {
    inputs.cross = {layer.cross};
    inputs.apart = {test::moments_of(layer.floats - layer.inputs)};
  }
  return round_layer(QuantSpec::parse(layer.spec), weights, {.input = "x", .rows = rows, .columns = columns},
                     inputs, options, budget, "w");
}

MatrixXd decoded_values(const crumb::QuantizedTensor& tensor, const AnyLayer& layer) {
  std::vector<float> values(static_cast<std::size_t>(layer.weights.size()));
  crumb::dequantize(tensor.view(), values);
  return Eigen::Map<const Rows>(values.data(), layer.weights.rows(), layer.weights.cols()).cast<double>();
}

bool says(const RoundedLayer& made, const std::string& what) {
  return std::ranges::any_of(made.notes, [&](const std::string& note) { return note.starts_with(what); });
}

struct MeanRatio {
  double sum = 0;
  int count = 0;
  double mean() const { return sum / std::max(count, 1); }
};

}  // namespace

TEST_CASE("rounding stages: any layer loses less than by rounding, or keeps it and says so") {
  std::mt19937 random(127);
  const int layers = crumb::testing::slow() ? 10'000 : 400;
  std::map<std::string, MeanRatio> kept;
  std::map<std::pair<std::string, float>, MeanRatio>
      plain;  // by method and correlation, at four bits by channel
  for (int i = 0; i < layers; ++i) {
    const AnyLayer layer = drawn_any_layer(random);
    CAPTURE(layer.spec);
    const crumb::FixedScales by_spec = test::scales_for(layer.spec, layer.weights);
    const auto nearest = by_spec.with_codes(nearest_codes(by_spec, test::numbers(layer.weights), 1));
    RoundingOptions options{.damping = std::array{0.01, 0.1}[random() % 2],
                            .by_size = random() % 4 != 0,
                            .own_scales = random() % 2 == 0,
                            .magnitudes = random() % 4 == 0 ? 0.01 : 0,
                            .sweeps = random() % 3 == 0 ? 2 : 0,
                            .threads = 1 + static_cast<int>(random() % 2)};
    const double before = lost_by(layer, decoded_values(nearest, layer));
    for (const RoundingMethod& method : kRoundingMethods) {
      CAPTURE(method.name);
      options.walk = method.walk;
      const RoundedLayer made = rounded_by(layer, options);
      const double after = lost_by(layer, decoded_values(made.codes, layer));
      const bool keeps = says(made, "rounding loses less");
      kept[method.name].sum += keeps ? 1 : 0;
      ++kept[method.name].count;
      // What is said is what is lost; outputs in float32.
      CHECK(made.before == doctest::Approx(before).epsilon(2e-3).scale(1e-4));
      CHECK(made.after == doctest::Approx(after).epsilon(2e-3).scale(1e-4));
      if (keeps) {
        CHECK(made.codes.codes == nearest.codes);
        CHECK(made.codes.scales == nearest.scales);
        CHECK(made.after == made.before);
      } else {
        CHECK(after <= before * (1 + 2e-3) + 1e-7);
      }
    }
    if (layer.spec != "int4:channel" || layer.cross.size() > 0 || layer.samples < 4 * layer.weights.cols() ||
        layer.weights.cols() < 24)
      continue;
    for (const RoundingMethod& method : kRoundingMethods) {
      const RoundedLayer made = rounded_by(layer, {.walk = method.walk, .own_scales = false, .sweeps = 0});
      MeanRatio& ratios = plain[{method.name, layer.correlation}];
      ratios.sum += made.after / made.before;
      ++ratios.count;
    }
  }
  for (const auto& [method, share] : kept) {
    MESSAGE(method << ": " << share.mean() << " of " << share.count << " layers keep rounding");
    CHECK(share.mean() < 0.1);
  }
  for (const auto& [what, ratio] : plain)
    MESSAGE(what.first << ", int4:channel, correlation " << what.second << ": " << ratio.mean()
                       << " of rounding's error in " << ratio.count << " layers");
  if (crumb::testing::slow()) {
    CHECK(plain[{"gptq", 0.5F}].count > 50);
    CHECK(plain[{"gptq", 0.5F}].mean() <= 0.75);
    CHECK(plain[{"gptq", 0.9F}].mean() <= 0.3);
    CHECK(plain[{"qronos", 0.9F}].mean() <= 0.3);
  }
}

TEST_CASE("rounding stages: no input takes a sum out of its register, whatever chooses the codes") {
  std::mt19937 random(131);
  const int layers = crumb::testing::slow() ? 4000 : 200;
  int tight = 0;
  for (int i = 0; i < layers; ++i) {
    AnyLayer layer = drawn_any_layer(random);
    layer.spec = std::array<const char*, 5>{"int4:channel", "int8:channel", "int3:group=8:pad",
                                            "int2:channel", "int8:tensor:range=full"}[random() % 5];
    CAPTURE(layer.spec);
    if (random() % 20 == 0) layer.moments.setZero();  // no sample reaches it
    const Budget budget{
        .input = std::array<InputRange, 4>{InputRange{0, 15}, InputRange{-128, 127}, InputRange{-7, 7},
                                           InputRange{-255, 255}}[random() % 4],
        .accumulator = {.bits = 4 + static_cast<int>(random() % 18),
                        .tile = random() % 2 == 0 ? 0 : 1 + random() % 40}};
    const std::int64_t most = (std::int64_t{1} << (budget.accumulator.bits - 1)) - 1;
    for (const RoundingMethod& method : kRoundingMethods) {
      CAPTURE(method.name);
      const RoundedLayer made = rounded_by(layer,
                                           {.walk = method.walk,
                                            .damping = 0.01,
                                            .by_size = random() % 2 == 0,
                                            .own_scales = random() % 2 == 0,
                                            .magnitudes = random() % 4 == 0 ? 0.01 : 0},
                                           budget);
      const crumb::RowDecoder decoder(made.codes.view());
      const auto columns = static_cast<std::size_t>(layer.weights.cols()),
                 tile = budget.accumulator.tile == 0 ? columns : budget.accumulator.tile;
      std::vector<std::uint8_t> codes(columns);
      for (std::size_t row = 0; row < decoder.rows(); ++row) {
        decoder.codes(row, 0, codes);
        for (std::size_t begin = 0; begin < columns; begin += tile) {
          std::int64_t up = 0, down = 0;
          for (std::size_t k = begin; k < std::min(columns, begin + tile); ++k) {
            const auto code = static_cast<std::int64_t>(decoder.grid().values[codes[k]]);
            up += code * (code > 0 ? budget.input.greatest : budget.input.least);
            down += code * (code > 0 ? budget.input.least : budget.input.greatest);
          }
          CHECK(std::max(up, -down) <= most);
          tight += std::max(up, -down) * 10 > most * 9 ? 1 : 0;
        }
      }
    }
  }
  CHECK(tight > layers);  // and the room is used
}
