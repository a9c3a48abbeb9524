// Codes with feedback: GPTQ's, as its paper has them, and what they are worth.
#include "ptq/rounding/feedback.h"

#include <doctest/doctest.h>

#include <Eigen/Cholesky>
#include <Eigen/LU>
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "ptq/rounding/descent.h"
#include "ptq/rounding/output_error.h"
#include "ptq/rounding/weighed_scales.h"
#include "ptq/samples/second_moments.h"
#include "tests/ptq/layers.h"

namespace {

using crumb::FixedScales;
using crumb::ptq::Feedback;
using crumb::ptq::RowRange;
using crumb::ptq::test::decoded;
using crumb::ptq::test::drawn_matrix;
using crumb::ptq::test::drawn_samples;
using crumb::ptq::test::error_of;
using crumb::ptq::test::moments_of;
using crumb::ptq::test::numbers;
using crumb::ptq::test::Rows;
using crumb::ptq::test::scales_for;
using Eigen::Index;
using Eigen::MatrixXd;

/// GPTQ as the paper has it (algorithm 1 with blocks of one column), in double: U the upper factor of H^-1, each column's error
/// over its diagonal taken from those behind it. Gives the targets too.
struct Plain {
  std::vector<std::uint8_t> codes;
  MatrixXd targets;
};
Plain plain_gptq(const FixedScales& scales, const Rows& rows, MatrixXd moments, double damping,
                 const std::vector<std::size_t>& order) {
  const Index size = rows.cols();
  moments.diagonal().array() += damping * moments.diagonal().mean();
  MatrixXd turned(size, size), w(rows.rows(), size);
  for (Index j = 0; j < size; ++j) {
    w.col(j) = rows.col(static_cast<Index>(order[static_cast<std::size_t>(j)])).cast<double>();
    for (Index i = 0; i < size; ++i)
      turned(i, j) = moments(static_cast<Index>(order[static_cast<std::size_t>(i)]),
                             static_cast<Index>(order[static_cast<std::size_t>(j)]));
  }
  const MatrixXd inverse = turned.inverse(), u = inverse.llt().matrixU();
  Plain plain{.codes = std::vector<std::uint8_t>(static_cast<std::size_t>(rows.size())), .targets = w};
  for (Index k = 0; k < size; ++k) {
    const std::size_t column = order[static_cast<std::size_t>(k)];
    for (Index row = 0; row < w.rows(); ++row) {
      const auto r = static_cast<std::size_t>(row);
      plain.targets(row, static_cast<Index>(column)) = w(row, k);
      const std::uint8_t code = scales.code(r, column, static_cast<float>(w(row, k)));
      plain.codes[r * static_cast<std::size_t>(size) + column] = code;
      const double error = (w(row, k) - static_cast<double>(scales.value(r, column, code))) / u(k, k);
      for (Index j = k + 1; j < size; ++j) w(row, j) -= error * u(k, j);
    }
  }
  return plain;
}

}  // namespace

TEST_CASE("feedback: the codes are those of GPTQ with an inverse, in double, up to what lies on an edge") {
  std::mt19937 random(11);
  const std::vector<std::string> specs = {
      "int4:channel",    "int3:group=8:pad", "int2h:group=4:pad:search=mse", "e2m1:group=8:pad",
      "mxfp4:pad",       "nvfp4:pad",        "ternary:channel:search=mse",   "uint4:group=16:pad:zero=int",
      "palette3:channel"};
  std::size_t rows_alike = 0, rows_all = 0;
  for (int i = 0; i < 300; ++i) {
    const std::string& spec = specs[static_cast<std::size_t>(i) % specs.size()];
    CAPTURE(spec);
    const auto size = static_cast<Index>(1 + random() % 90), outputs = static_cast<Index>(1 + random() % 40);
    const Rows rows = drawn_matrix(random, outputs, size);
    const MatrixXd moments =
        moments_of(drawn_samples(random, size, 2 * size + 8, std::array{0.0F, 0.5F, 0.9F}[random() % 3]));
    const bool by_size = random() % 2 == 0;
    const double damping = std::array{0.01, 0.1, 0.001}[random() % 3];
    const FixedScales scales = scales_for(spec, rows);
    const auto feedback = Feedback::of(moments, damping, by_size);
    REQUIRE(feedback);
    REQUIRE(feedback->damping() == damping);
    if (by_size)
      for (std::size_t k = 1; k < feedback->size(); ++k)
        CHECK(moments.diagonal()[static_cast<Index>(feedback->order()[k - 1])] >=
              moments.diagonal()[static_cast<Index>(feedback->order()[k])]);
    const auto count = static_cast<std::size_t>(outputs), columns = static_cast<std::size_t>(size);
    const std::vector<std::uint8_t> found =
        crumb::ptq::codes_with_feedback(scales, {0, count}, numbers(rows), *feedback, 1);
    const Plain plain = plain_gptq(scales, rows, moments, damping, feedback->order());
    for (std::size_t row = 0; row < count; ++row) {
      ++rows_all;
      bool is_alike = true;
      for (std::size_t k = 0; k < columns && is_alike; ++k) {
        const std::size_t column = feedback->order()[k];
        const std::size_t at = row * columns + column;
        if (found[at] == plain.codes[at]) continue;
        is_alike = false;  // what follows hangs on it
        // Then the target lies between the two codes, next to their middle: float32 sums of at most 90 terms are off by less.
        const double a = static_cast<double>(scales.value(row, column, found[at])),
                     b = static_cast<double>(scales.value(row, column, plain.codes[at]));
        const double target = plain.targets(static_cast<Index>(row), static_cast<Index>(column));
        CHECK(std::fabs(target - (a + b) / 2) < 2e-4 * (std::fabs(target) + 1));
      }
      rows_alike += is_alike ? 1 : 0;
    }
  }
  CHECK(rows_alike > rows_all * 97 / 100);
}

