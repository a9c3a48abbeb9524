// The stage gpfq: greedy path following (Lybrand & Saab 2021, arXiv:2010.11758; from sums of products alone
// as in Zhang et al. 2023, arXiv:2201.11113, and Colbert et al. 2024, arXiv:2409.17092).
//
// Column k becomes the code that brings the path of the outputs nearest to the float layer's path after its
// first k columns,
//
//   q_k nearest to (sum over j <= k of w_j G_jk - sum over j < k of q_j H_jk) / H_kk,
//
// G = sum y x^T, H = sum x x^T, y being the float network's x. That is the greedy walk of feedback.h from w_k
// + sum over j <= k of w_j (G - H)_jk / H_kk, these w_j including branches (V of rounding_stage.h). A column
// without inputs is rounded.
#pragma once

#include "ptq/rounding/code_walk.h"
#include "ptq/stages.h"

namespace crumb::ptq {

CodeWalk gpfq_walk(const LayerTarget& layer);

/// Does what round_layers() says (rounding_stage.h).
StageReport gpfq(const Stage& stage, Setting& setting);

}  // namespace crumb::ptq
