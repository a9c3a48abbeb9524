// Finds palettes by their effect on a network's loss (SqueezeLLM: Kim et al. 2023, arXiv:2306.07629): near
// its minimum a change d of the weights costs d^T F d / 2, with F approximated by its diagonal, the sum over
// samples of squared gradients. Each codebook is the result of weighted k-means for sum F_i (q_i - w_i)^2,
// and codes are the nearest.
//
// The operator that takes a constant may be any: a table lookup, a matrix that several layers share, a layer
// of an LSTM.
#pragma once

#include "ptq/stages.h"

namespace crumb::ptq {

/// Finds codebooks and codes of all palettes of the plan that have none; Setting::palettes gets their names.
/// A constant that no gradient reaches stays as it is, and so do constants with other specs; notes say so.
/// Throws Error where there is no palette. Preconditions: the setting has samples, and check_gradients() does
/// not throw.
StageReport fisher(const Stage& stage, Setting& setting);

/// Throws usage Error where nothing can compute gradients.
void check_gradients(const Stage& stage, const Setting& setting);

}  // namespace crumb::ptq
