// The stage outliers keeps single weights in 16 bits, in addition to the codes of the others (the
// dense-and-sparse split of SqueezeLLM, arXiv:2306.07629; graph/sparse_products.h).
//
// Takes the largest weights of each matrix of a MatMul or Gemm, so that the scales of the others need not
// cover them. (Choosing by weights times the root mean square of their inputs was tried: no better.) The
// stored number is subtracted from W, so the float network is the same; where W becomes 0, the code is that
// of 0 or the nearest to it. Four bytes for each weight.
#pragma once

#include "ptq/stages.h"

namespace crumb::ptq {

/// Reports the squared error of rounding before and after, over the matrix' squares. Throws Error where no
/// such matrix becomes codes, or one has such numbers already. Precondition: check_share() does not throw.
StageReport outliers(const Stage& stage, Setting& setting);

/// Throws usage Error for a share that is not between 0 and 1.
void check_share(const Stage& stage, const Setting& setting);

}  // namespace crumb::ptq
