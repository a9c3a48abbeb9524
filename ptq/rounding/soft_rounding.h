// Codes that learn whether to round up or down (AdaRound, Nagel et al. 2020, arXiv:2004.10568).
//
// Each weight lies between two neighbours a <= b of its grid, and is a + h (b - a), h = min(max(1.2 sigmoid(v) - 0.1, 0), 1), with v
// at first so that it is what it was. Adam changes v by the gradient of
//
//   n sum e H e^T / sum e0 H e0^T  +  3 sum (1 - |2 h - 1|^beta),
//
// n weights, e what each row lacks of W, e0 what nearest codes lack. The second sum is left out in the first fifth of the steps; beta
// falls from 20 to 2 in the others, as a cosine, so that h come to 0 or 1 (the paper's factor 0.01 is beside an error that is not made
// one for each weight: here 0.01 leaves h in between, and what is rounded then is no better than the nearest). In the end h above a half is up.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <span>

#include "ptq/rounding/feedback.h"

namespace crumb::ptq {

struct SoftRounding {
  int steps = 0;
  double rate = 0.05;  ///< of Adam
};

/// Changes the codes of rows, which are the nearest. `rows` is W. The same whatever the threads and the processor. Precondition:
/// the moments are symmetric and positive semidefinite.
void learn_rounding(const FixedScales& scales, RowRange range, std::span<const float> rows,
                    std::span<std::uint8_t> codes, const Eigen::MatrixXd& moments, const SoftRounding& how,
                    int threads);

}  // namespace crumb::ptq
