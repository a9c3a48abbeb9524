// Scales chosen by the effect of rounding on a layer's outputs, each column alone.
#pragma once

#include <Eigen/Core>
#include <span>
#include <vector>

#include "ptq/rounding/feedback.h"

namespace crumb::ptq {

/// Sets each block's scale in these rows to the one with the least squared rounding error, weighed by
/// `weights` (one for each column), of its present scale and some below that of its largest magnitude. Zero
/// points stay. Changes nothing for learned codebooks (weighed_codebook.h). Precondition: no block extends
/// beyond these rows.
void find_scales(FixedScales& scales, RowRange range, std::span<const float> rows,
                 const Eigen::VectorXd& weights, int threads);

/// Whether a block has rows of several groups of that many rows, so that its scale belongs to none of them
/// alone.
bool blocks_span_groups(const FixedScales& scales, std::size_t rows_of_group);

/// Does the same for all rows, in groups with weights of their own.
void find_scales(FixedScales& scales, std::span<const float> rows, std::size_t rows_of_group,
                 const std::vector<Eigen::VectorXd>& weights, int threads);

}  // namespace crumb::ptq
