// What codes instead of weights do to a layer's outputs.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <span>
#include <vector>

#include "ptq/rounding/feedback.h"

namespace crumb::ptq {

/// tr(A M B^T), A and B being matrices of as many rows; of float32 products.
double output_products(std::span<const float> a, const Eigen::MatrixXf& m, std::span<const float> b,
                       int threads);

/// tr(W H W^T), W being the rows of a matrix; off by 1e-5 of itself at most where H is positive definite.
double output_squares(std::span<const float> rows, const Eigen::MatrixXd& moments, int threads);

/// tr((Q - W) H (Q - W)^T).
double output_error(const FixedScales& scales, RowRange range, std::span<const float> rows,
                    std::span<const std::uint8_t> codes, const Eigen::MatrixXd& moments, int threads);

/// Each weight's own nearest code: what quantize() gives.
std::vector<std::uint8_t> nearest_codes(const FixedScales& scales, std::span<const float> values,
                                        int threads);

}  // namespace crumb::ptq
