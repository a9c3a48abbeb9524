// What every lister of tensors promises (formats/stored_tensor.h), and that tensors are read.
#pragma once

#include "base/error.h"
#include "formats/stored_tensor.h"
#include "tests/fuzz/fuzz.h"

namespace crumb::testing {

/// Names are unique, elements lie inside their storages and those inside the file; small tensors are read in one
/// piece and in several, with the same bytes.
void check_listing(std::span<const std::byte> file, const Result<TensorListing>& listing);

}  // namespace crumb::testing
