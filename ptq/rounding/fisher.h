// Palettes by what they do to a network's loss (SqueezeLLM: Kim et al. 2023, arXiv:2306.07629): near its minimum a change d of the
// weights costs d^T F d / 2, of which F's diagonal, the sum over samples of squared gradients, is taken. Each codebook is the one that
// weighted k-means finds for sum F_i (q_i - w_i)^2, and codes are the nearest.
//
// Whatever the operator that takes a constant: a table, a matrix that several layers share, a layer of an LSTM.
#pragma once

#include "ptq/stages.h"

namespace crumb::ptq {

/// Codebooks and codes of all palettes of the plan that have none; Setting::palettes has their names. One that no gradient reaches
/// stays as it is, as constants of other specs do; notes say so.
/// Throws Error where there is no palette. Preconditions: the setting has samples, and check_gradients() does not throw.
StageReport fisher(const Stage& stage, Setting& setting);

/// Throws usage Error without what makes gradients.
void check_gradients(const Stage& stage, const Setting& setting);

}  // namespace crumb::ptq
