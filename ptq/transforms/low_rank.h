// The stage low_rank: what of each matrix a few singular directions hold goes into an adapter before the rest is rounded.
//
// One iteration takes them from the matrix itself, W = U S V^T: the adapter gets the first `rank` of them and the codes stand
// for W - A B (Apple's server model, arXiv:2507.13575). More alternate the two, A B being the nearest of its rank to W less the
// codes of now (LoftQ, arXiv:2310.08659); what was best is kept. The adapter (graph/adapters.h) is called "low_rank", its
// numbers are bfloat16, and what they are rounded to is what is taken from W: the network in floats is the same.
#pragma once

#include "ptq/stages.h"

namespace crumb::ptq {

/// Throws Error where no linear layer is to become codes, or the graph has an adapter of that name.
StageReport low_rank(const Stage& stage, Setting& setting);

}  // namespace crumb::ptq
