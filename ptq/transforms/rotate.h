// The stage rotate multiplies channels by orthogonal matrices, so that large values in a few are spread over
// all, and grids with few levels lose less (QuaRot, Ashkboos et al. 2024, arXiv:2404.00456); the float
// network stays the same, up to the rounding of its numbers. Sites are those of rotation_sites.h, matrices
// those of orthogonal_matrix.h.
//
//   streams   the residual stream, all its matrices and tables once. Norms' gains are folded into the
//             matrices behind them first; where that is impossible, as with a table that is both embedding
//             and head, a product R^T diag(gain) R follows the norm.
//   heads     values of each head, and caches with them
//   online    inputs of other layers, in blocks of that many channels, by a product at run time
#pragma once

#include "ptq/stages.h"

namespace crumb::ptq {

/// Reports the squared errors of rounding before and after. Throws Error, which says why, where nothing can
/// be rotated.
StageReport rotate(const Stage& stage, Setting& setting);

}  // namespace crumb::ptq
