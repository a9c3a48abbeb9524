// Quantizes a tensor that comes in slices: in memory are one slice, the scales and the codebook. The codes
// are the same whatever the slices and the threads.
//
// A slice is a run of whole rows that cuts no block in two. Two kinds of tensors are cut otherwise:
//   a tensor of one row is cut between columns, where neither a block nor a byte of codes is cut;
//   a tensor that is one block (granularity tensor) is read slice by slice once or more to find its scale,
//     and then once more to be encoded.
// A stack comes matrix by matrix: a slice is one matrix, whatever size was requested.
// Learned codebooks need further passes over the values: one for the scales, and one or two for the codebook.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "quant/distortion.h"
#include "quant/quant_spec.h"
#include "quant/quantized_tensor.h"
#include "quant/quantizer.h"
#include "quant/value_stream.h"

namespace crumb {

/// How a tensor is cut.
struct SliceSize {
  uint64_t values = 0;  ///< in a slice (the last may be smaller): as requested, in whole units, at least one
  uint64_t unit = 0;    ///< the smallest slice
};
/// Returns the size of a tensor's slices. With tiles, no slice cuts one in two.
SliceSize slice_size(const QuantSpec& spec, std::span<const uint64_t> shape, uint64_t requested,
                     CodeLayout codes = CodeLayout::kRows, uint64_t stack_axes = 0);

/// Returns the most bytes that quantizing slices of this many values holds in memory in addition to the slice
/// itself: scales, zero points, codes of a slice, codebook search.
uint64_t slice_working_bytes(const QuantSpec& spec, std::span<const uint64_t> shape, uint64_t slice_values,
                             uint64_t stack_axes = 0, bool inputs_first = false);

/// Called for each slice, front to back, with its values and its codes as a tensor of its own: [rows, cols],
/// a part of the one row, or one matrix of a stack. Both are valid during the call.
using SliceSink = std::function<void(std::span<const float> values, const QuantizedView& slice)>;

/// Quantizes a tensor of this shape. Gives the codes to the sink (which may be empty) slice by slice. The
/// result's `codes` are those of the last slice, its other parts are the tensor's. Throws as quantize() does.
QuantizedTensor quantize_slices(const QuantSpec& spec, std::span<const uint64_t> shape, ValueStream& values,
                                uint64_t slice_values, const SliceSink& sink,
                                const QuantizeOptions& options = {});

/// For sinks: adds to `sum` what a slice lost, its decoded values against the original ones.
void add_slice(DistortionSum& sum, std::span<const float> values, const QuantizedView& slice, int threads);

}  // namespace crumb
