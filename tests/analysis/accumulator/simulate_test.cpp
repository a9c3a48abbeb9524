// Layers in registers against loops that say the same in other words.
#include "analysis/accumulator/simulate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "tests/support/samples.h"

namespace crumb::analysis {
namespace {

using crumb::testing::says;
using Ints = std::vector<std::int64_t>;
constexpr auto kModes = {OverflowMode::kCheck, OverflowMode::kWrap, OverflowMode::kSaturate};

struct Random {
  std::mt19937 engine;
  std::int64_t below(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine);
  }
  Ints ints(std::size_t count, std::int64_t low, std::int64_t high) {
    Ints made(count);
    for (auto& one : made) one = below(low, high);
    return made;
  }
};

std::size_t product(const Ints& sizes) {
  std::size_t all = 1;
  for (const auto size : sizes) all *= static_cast<std::size_t>(size);
  return all;
}

ProductLayer matrix_layer(Random& random, std::size_t channels, std::size_t length, bool bias) {
  ProductLayer layer{.name = "fc", .op = "MatMul"};
  layer.weight_shape = {static_cast<std::int64_t>(length), static_cast<std::int64_t>(channels)};
  layer.channels = channels;
  layer.length = length;
  layer.codes = random.ints(channels * length, -7, 7);
  layer.scale.assign(channels, 0.5);
  layer.input_range = IntegerRange{-8, 7};
  layer.input_scale = 0.25;
  if (bias) {
    layer.bias = graph::BiasPlace::kInside;
    layer.bias_codes = random.ints(channels, -30, 30);
  }
  return layer;
}

/// What a register of so many bits makes of a number.
std::int64_t kept(std::int64_t sum, int bits, OverflowMode mode, std::int64_t& overflows) {
  const std::int64_t size = std::int64_t{1} << bits, high = size / 2 - 1;
  if (sum <= high && sum >= -high - 1) return sum;
  ++overflows;
  if (mode == OverflowMode::kCheck) return sum;
  if (mode == OverflowMode::kSaturate) return sum > 0 ? high : -high - 1;
  return ((sum + size / 2) % size + size) % size - size / 2;
}

TEST_CASE("a matrix in registers: tiles, bias, every mode") {
  Random random{std::mt19937(11)};
  for (int i = 0; i < 400; ++i) {
    const auto length = static_cast<std::size_t>(random.below(1, 13));
    const std::size_t channels = 3, rows = 4, tile = static_cast<std::size_t>(random.below(0, 5));
    const ProductLayer layer = matrix_layer(random, channels, length, i % 2 == 0);
    const int bits = 4 + i % 6;
    const OverflowMode mode = kModes.begin()[i % 3];
    const Ints x = random.ints(rows * length, -8, 7);
    Ints expected;
    std::int64_t additions = 0, overflowed = 0;
    std::optional<std::size_t> first;
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < channels; ++c) {
        std::int64_t before = additions, outside = 0;
        std::map<std::size_t, std::int64_t> registers;
        if (!layer.bias_codes.empty()) registers[0] = kept(layer.bias_codes[c], bits, mode, additions);
        for (std::size_t t = 0; t < length; ++t) {
          std::int64_t& sum = registers[tile == 0 ? 0 : t / tile];
          sum = kept(sum + layer.codes[c * length + t] * x[r * length + t], bits, mode, additions);
        }
        std::int64_t outer = registers.size() == 1 ? registers[0] : 0;
        const int wide = outer_accumulator_bits(bits, length, tile);
        for (auto one = registers.begin(); one != registers.end() && registers.size() > 1; ++one)
          outer = kept(outer + one->second, wide, mode, outside);
        additions += mode == OverflowMode::kCheck ? outside : 0;
        CHECK((mode == OverflowMode::kCheck || outside == 0));  // that is what its width is for
        if (additions > before) {
          ++overflowed;
          if (!first) first = expected.size();
        }
        expected.push_back(outer);
      }
    }
    SimulatedLayer simulated(layer, tile, {bits, mode});
    Ints sums(rows * channels);
    simulated.multiply(x, 0, channels, sums, 1 + i % 3);
    CHECK(sums == expected);
    CHECK(simulated.report().results == static_cast<std::int64_t>(expected.size()));
    CHECK(simulated.report().overflowed == overflowed);
    CHECK(simulated.report().additions == additions);
    REQUIRE(simulated.report().first.has_value() == first.has_value());
    if (first) CHECK(simulated.report().first->result == *first);
    if (first) CHECK(simulated.report().first->channel == *first % channels);
  }
}

