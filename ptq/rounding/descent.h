// Improves codes and scales alternately, starting from some.
//
// A row of codes Q loses e H e^T, e = Q - W. With g = e H, the best code at column k, with the others fixed,
// is the one nearest to q_k - g_k / H_kk; the best scale of a block whose levels are v is s - (v g) / (v H
// v^T). Going through blocks and columns repeatedly (coordinate descent: Nair and Suggala 2023,
// arXiv:2312.03858; with scales: Kim et al. 2025, arXiv:2505.07004) never increases the loss.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <span>

#include "ptq/rounding/feedback.h"

namespace crumb::ptq {

/// Goes `sweeps` times through the columns of the rows with the codes `codes`. Changes codes and, where
/// scales may change, those of blocks within one row. `rows` is W. The same results with any number of
/// threads, on any processor. Precondition: the moments are symmetric and positive definite.
void descend(FixedScales& scales, RowRange range, std::span<const float> rows, std::span<std::uint8_t> codes,
             const Eigen::MatrixXd& moments, int sweeps, int threads);

}  // namespace crumb::ptq
