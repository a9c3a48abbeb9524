// Counts values that reach a quantizer without codes for them (graph/not_finite.h), where the caller asks for
// it.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "graph/not_finite.h"
#include "libtorch/execute/operator.h"

namespace crumb::libtorch {

/// Counts NaN, infinities, or both in input 0.
inline void note_not_finite(const Call& call, bool nan, bool infinity) {
  if (!graph::NotFiniteWatch::current() || !call.tensor(0).is_floating_point()) return;
  const at::NoGradGuard no_gradients;
  const at::Tensor& x = call.tensor(0);
  const at::Tensor beyond = nan && infinity ? x.isfinite().logical_not() : nan ? x.isnan() : x.isinf();
  graph::note_not_finite(call.node(), static_cast<std::uint64_t>(beyond.sum().item<std::int64_t>()));
}

}  // namespace crumb::libtorch
