// Learns whether codes are rounded up or down (AdaRound, Nagel et al. 2020, arXiv:2004.10568).
//
// Each weight is between two neighbours a <= b of its grid, and becomes a + h (b - a), h = min(max(1.2
// sigmoid(v) - 0.1, 0), 1). At first v gives the weight itself. Adam changes v by the gradient of
//
//   n sum e H e^T / sum e0 H e0^T  +  3 sum (1 - |2 h - 1|^beta),
//
// for n weights, with e the error of each row, and e0 that of the nearest codes. The second sum is left out
// in the first fifth of the steps; in the others beta falls from 20 to 2, as a cosine, so that every h
// approaches 0 or 1. (The paper's factor is 0.01, with an error that is not normalized to one for each
// weight: here 0.01 leaves h in between, and rounding it then is no better than the nearest codes.) In the
// end h above a half is rounded up.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <span>

#include "ptq/rounding/feedback.h"

namespace crumb::ptq {

struct SoftRounding {
  int steps = 0;
  double rate = 0.05;  ///< Adam's learning rate
};

/// Changes the codes of rows, which must be the nearest. `rows` is W. The same results with any number of
/// threads, on any processor. Precondition: the moments are symmetric and positive semidefinite.
void learn_rounding(const FixedScales& scales, RowRange range, std::span<const float> rows,
                    std::span<std::uint8_t> codes, const Eigen::MatrixXd& moments, const SoftRounding& how,
                    int threads);

}  // namespace crumb::ptq
