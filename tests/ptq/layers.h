// Layers and inputs for tests of what rounds weights by their inputs.
#pragma once

#include <Eigen/Core>
#include <cmath>
#include <random>
#include <vector>

namespace crumb::ptq::test {

using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

inline Rows drawn_matrix(std::mt19937& random, Eigen::Index rows, Eigen::Index columns) {
  std::normal_distribution<float> normal;
  return Rows::NullaryExpr(rows, columns, [&](Eigen::Index, Eigen::Index) { return normal(random); });
}

/// [size, samples], neighbours correlated as given.
inline Rows drawn_samples(std::mt19937& random, Eigen::Index size, Eigen::Index samples, float correlation) {
  std::normal_distribution<float> normal;
  Rows made(size, samples);
  for (Eigen::Index t = 0; t < samples; ++t) {
    float before = normal(random);
    for (Eigen::Index i = 0; i < size; ++i) {
      if (i > 0) before = correlation * before + std::sqrt(1 - correlation * correlation) * normal(random);
      made(i, t) = before;
    }
  }
  return made;
}

inline Eigen::MatrixXd moments_of(const Rows& samples) {
  const Eigen::MatrixXd x = samples.cast<double>();
  return x * x.transpose();
}

/// By the definition, in double.
inline double error_of(const Eigen::MatrixXd& lost, const Eigen::MatrixXd& moments) {
  return (lost * moments).cwiseProduct(lost).sum();
}

}  // namespace crumb::ptq::test
