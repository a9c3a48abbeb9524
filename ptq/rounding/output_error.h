// The change of a layer's outputs by codes instead of weights.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <span>
#include <vector>

#include "ptq/rounding/feedback.h"

namespace crumb::ptq {

/// Returns tr(A M B^T), for matrices A and B with as many rows; sums products of float32.
double output_products(std::span<const float> a, const Eigen::MatrixXf& m, std::span<const float> b,
                       int threads);

/// Returns tr(W H W^T), W being the rows of a matrix; the relative error is at most 1e-5 if H is positive
/// definite.
double output_squares(std::span<const float> rows, const Eigen::MatrixXd& moments, int threads);

/// Returns tr((Q - W) H (Q - W)^T).
double output_error(const FixedScales& scales, RowRange range, std::span<const float> rows,
                    std::span<const std::uint8_t> codes, const Eigen::MatrixXd& moments, int threads);

/// Returns each weight's nearest code, as quantize() does.
std::vector<std::uint8_t> nearest_codes(const FixedScales& scales, std::span<const float> values,
                                        int threads);

}  // namespace crumb::ptq