struct Convolution {
  ProductLayer layer;
  WindowSteps steps;
  std::size_t samples = 2, inputs = 0;  ///< channels
  Ints kernel;
};

Convolution random_convolution(Random& random, bool transposed) {
  Convolution made;
  const auto axes = static_cast<std::size_t>(random.below(1, 3));
  const std::int64_t groups = random.below(1, 2), in = random.below(1, 2), out = random.below(1, 2);
  made.inputs = static_cast<std::size_t>(groups * in);
  made.kernel = random.ints(axes, 1, 3);
  ProductLayer& layer = made.layer;
  layer = matrix_layer(random, static_cast<std::size_t>(groups * out),
                       static_cast<std::size_t>(in) * product(made.kernel), random.below(0, 1) == 1);
  layer.kind = transposed ? ProductLayer::Kind::kTransposed : ProductLayer::Kind::kConvolution;
  layer.groups = groups;
  layer.weight_shape = transposed ? Ints{groups, in, out} : Ints{groups * out, in};
  layer.weight_shape.insert(layer.weight_shape.end(), made.kernel.begin(), made.kernel.end());
  WindowSteps& steps = made.steps;
  steps.strides = random.ints(axes, 1, 3);
  steps.dilations = random.ints(axes, 1, 2);
  steps.begin = random.ints(axes, 0, 2);
  for (std::size_t i = 0; i < axes; ++i) {
    const std::int64_t reach = (made.kernel[i] - 1) * steps.dilations[i] + 1;
    if (transposed) {
      steps.input.push_back(random.below(1, 4));
      steps.begin[i] = random.below(0, std::min<std::int64_t>(2, reach - 1));
      steps.output.push_back(steps.strides[i] * (steps.input[i] - 1) + reach - steps.begin[i] +
                             random.below(0, 1));
    } else {
      steps.input.push_back(reach + random.below(0, 4));
      steps.output.push_back(
          (steps.input[i] + steps.begin[i] + random.below(0, 2) - reach) / steps.strides[i] + 1);
    }
  }
  if (!transposed) return made;
  layer.strides = steps.strides;
  layer.dilations = steps.dilations;
  if (std::ranges::all_of(steps.strides, [](auto stride) { return stride == 1; })) return made;
  std::map<Ints, std::uint32_t> met;  // the taps that meet in one result
  std::vector<std::uint32_t> row;
  for (std::size_t term = 0; term < layer.length; ++term) {
    Ints phase(axes);
    std::size_t rest = term;
    for (std::size_t i = axes; i-- > 0;) {
      const auto size = static_cast<std::size_t>(made.kernel[i]);
      phase[i] = static_cast<std::int64_t>(rest % size) * steps.dilations[i] % steps.strides[i];
      rest /= size;
    }
    row.push_back(met.emplace(phase, static_cast<std::uint32_t>(met.size())).first->second);
  }
  for (std::size_t c = 0; c < layer.channels; ++c)
    layer.part.insert(layer.part.end(), row.begin(), row.end());
  return made;
}

/// Every input meets every tap; what lands outside is dropped.
Ints exact_sums(const Convolution& c, const Ints& x) {
  const ProductLayer& layer = c.layer;
  const bool transposed = layer.kind == ProductLayer::Kind::kTransposed;
  const std::size_t plane = product(c.steps.input), places = product(c.steps.output),
                    taps = product(c.kernel);
  const std::size_t groups = static_cast<std::size_t>(layer.groups), deep = c.inputs / groups,
                    wide = layer.channels / groups;
  Ints sums(c.samples * layer.channels * places);
  for (std::size_t i = 0; i < sums.size() && !layer.bias_codes.empty(); ++i)
    sums[i] = layer.bias_codes[i / places % layer.channels];
  const auto at = [](std::size_t index, const Ints& sizes, std::size_t axis) {
    for (std::size_t i = sizes.size() - 1; i > axis; --i) index /= static_cast<std::size_t>(sizes[i]);
    return static_cast<std::int64_t>(index % static_cast<std::size_t>(sizes[axis]));
  };
  for (std::size_t place = 0; place < places; ++place) {
    for (std::size_t from = 0; from < plane; ++from) {
      for (std::size_t tap = 0; tap < taps; ++tap) {
        bool meets = true;
        for (std::size_t i = 0; i < c.kernel.size(); ++i) {
          const std::int64_t k = at(tap, c.kernel, i) * c.steps.dilations[i],
                             o = at(place, c.steps.output, i), in = at(from, c.steps.input, i),
                             s = c.steps.strides[i], b = c.steps.begin[i];
          meets = meets && (transposed ? in * s + k == o + b : o * s + k == in + b);
        }
        if (!meets) continue;
        for (std::size_t n = 0; n < c.samples; ++n) {
          for (std::size_t m = 0; m < layer.channels; ++m) {
            for (std::size_t d = 0; d < deep; ++d) {
              sums[(n * layer.channels + m) * places + place] +=
                  layer.codes[m * layer.length + d * taps + tap] *
                  x[((n * groups + m / wide) * deep + d) * plane + from];
            }
          }
        }
      }
    }
  }
  return sums;
}

