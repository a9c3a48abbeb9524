// The stage rotate: channels are multiplied by orthogonal matrices, so that what is large in a few is spread
// over all, and grids of few levels lose less (QuaRot, Ashkboos et al. 2024, arXiv:2404.00456); in floats the
// network stays what it is, up to the rounding of its numbers. Sites are those of rotation_sites.h, matrices
// those of orthogonal_matrix.h.
//
//   streams   the residual stream, all its matrices and tables once. Gains of norms go into the matrices behind them first; one that
//             cannot, as where a table is both embedding and head, gets a product R^T diag(gain) R behind its norm.
//   heads     values of each head, and caches with them
//   online    what other layers take, in blocks of so many channels, by a product as the network runs
#pragma once

#include "ptq/stages.h"

namespace crumb::ptq {

/// Reports the squared errors that rounding has before and after. Throws Error where nothing can be rotated,
/// which says why.
StageReport rotate(const Stage& stage, Setting& setting);

}  // namespace crumb::ptq
