// Layers and inputs for tests of what rounds weights by their inputs.
#pragma once

#include <Eigen/Core>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "graph/tensor.h"
#include "quant/codes/fixed_scales.h"

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

/// Normal numbers; where `is_uneven`, each times a drawn power of two.
inline graph::Tensor drawn_tensor(std::mt19937& random, const std::vector<std::int64_t>& shape,
                                  bool is_uneven = false) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values)
    value = normal(random) * (is_uneven ? std::exp2(static_cast<float>(random() % 9) - 4.0F) : 1.0F);
  return graph::Tensor::floats(shape, values);
}

/// By the definition, in double.
inline double error_of(const Eigen::MatrixXd& lost, const Eigen::MatrixXd& moments) {
  return (lost * moments).cwiseProduct(lost).sum();
}

inline std::span<const float> numbers(const Rows& rows) {
  return {rows.data(), static_cast<std::size_t>(rows.size())};
}

inline FixedScales scales_for(const std::string& spec, const Rows& rows) {
  const std::vector<std::uint64_t> shape = {static_cast<std::uint64_t>(rows.rows()),
                                            static_cast<std::uint64_t>(rows.cols())};
  return {QuantSpec::parse(spec), numbers(rows), shape, "w"};
}

inline Eigen::MatrixXd decoded(const FixedScales& scales, const std::vector<std::uint8_t>& codes,
                               std::size_t rows, std::size_t columns) {
  Eigen::MatrixXd made(static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(columns));
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t k = 0; k < columns; ++k)
      made(static_cast<Eigen::Index>(row), static_cast<Eigen::Index>(k)) =
          static_cast<double>(scales.value(row, k, codes[row * columns + k]));
  return made;
}

}  // namespace crumb::ptq::test