TEST_CASE(
    "convolutions of one to three axes, either way: wide registers hold the sums, narrow ones wrap them") {
  Random random{std::mt19937(12)};
  for (int i = 0; i < 300; ++i) {
    const Convolution c = random_convolution(random, i % 2 == 1);
    const Ints x = random.ints(c.samples * c.inputs * product(c.steps.input), -8, 7);
    const Ints exact = exact_sums(c, x);
    for (const std::size_t tile : {0u, 1u, 2u, 5u}) {
      Ints sums(exact.size());
      SimulatedLayer wide(c.layer, tile, {40, OverflowMode::kSaturate});
      wide.convolve(x, c.steps, sums, 1);
      CHECK(sums == exact);
      CHECK(!wide.report().first);
      CHECK(wide.report().results == static_cast<std::int64_t>(exact.size()));
    }
    Ints sums(exact.size());
    SimulatedLayer narrow(c.layer, 0, {6, OverflowMode::kWrap});
    narrow.convolve(x, c.steps, sums, 2);
    std::int64_t ignored = 0;
    for (std::size_t r = 0; r < sums.size(); ++r)
      CHECK(sums[r] == kept(exact[r], 6, OverflowMode::kWrap, ignored));
  }
}

TEST_CASE("certified widths hold: no input takes a register further than its worst sums") {
  Random random{std::mt19937(13)};
  for (int i = 0; i < 120; ++i) {
    const Convolution c = random_convolution(random, i % 2 == 1);
    const auto tile = static_cast<std::size_t>(random.below(0, 4));
    int bits = 2;
    const auto worst = c.layer.worst_sums(*c.layer.input_range, tile);
    REQUIRE(worst);
    for (const graph::ChannelSums& channel : *worst) {
      for (const WorstSums& sums : channel) bits = std::max(bits, accumulator_bits(sums));
    }
    SimulatedLayer layer(c.layer, tile, {bits, OverflowMode::kCheck});
    Ints sums(c.samples * c.layer.channels * product(c.steps.output));
    for (int trial = 0; trial < 4; ++trial) {  // at the ends of the range
      Ints x = random.ints(c.samples * c.inputs * product(c.steps.input), 0, 1);
      for (auto& one : x) one = one == 0 ? -8 : 7;
      layer.convolve(x, c.steps, sums, 1);
    }
    CHECK(layer.report().additions == 0);
  }
}

TEST_CASE("an overflow is named: layer, channel, tile, sum and width") {
  ProductLayer layer{.name = "fc", .op = "MatMul"};
  layer.weight_shape = {4, 2};
  layer.channels = 2;
  layer.length = 4;
  layer.codes = {1, 1, 1, 1, 3, -3, 5, 4};
  layer.scale = {1, 1};
  layer.input_range = IntegerRange{0, 3};
  layer.input_scale = 1;
  const Ints x{3, 0, 3, 3};
  Ints sums(2);
  SimulatedLayer whole(layer, 0, {6, OverflowMode::kCheck});
  whole.multiply(x, 0, 2, sums);
  CHECK(sums == Ints{9, 36});
  CHECK(whole.text_of_overflow() ==
        "layer 'fc' (MatMul), output channel 1: a sum reaches 36 after 4 of 4 terms, which takes 7 bits; the "
        "accumulator has 6 (1 of this layer's 2 sums overflow)");
  SimulatedLayer tiled(layer, 2, {5, OverflowMode::kCheck});
  tiled.multiply(x, 0, 2, sums);
  CHECK(tiled.text_of_overflow() ==
        "layer 'fc' (MatMul), output channel 1, tile 1: a sum reaches 27 after 2 of 2 terms, which takes 6 "
        "bits; "
        "the accumulator has 5 (1 of this layer's 2 sums overflow)");
}

