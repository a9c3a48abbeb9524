// Scales by what rounding does to a layer's outputs, columns taken each for itself.
#pragma once

#include <Eigen/Core>
#include <span>

#include "ptq/feedback.h"

namespace crumb::ptq {

/// Of each block in these rows: the scale, of some below that of its largest magnitude and the one it has, that rounding to
/// loses least by, squared and weighed by `weights` (one for each column). Zero points stay. Nothing changes of learned
/// codebooks (weighed_codebook.h), and of blocks of several rows that reach beyond these.
void find_scales(FixedScales& scales, RowRange range, std::span<const float> rows,
                 const Eigen::VectorXd& weights, int threads);

}  // namespace crumb::ptq
