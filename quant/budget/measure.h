// Measures what formats would do to the tensors of a checkpoint. Each tensor is read slice by slice and
// quantized with each format; nothing is written.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "formats/checkpoint/checkpoint.h"
#include "quant/quant_spec.h"

namespace crumb {

/// What a tensor has in one of the formats.
struct MeasuredFormat {
  QuantSpec spec;
  uint64_t bytes = 0;  ///< codes, scales, zero points and codebook
  double loss = 0;     ///< squared error over squared norm; 0 where nothing is lost
  double sqnr_db = 0;
  double max_abs_error = 0;
  uint64_t saturated_scales = 0;
};

struct MeasureProgress {
  size_t tensors = 0;
  uint64_t bytes = 0;
  size_t all_tensors = 0;
  uint64_t all_bytes = 0;
};

struct MeasureOptions {
  uint64_t memory = 0;  ///< as for plan_run()
  int threads = 0;      ///< 0: those the machine has; never changes a figure
  /// Called before each tensor and once at the end.
  std::function<void(const MeasureProgress&)> progress;
};

/// Returns for each tensor the formats that fit its shape, in the order of `formats`. Throws Error for a
/// tensor that none fits, and for inf or NaN values (naming the tensor).
std::vector<std::vector<MeasuredFormat>> measure_formats(const Checkpoint& checkpoint,
                                                         std::span<const TensorEntry* const> tensors,
                                                         std::span<const QuantSpec> formats,
                                                         const MeasureOptions& options);

}  // namespace crumb