TEST_CASE("an overflow below 0 takes the bits that its sum takes") {
  for (const std::int64_t most : {4, 5, 8, 9, 100}) {
    for (const std::int64_t sum : {most, -most}) {
      CAPTURE(sum);
      ProductLayer layer{.name = "fc", .op = "MatMul"};
      layer.weight_shape = {1, 1};
      layer.channels = layer.length = 1;
      layer.codes = {sum};
      layer.scale = {1};
      layer.input_range = IntegerRange{0, 1};
      layer.input_scale = 1;
      SimulatedLayer simulated(layer, 0, {2, OverflowMode::kCheck});
      Ints sums(1);
      simulated.multiply(Ints{1}, 0, 1, sums);
      int bits = 2;
      while (sum < -(std::int64_t{1} << (bits - 1)) || sum >= std::int64_t{1} << (bits - 1)) ++bits;
      const std::string takes = "takes " + std::to_string(bits) + " bits; the accumulator has 2 ";
      CHECK(says(simulated.text_of_overflow(), {"sum reaches", takes.c_str()}));
    }
  }
}

TEST_CASE(
    "overflows of a transposed convolution: in one phase, without a tile; of a bias that no term reaches") {
  ProductLayer layer{.name = "up", .op = "ConvTranspose", .kind = ProductLayer::Kind::kTransposed};
  layer.weight_shape = {1, 1, 1, 2};  // two taps, so that no term reaches every third result
  layer.strides = {3};
  layer.dilations = {1};
  layer.channels = 1;
  layer.length = 2;
  layer.codes = {1, 40};
  layer.part = {0, 1};
  layer.scale = {1};
  layer.input_range = IntegerRange{0, 1};
  layer.input_scale = 1;
  Ints sums(4);
  SimulatedLayer second(layer, 0, {6, OverflowMode::kCheck});
  second.convolve(Ints{1, 1}, {{2}, {4}, {3}, {1}, {0}}, sums, 1);
  CHECK(sums == Ints{1, 40, 0, 1});
  CHECK(second.text_of_overflow() ==
        "layer 'up' (ConvTranspose), output channel 0: a sum reaches 40 after 1 of 1 terms, which takes 7 "
        "bits; "
        "the accumulator has 6 (1 of this layer's 4 sums overflow)");
  layer.bias = graph::BiasPlace::kInside;
  layer.bias_codes = {-34};
  SimulatedLayer start(layer, 0, {6, OverflowMode::kCheck});
  start.convolve(Ints{1, 1}, {{2}, {4}, {3}, {1}, {2}}, sums, 1);
  CHECK(sums == Ints{-34, -33, 6, -34});
  CHECK(start.text_of_overflow() ==
        "layer 'up' (ConvTranspose), output channel 0: a sum reaches -34 after 0 of 0 terms, which takes 7 "
        "bits; "
        "the accumulator has 6 (4 of this layer's 4 sums overflow)");
}

TEST_CASE("inputs must lie on the grid and in the range that the graph says") {
  Random random{std::mt19937(14)};
  const SimulatedLayer layer(matrix_layer(random, 1, 3, false), 0, {8, OverflowMode::kCheck});
  const std::vector<double> sound{0.25, -2, 1.75};
  CHECK(layer.input_codes(sound) == Ints{1, -8, 7});
  for (const double wrong : {0.3, 2.0, -2.25, std::nan(""), HUGE_VAL}) {
    const std::vector<double> values{0, wrong};
    try {
      layer.input_codes(values);
      FAIL_CHECK("taken: " << wrong);
    } catch (const Error& error) {
      CHECK(says(error.what(), {"layer 'fc' (MatMul): an input is ", "from -8 to 7"}));
    }
  }
}

