// Codes and scales that are improved in turns, once there are some.
//
// A row of codes Q loses e H e^T, e = Q - W. With g = e H the code that loses least at column k, the others being as they are,
// is the one nearest to q_k - g_k / H_kk; the scale of a block whose levels are v, s - (v g) / (v H v^T). Going through blocks
// and columns again and again (coordinate descent: Nair and Suggala 2023, arXiv:2312.03858; with scales: Kim et al. 2025,
// arXiv:2505.07004) never loses more.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <span>

#include "ptq/rounding/feedback.h"

namespace crumb::ptq {

/// Goes `sweeps` times through the columns of rows, whose codes are `codes`, and changes these and, where they may change, the
/// scales of blocks that lie in one row. `rows` is W. The same whatever the threads and the processor.
/// Precondition: the moments are symmetric and positive definite.
void descend(FixedScales& scales, RowRange range, std::span<const float> rows, std::span<std::uint8_t> codes,
             const Eigen::MatrixXd& moments, int sweeps, int threads);

}  // namespace crumb::ptq