TEST_CASE(
    "feedback: at four bits by channel outputs lose as little as GPTQ's do, and never more than rounding by "
    "much") {
  std::mt19937 random(17);
  for (const float correlation : {0.5F, 0.9F}) {
    const double most = correlation < 0.6F ? 0.75 : 0.3;
    double ratio = 0;
    constexpr int kLayers = 400;
    for (int i = 0; i < kLayers; ++i) {
      const auto size = static_cast<Index>(24 + random() % 80),
                 outputs = static_cast<Index>(4 + random() % 12);
      const Rows rows = drawn_matrix(random, outputs, size);
      const MatrixXd moments = moments_of(drawn_samples(random, size, 4 * size, correlation));
      const FixedScales scales = scales_for("int4:channel", rows);
      const auto feedback = Feedback::of(moments, 0.01, true);
      const auto count = static_cast<std::size_t>(outputs), columns = static_cast<std::size_t>(size);
      const auto codes = crumb::ptq::codes_with_feedback(scales, {0, count}, numbers(rows), *feedback, 1);
      const auto nearest = crumb::ptq::nearest_codes(scales, numbers(rows), 1);
      const MatrixXd w = rows.cast<double>();
      ratio += error_of(decoded(scales, codes, count, columns) - w, moments) /
               error_of(decoded(scales, nearest, count, columns) - w, moments) / kLayers;
    }
    CHECK(ratio < most);
    MESSAGE("correlation " << correlation << ": " << ratio << " of rounding's error");
  }
}

TEST_CASE("feedback: the same on any number of threads; a part of the rows is that part") {
  std::mt19937 random(23);
  const Rows rows = drawn_matrix(random, 75, 130);
  const MatrixXd moments = moments_of(drawn_samples(random, 130, 300, 0.8F));
  const auto feedback = Feedback::of(moments, 0.01, true);
  const FixedScales scales = scales_for("int3:group=16:pad", rows);
  const auto one = crumb::ptq::codes_with_feedback(scales, {0, 75}, numbers(rows), *feedback, 1);
  CHECK(one == crumb::ptq::codes_with_feedback(scales, {0, 75}, numbers(rows), *feedback, 3));
  const auto part = crumb::ptq::codes_with_feedback(scales, {33, 20},
                                                    numbers(rows).subspan(33 * 130, 20 * 130), *feedback, 2);
  CHECK(std::equal(part.begin(), part.end(), one.begin() + 33 * 130));
  FixedScales first = scales, second = scales;
  auto a = one, b = one;
  crumb::ptq::descend(first, {0, 75}, numbers(rows), a, moments, 3, 1);
  crumb::ptq::descend(second, {0, 75}, numbers(rows), b, moments, 3, 4);
  CHECK(a == b);
}

