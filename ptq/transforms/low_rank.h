// The stage low_rank moves a few singular directions of each matrix to an adapter before the rest is rounded.
//
// One iteration takes them from the matrix itself, W = U S V^T: the adapter gets the first `rank` of them,
// and codes represent W - A B (Apple's server model, arXiv:2507.13575). Several iterations alternate the two,
// A B being the nearest matrix of its rank to W minus the present codes (LoftQ, arXiv:2310.08659); the best
// result is kept. The adapter (graph/adapters.h) is called "low_rank". Its numbers are bfloat16, and their
// rounded values are subtracted from W: the float network is the same.
#pragma once

#include "ptq/stages.h"

namespace crumb::ptq {

/// Throws Error where no linear layer becomes codes, or the graph has an adapter of that name.
StageReport low_rank(const Stage& stage, Setting& setting);

}  // namespace crumb::ptq
