// Compares what an adapter's file repeats of its base model with the base.
#pragma once

#include "formats/adapters/base_copy.h"
#include "jobs/observer.h"
#include "quant/tensor_source.h"

namespace crumb::jobs {

/// Returns a check that a copy has the numbers of the base's tensor of that name, each rounded to the copy's
/// type. Where the base holds the tensor as codes, which training by floats cannot have changed, only shapes
/// are compared: the base's codes stay in use, and the observer is told how far the copy is from them. The
/// source and the observer must outlive the check.
CheckCopy check_with_base(const TensorSource& base, Observer& observer);

}  // namespace crumb::jobs