TEST_CASE("feedback: moments without an inverse get a larger damping, those of nothing none") {
  std::mt19937 random(29);
  const Rows samples = drawn_samples(random, 40, 3, 0.2F);  // rank 3
  const auto feedback = Feedback::of(moments_of(samples), 1e-30, false);
  REQUIRE(feedback);
  CHECK(feedback->damping() > 1e-30);
  for (const double damping : {0.5, 1.0, 7.0, 1e6}) {
    const auto large = Feedback::of(moments_of(samples), damping, false);
    REQUIRE(large);
    CHECK(large->damping() == damping);
  }
  CHECK_FALSE(Feedback::of(MatrixXd::Zero(5, 5), 0.01, true));
  MatrixXd indefinite = MatrixXd::Identity(4, 4);
  indefinite(0, 1) = indefinite(1, 0) = 100;
  CHECK_FALSE(Feedback::of(indefinite, 0.01, true));
  // A column that is always zero, and one that is always the same.
  MatrixXd moments = moments_of(drawn_samples(random, 6, 50, 0.5F));
  moments.row(2).setZero();
  moments.col(2).setZero();
  const Rows rows = drawn_matrix(random, 3, 6);
  const FixedScales scales = scales_for("int4:channel", rows);
  const auto codes =
      crumb::ptq::codes_with_feedback(scales, {0, 3}, numbers(rows), *Feedback::of(moments, 0.01, true), 1);
  for (std::size_t row = 0; row < 3; ++row)
    CHECK(codes[row * 6 + 2] == scales.code(row, 2, rows(static_cast<Index>(row), 2)));
}

TEST_CASE("descent: no sweep loses more, and what it says it loses is what it loses") {
  std::mt19937 random(31);
  const std::vector<std::string> specs = {"int4:channel",
                                          "int3:group=8:pad",
                                          "int2h:group=16:pad:search=mse",
                                          "e2m1:group=8:pad",
                                          "mxfp4:pad",
                                          "nvfp4:pad",
                                          "ternary:channel",
                                          "int2:group=128:pad",
                                          "palette3:channel",
                                          "int4:tensor",
                                          "int4:block=2x8:pad",
                                          "uint4:group=16:pad:zero=int",
                                          "int4:channel:round=floor",
                                          "int4:group=8:pad:round=up",
                                          "int3:channel:round=stochastic=3"};
  double with_scales = 0;
  for (int i = 0; i < 240; ++i) {
    const std::string& spec = specs[static_cast<std::size_t>(i) % specs.size()];
    CAPTURE(spec);
    const auto size = static_cast<Index>(1 + random() % 200), outputs = static_cast<Index>(1 + random() % 40);
    const Rows rows = drawn_matrix(random, outputs, size);
    const MatrixXd moments = moments_of(drawn_samples(random, size, 2 * size + 8, 0.7F));
    FixedScales scales = scales_for(spec, rows);
    const auto count = static_cast<std::size_t>(outputs), columns = static_cast<std::size_t>(size);
    if (random() % 2 == 0) crumb::ptq::find_scales(scales, {0, count}, numbers(rows), moments.diagonal(), 2);
    auto codes = crumb::ptq::nearest_codes(scales, numbers(rows), 1);
    const MatrixXd w = rows.cast<double>();
    double before = error_of(decoded(scales, codes, count, columns) - w, moments);
    const double all = error_of(w, moments);
    for (int sweep = 0; sweep < 3; ++sweep) {
      const float scale = scales.scale(0);
      crumb::ptq::descend(scales, {0, count}, numbers(rows), codes, moments, 1, 1);
      if (scales.scale(0) != scale) with_scales += 1;
      const double after = error_of(decoded(scales, codes, count, columns) - w, moments);
      CHECK(after <= before + 1e-5 * all);
      CHECK(crumb::ptq::output_error(scales, {0, count}, numbers(rows), codes, moments, 2) ==
            doctest::Approx(after).epsilon(1e-3).scale(1e-6 * all));
      before = after;
    }
  }
  CHECK(with_scales > 100);
}

TEST_CASE("moments: sums of products, to the precision of float32") {
  std::mt19937 random(37);
  for (int i = 0; i < 60; ++i) {
    const auto size = static_cast<Index>(1 + random() % 130),
               samples = static_cast<Index>(1 + random() % 1400);
    const Rows x = drawn_samples(random, size, samples, 0.5F), y = drawn_samples(random, size, samples, 0.9F);
    MatrixXd sum = MatrixXd::Zero(size, size), cross = sum;
    const crumb::ptq::SampleColumns of_x{numbers(x), static_cast<std::size_t>(samples)},
        of_y{numbers(y), static_cast<std::size_t>(samples)};
    crumb::ptq::add_moments(sum, of_x, 1 + static_cast<int>(random() % 3));
    crumb::ptq::add_cross_moments(cross, of_y, of_x, 2);
    const MatrixXd a = x.cast<double>(), b = y.cast<double>();
    const double bound = 40 * 6e-8 * static_cast<double>(samples);  // 32 terms in a partial sum, and folding
    CHECK((sum - a * a.transpose()).cwiseAbs().maxCoeff() < 20 * bound);
    CHECK((cross - b * a.transpose()).cwiseAbs().maxCoeff() < 20 * bound);
    CHECK(sum == sum.transpose());
  }
}