TEST_CASE("computed weights count in their scale, times the unit of their grid") {
  ProductLayer layer{.name = "scores", .op = "MatMul", .weight = "keys"};
  layer.channels = 1;
  layer.length = 2;
  layer.input_range = IntegerRange{0, 1};
  layer.weight_range = IntegerRange{-8, 7};
  layer.term = IntegerRange{-8, 7};
  layer.input_scale = 1;
  layer.scale = {0.25};
  layer.unit = 0.5;
  const SimulatedLayer simulated(layer, 0, SimulatedRegister(20, OverflowMode::kCheck));
  CHECK(simulated.weight_codes(std::vector<double>{0.125, -1, 0.875}) == Ints{1, -8, 7});
  CHECK(simulated.result_scale() == std::vector<double>{0.125});
  for (const double wrong : {0.0625, 1.0, -1.125})
    CHECK_THROWS_AS(simulated.weight_codes(std::vector<double>{wrong}), Error);
}

TEST_CASE("a computed weight of more terms than memory holds takes none before there are codes") {
  ProductLayer layer{.name = "scores", .op = "MatMul", .weight = "keys"};
  layer.channels = 1;
  layer.length = std::size_t{1} << 40;
  layer.input_range = IntegerRange{0, 1};
  layer.weight_range = IntegerRange{0, 1};
  layer.term = IntegerRange{0, 1};
  layer.input_scale = 0.5;
  layer.scale = {0.25};
  CHECK(why_not_simulated(layer) == "");
  const SimulatedLayer simulated(layer, 16, SimulatedRegister(20, OverflowMode::kCheck));
  CHECK(simulated.length() == layer.length);
}

TEST_CASE("layers that have no one sum of integers say why") {
  Random random{std::mt19937(15)};
  const ProductLayer sound = matrix_layer(random, 2, 3, true);
  CHECK(why_not_simulated(sound) == "");
  ProductLayer layer = sound;
  layer.weight_failure = "no codes";
  CHECK(why_not_simulated(layer) == "no codes");
  for (const graph::Terms terms : {graph::Terms::kGates, graph::Terms::kHeads, graph::Terms::kSquares}) {
    layer = sound;
    const graph::ProductRule rule{.terms = terms};
    layer.rule = &rule;
    CHECK(says(why_not_simulated(layer), {"more than this product, in one piece"}));
  }
  for (const graph::Terms terms : {graph::Terms::kEquation, graph::Terms::kMatrix}) {
    layer = sound;
    const graph::ProductRule rule{.terms = terms};
    layer.rule = &rule;
    CHECK(why_not_simulated(layer) == "");
    layer.has_ellipsis = terms == graph::Terms::kEquation;
    CHECK((why_not_simulated(layer) == "its equation has an ellipsis") == layer.has_ellipsis);
  }
  layer = sound;
  layer.input_range.reset();
  layer.input_failure = "no range";
  CHECK(why_not_simulated(layer) == "no range");
  layer = sound;
  layer.one_scale = false;
  CHECK(why_not_simulated(layer).find("several scales") != std::string::npos);
  layer = sound;
  layer.input_scale.reset();
  CHECK(why_not_simulated(layer).find("scale of its input") != std::string::npos);
  for (const double scale : {0.0, -0.5, -HUGE_VAL, HUGE_VAL, std::nan("")}) {
    CAPTURE(scale);
    layer.input_scale = scale;
    CHECK(why_not_simulated(layer).find("scale of its input") != std::string::npos);
  }
  layer = sound;
  layer.codes[4] = std::int64_t{1} << 60;
  CHECK(why_not_simulated(layer).find("63 bits") != std::string::npos);
}

TEST_CASE("codes of a computed weight may be set again and again, in tiles too") {
  Random random{std::mt19937(16)};
  for (const std::size_t tile : {0, 1, 3}) {
    CAPTURE(tile);
    ProductLayer layer = matrix_layer(random, 1, 7, false);
    layer.codes.clear();
    layer.weight_range = IntegerRange{-7, 7};
    layer.term = IntegerRange{-56, 56};
    SimulatedLayer again(layer, tile, {6, OverflowMode::kCheck});
    for (int call = 0; call < 3; ++call) {
      const Ints codes = random.ints(7 * 2, -7, 7), x = random.ints(7 * 3, -8, 7);
      SimulatedLayer fresh(layer, tile, {6, OverflowMode::kCheck});
      Ints sums(6), expected(6);
      const std::int64_t before = again.report().additions;
      fresh.set_codes(codes, {7, 2});
      fresh.multiply(x, 0, 2, expected, 1);
      again.set_codes(codes, {7, 2});
      again.multiply(x, 0, 2, sums, 1);
      CHECK(sums == expected);
      CHECK(again.report().additions - before == fresh.report().additions);
    }
  }
}

}  // namespace
}  // namespace crumb::analysis
