// The stage outliers: single weights stay numbers of 16 bits beside the codes of the rest (the dense-and-sparse split of
// SqueezeLLM, arXiv:2306.07629; graph/sparse_products.h).
//
// Of each matrix of a MatMul or Gemm the largest weights go, so that the scales of the others need not reach them. (Weights times the
// root mean square of what they multiply were tried: no better.) What is taken from W is the number that is kept, so in floats the
// network is the same; where W has 0 left, codes stand for 0 or what is next to it. Four bytes a weight.
#pragma once

#include "ptq/stages.h"

namespace crumb::ptq {

/// Reports the squared error of rounding before and after, of the matrix' squares. Throws Error where no such matrix is to become
/// codes, or one has such numbers already. Precondition: check_share() does not throw.
StageReport outliers(const Stage& stage, Setting& setting);

/// Throws usage Error for a share that is no share.
void check_share(const Stage& stage, const Setting& setting);

}  // namespace crumb::ptq
