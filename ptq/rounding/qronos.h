// The stage qronos (Zhang et al. 2025, arXiv:2505.11695): each code is the best for the current weights
// behind it, and these then become the best possible, so that every step corrects the errors of the layers
// and columns before it.
//
// With X the float network's inputs and X~ those in the quantized one,
//
//   q_t = the code nearest to argmin over p of
//         |X w - sum over j < t of q_j X~_j - p X~_t - sum over j > t of w_j X~_j|,
//   w_(>t) = argmin over v of |X w - sum over j <= t of q_j X~_j - sum over j > t of v_j X~_j|.
//
// From the second column on the weights solve the second line, so that the first line is rounding, and the
// second GPTQ's step (their theorem). GPTQ, started from W (G + d) (H + d)^-1, has the same weights, whatever
// code the first column got. Only that column differs: its target is found with the other columns those of W,
//
//   t_1 = w_1 + sum over all j of w_j (G - H)_j1 / (H_11 + d),
//
// the w_j of that sum including branches (V of rounding_stage.h).
//
// The damping d is that of H and of G, as |w - v|^2 in both lines would give it; the paper adds it to H
// alone.
#pragma once

#include "ptq/rounding/code_walk.h"
#include "ptq/stages.h"

namespace crumb::ptq {

CodeWalk qronos_walk(const LayerTarget& layer);

/// Does what round_layers() says (rounding_stage.h).
StageReport qronos(const Stage& stage, Setting& setting);

}  // namespace crumb::ptq
