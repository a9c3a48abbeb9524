// What was written, read back by Crumb itself and compared with what was meant.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "quant/tensor_source.h"

namespace crumb::exporting {

struct ValueDifference {
  std::uint64_t count = 0;  ///< values with other bits
  double largest = 0;       ///< |meant - found| / |meant|
  std::string tensor;       ///< the first with such
};

/// Compares every tensor of `meant` with that of its name in the folder, as float32, bit by bit; a few
/// megabytes of each are in memory. Throws Error where one is missing, of another shape, or cannot be read.
ValueDifference compare_folder(const TensorSource& meant, const std::filesystem::path& folder,
                               int threads = 0);

}  // namespace crumb::exporting
