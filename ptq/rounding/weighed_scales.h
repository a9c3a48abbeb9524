// Scales by what rounding does to a layer's outputs, columns taken each for itself.
#pragma once

#include <Eigen/Core>
#include <span>
#include <vector>

#include "ptq/rounding/feedback.h"

namespace crumb::ptq {

/// Of each block in these rows: the scale, of some below that of its largest magnitude and the one it has, that rounding to
/// loses least by, squared and weighed by `weights` (one for each column). Zero points stay. Nothing changes of learned
/// codebooks (weighed_codebook.h). Precondition: no block reaches beyond these rows.
void find_scales(FixedScales& scales, RowRange range, std::span<const float> rows,
                 const Eigen::VectorXd& weights, int threads);

/// Whether a block holds rows of several groups of so many rows, so that its scale is none of theirs alone.
bool blocks_span_groups(const FixedScales& scales, std::size_t rows_of_group);

/// The same of all rows, of groups with weights of their own.
void find_scales(FixedScales& scales, std::span<const float> rows, std::size_t rows_of_group,
                 const std::vector<Eigen::VectorXd>& weights, int threads);

}  // namespace crumb::ptq
