// Codebooks by what rounding loses, each weight counting as much as a change of it does: SqueezeLLM's weighted k-means (Kim et al.
// 2023, arXiv:2306.07629).
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "quant/codes/fixed_scales.h"

namespace crumb::ptq {

/// What a weight's squared error counts: finite, not below 0.
using Importance = std::function<double(std::size_t row, std::size_t column)>;

/// Learns the codebook of all weights, row by row in `rows`, each over its scale, and weighed by that scale's square times its
/// importance; no worse than the one that is there. Where no importance is above 0, that stays. Precondition: the spec learns its codebook.
void find_codebook(FixedScales& scales, std::span<const float> rows, const Importance& importance);

/// By what rounding does to a layer's outputs, columns taken each for itself: a weight's importance is the mean square of its input.
/// `moments`: for each group, of `rows_of_group` rows. Precondition: moments are finite.
void find_codebook(FixedScales& scales, std::span<const float> rows, std::size_t rows_of_group,
                   const std::vector<Eigen::MatrixXd>& moments);

}  // namespace crumb::ptq
