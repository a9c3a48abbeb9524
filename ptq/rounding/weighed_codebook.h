// Codebooks chosen by the loss of rounding, each weight counting by the effect of its change: SqueezeLLM's
// weighted k-means (Kim et al. 2023, arXiv:2306.07629).
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "quant/codes/fixed_scales.h"

namespace crumb::ptq {

/// The factor of a weight's squared error: finite, not below 0.
using Importance = std::function<double(std::size_t row, std::size_t column)>;

/// Learns the codebook of all weights, which `rows` has row by row. Divides each by its scale, and weighs it
/// by that scale's square times its importance. The result is no worse than the present codebook, which stays
/// where no importance is above 0. Precondition: the spec learns its codebook.
void find_codebook(FixedScales& scales, std::span<const float> rows, const Importance& importance);

/// Learns it by the effect of rounding on a layer's outputs, each column alone: a weight's importance is the
/// mean square of its input. `moments`: one for each group of `rows_of_group` rows. Precondition: moments are
/// finite.
void find_codebook(FixedScales& scales, std::span<const float> rows, std::size_t rows_of_group,
                   const std::vector<Eigen::MatrixXd>& moments);

}  // namespace crumb::ptq
