// Codebooks by what rounding does to a layer's outputs, columns taken each for itself: SqueezeLLM's weighted k-means (Kim et al. 2023,
// arXiv:2306.07629), with second moments of inputs where that has the gradients'.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <span>
#include <vector>

#include "quant/fixed_scales.h"

namespace crumb::ptq {

/// Learns the codebook of all weights, row by row in `rows`, each over its scale, and weighed by that scale's square times the mean square
/// of its input. `moments`: for each group, of `rows_of_group` rows. Where no input is above 0, it stays. Precondition: the spec learns
/// its codebook; moments are finite.
void find_codebook(FixedScales& scales, std::span<const float> rows, std::size_t rows_of_group,
                   const std::vector<Eigen::MatrixXd>& moments);

}  // namespace crumb::ptq
