// MagR: the least of what it says it minimizes; weights become smaller and outputs hardly change.
#include "ptq/rounding/magnitude_reduction.h"

#include <doctest/doctest.h>

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "tests/ptq/layers.h"

namespace {

using namespace crumb::ptq;
using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

/// Rows side by side that share scales.
double largest_of(const MatrixXd& band, Index begin, Index width) {
  return band.middleCols(begin, std::min(width, band.cols() - begin)).cwiseAbs().maxCoeff();
}

double objective(const MatrixXd& v, const MatrixXd& w, const MatrixXd& shares, Index width, double weight) {
  double sum = 0.5 * ((v - w) * shares).cwiseProduct(v - w).sum();
  for (Index k = 0; k < v.cols(); k += width) sum += weight * largest_of(v, k, width);
  return sum;
}

/// The block's largest magnitude m is found by bisection on the sum of what lies above it.
MatrixXd plain_step(MatrixXd v, Index width, double weight) {
  for (Index begin = 0; begin < v.cols(); begin += width) {
    auto block = v.middleCols(begin, std::min(width, v.cols() - begin));
    double low = 0, high = largest_of(v, begin, width);
    for (int i = 0; i < 50; ++i) {  // a double's bits
      const double middle = (low + high) / 2;
      const double above = (block.array().abs() - middle).max(0.0).sum();
      (above > weight ? low : high) = middle;
    }
    block = block.array().max(-high).min(high).matrix().eval();
  }
  return v;
}

}  // namespace

TEST_CASE("magr: nothing has a smaller penalized error, by a plain solver in double") {
  std::mt19937 random(109);
  for (int i = 0; i < 30; ++i) {
    const Index size = 1 + static_cast<Index>(random() % 16), outputs = 1 + static_cast<Index>(random() % 4);
    const Index width = random() % 2 == 0 ? size : 1 + static_cast<Index>(random() % 12);
    const double alpha = std::array{0.001, 0.02, 0.3}[random() % 3];
    const MatrixXd moments =
        test::moments_of(test::drawn_samples(random, size, 2 * size + 3, random() % 2 == 0 ? 0.9F : 0.2F));
    const MatrixXd shares =
        moments / Eigen::SelfAdjointEigenSolver<MatrixXd>(moments).eigenvalues().maxCoeff();
    const test::Rows rows = test::drawn_matrix(random, outputs, size);
    test::Rows made = rows;
    const Index height = random() % 2 == 0 ? 1 : 1 + static_cast<Index>(random() % 4);  // a band's
    reduce_magnitudes({made.data(), static_cast<std::size_t>(made.size())}, moments,
                      static_cast<std::size_t>(height), static_cast<std::size_t>(width), alpha, 3000,
                      1 + static_cast<int>(random() % 3));
    for (Index r = 0; r < outputs; r += height) {
      const Index count = std::min(height, outputs - r);
      const MatrixXd w = rows.middleRows(r, count).cast<double>(),
                     v = made.middleRows(r, count).cast<double>();
      const double weight = alpha * w.rowwise().norm().sum() / std::sqrt(static_cast<double>(size));
      MatrixXd best = w;
      for (int step = 0; step < 1500; ++step) best = plain_step(best - (best - w) * shares, width, weight);
      const double least = objective(best, w, shares, width, weight),
                   none = objective(w, w, shares, width, weight);
      // Its eigenvalue is up to 5 % too large, and so the error weighs that much less.
      CHECK(objective(v, w, shares, width, weight) <= least + 0.01 * none + 1e-6);
      for (Index k = 0; k < size; k += width)
        if (width >= size) CHECK(largest_of(v, k, width) <= largest_of(w, k, width) * (1 + 1e-6));
    }
  }
}

TEST_CASE("magr: neither the inputs' size nor the weights' matters; outputs of a wide layer hardly change") {
  std::mt19937 random(113);
  double shrunk = 0, changed = 0;
  constexpr int kLayers = 40;
  for (int i = 0; i < kLayers; ++i) {
    const Index size = 64 + static_cast<Index>(random() % 64);
    const MatrixXd moments = test::moments_of(test::drawn_samples(random, size, 4 * size, 0.9F));
    const test::Rows rows = test::drawn_matrix(random, 8, size);
    test::Rows made = rows, other = 4 * rows;
    const auto count = static_cast<std::size_t>(rows.size()), width = static_cast<std::size_t>(size);
    reduce_magnitudes({made.data(), count}, moments, 1, width, 0.05, 100, 1);
    reduce_magnitudes({other.data(), count}, 16 * moments, 1, width, 0.05, 100, 3);
    CHECK((other - 4 * made).cwiseAbs().maxCoeff() == 0);  // powers of two
    shrunk += static_cast<double>(made.cwiseAbs().maxCoeff() / rows.cwiseAbs().maxCoeff()) / kLayers;
    const MatrixXd w = rows.cast<double>();
    changed += test::error_of(made.cast<double>() - w, moments) / test::error_of(w, moments) / kLayers;
  }
  CHECK(shrunk < 0.8);
  CHECK(changed < 0.01);
  MESSAGE("largest weights " << shrunk << " of what they were, outputs off by " << changed);
}
