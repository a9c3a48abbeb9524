// Learned rounding: codes stay neighbours of their weights, and outputs lose less than by the nearest.
#include "ptq/rounding/soft_rounding.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "ptq/rounding/output_error.h"
#include "ptq/rounding/weighed_codebook.h"
#include "quant/quantizer.h"
#include "tests/ptq/layers.h"

namespace {

namespace soft {

struct Found {
  double nearest = 0, learned = 0;  ///< squared errors of outputs
};

Found learn(std::mt19937& random, const std::string& spec, float correlation, int threads) {
  using namespace crumb::ptq::test;
  const Eigen::Index rows = 5 + random() % 30, columns = 32 + 16 * (random() % 4);
  const Rows weights = drawn_matrix(random, rows, columns);
  const Eigen::MatrixXd moments = moments_of(drawn_samples(random, columns, 3 * columns, correlation));
  const std::span<const float> values(weights.data(), static_cast<std::size_t>(weights.size()));
  const std::vector<std::uint64_t> shape = {static_cast<std::uint64_t>(rows),
                                            static_cast<std::uint64_t>(columns)};
  const crumb::FixedScales scales(crumb::QuantSpec::parse(spec), values, shape, "w", 1);
  const std::vector<std::uint8_t> nearest = crumb::ptq::nearest_codes(scales, values, 1);
  std::vector<std::uint8_t> codes = nearest;
  const crumb::ptq::RowRange range{0, static_cast<std::size_t>(rows)};
  crumb::ptq::learn_rounding(scales, range, values, codes, moments, {.steps = 200, .rate = 0.05}, threads);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const std::size_t row = i / shape[1], column = i % shape[1];
    const float low = std::min(scales.value(row, column, codes[i]), values[i]),
                high = std::max(scales.value(row, column, codes[i]), values[i]);
    // Nothing that a code says lies between the weight and the code's.
    for (std::size_t other = 0; other < std::size_t{1} << scales.encoding().number->bits; ++other) {
      const float value = scales.value(row, column, static_cast<std::uint8_t>(other));
      const bool is_code = scales.code(row, column, value) == static_cast<std::uint8_t>(other);
      if (is_code && low < value && value < high) FAIL_CHECK("code " << other << " is nearer");
    }
  }
  return {.nearest = crumb::ptq::output_error(scales, range, values, nearest, moments, 1),
          .learned = crumb::ptq::output_error(scales, range, values, codes, moments, 1)};
}

}  // namespace soft

}  // namespace

TEST_CASE("learned rounding: neighbours alone, and less lost, on every grid") {
  std::mt19937 random(101);
  for (const std::string spec : {"int3:channel", "int4:group=16", "e2m1:group=16", "ternary:channel",
                                 "uint4:group=16:zero=int", "int2h:group=16", "nf4:group=16"}) {
    CAPTURE(spec);
    for (const float correlation : {0.5F, 0.9F}) {
      double ratio = 0;
      constexpr int kLayers = 6;
      for (int i = 0; i < kLayers; ++i) {
        const soft::Found found = soft::learn(random, spec, correlation, 1 + i % 2);
        ratio += found.learned / found.nearest / kLayers;
      }
      CHECK(ratio < (correlation > 0.8F ? 0.6 : 0.9));
    }
  }
}

TEST_CASE("learned rounding: the same whatever the threads, and nothing without steps or inputs") {
  using namespace crumb::ptq::test;
  std::mt19937 random(103);
  const Rows weights = drawn_matrix(random, 70, 48);
  const std::span<const float> values(weights.data(), static_cast<std::size_t>(weights.size()));
  const Eigen::MatrixXd moments = moments_of(drawn_samples(random, 48, 90, 0.8F));
  const std::vector<std::uint64_t> shape = {70, 48};
  const crumb::FixedScales scales(crumb::QuantSpec::parse("int3:channel"), values, shape, "w", 1);
  const std::vector<std::uint8_t> nearest = crumb::ptq::nearest_codes(scales, values, 1);
  std::vector<std::vector<std::uint8_t>> found;
  for (const int threads : {1, 2, 3}) {
    found.push_back(nearest);
    crumb::ptq::learn_rounding(scales, {0, 70}, values, found.back(), moments, {.steps = 20, .rate = 0.1},
                               threads);
  }
  CHECK(found[0] != nearest);
  CHECK(found[0] == found[1]);
  CHECK(found[0] == found[2]);
  for (const auto& [steps, inputs] : {std::pair<int, Eigen::MatrixXd>{0, moments},
                                      std::pair<int, Eigen::MatrixXd>{20, Eigen::MatrixXd::Zero(48, 48)}}) {
    std::vector<std::uint8_t> codes = nearest;
    crumb::ptq::learn_rounding(scales, {0, 70}, values, codes, inputs, {.steps = steps, .rate = 0.1}, 1);
    CHECK(codes == nearest);
  }
}

TEST_CASE(
    "codebooks by inputs: weighed by their squares, nearest codes lose less than of the spec's codebook") {
  using namespace crumb::ptq::test;
  std::mt19937 random(109);
  for (const std::string spec : {"palette2", "palette3", "palette4:group=16"}) {
    CAPTURE(spec);
    double before = 0, after = 0;
    for (int i = 0; i < 12; ++i) {
      const Eigen::Index rows = 8 + random() % 20, columns = 32;
      const std::size_t groups = 1 + i % 2;
      // Inputs are large where weights are small.
      Rows weights = drawn_matrix(random, rows * static_cast<Eigen::Index>(groups), columns);
      std::vector<Eigen::MatrixXd> moments;
      for (std::size_t g = 0; g < groups; ++g) {
        Eigen::VectorXd sizes(columns);
        for (Eigen::Index k = 0; k < columns; ++k) {
          const auto exponent = static_cast<float>(random() % 12);
          sizes[k] = static_cast<double>(std::exp2(exponent));
          weights.block(static_cast<Eigen::Index>(g) * rows, k, rows, 1) *= std::exp2(-exponent / 3);
        }
        moments.emplace_back(sizes.asDiagonal());
      }
      const std::span<const float> values(weights.data(), static_cast<std::size_t>(weights.size()));
      const std::vector<std::uint64_t> shape = {static_cast<std::uint64_t>(weights.rows()), 32};
      crumb::FixedScales scales(crumb::QuantSpec::parse(spec), values, shape, "w", 1);
      const auto lost = [&] {
        double sum = 0;
        for (std::size_t at = 0; at < values.size(); ++at) {
          const std::size_t row = at / 32, column = at % 32;
          const float made = scales.value(row, column, scales.code(row, column, values[at]));
          sum += std::pow(static_cast<double>(made) - static_cast<double>(values[at]), 2) *
                 moments[row / static_cast<std::size_t>(rows)](static_cast<Eigen::Index>(column),
                                                               static_cast<Eigen::Index>(column));
        }
        return sum;
      };
      const double first = lost();
      crumb::ptq::find_codebook(scales, values, static_cast<std::size_t>(rows), moments);
      before += first;
      after += lost();
      const std::vector<std::uint8_t> codes = crumb::ptq::nearest_codes(scales, values, 1);
      const crumb::QuantizedTensor made = scales.with_codes(codes);
      std::vector<float> read(values.size());
      crumb::dequantize(made.view(), read, 1);
      for (std::size_t at = 0; at < read.size(); ++at)
        REQUIRE(read[at] == scales.value(at / 32, at % 32, codes[at]));
    }
    CHECK(after < 0.9 * before);
  }
}
