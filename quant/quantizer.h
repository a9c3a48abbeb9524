// Quantizes a tensor: finds the scales that a spec asks for, then the codes against the scales as stored. The
// arithmetic is the numeric contract of quant/code_grid.h; the searches are those of
// quant/search/scale_search.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "quant/quant_spec.h"
#include "quant/quantized_tensor.h"

namespace crumb {

struct QuantizeOptions {
  int threads = 0;             ///< 0: those the machine has; the number never changes a code
  std::string_view name = {};  ///< the tensor's name, for messages
  bool narrowed = false;       ///< the values were float64; for messages
  uint64_t stack_axes = 0;     ///< the tensor is a stack of matrices: Encoding::stack_axes
  bool inputs_first = false;   ///< whether its matrices are stored [in, out]: QuantSpec::encoding()
  bool codes = true;           ///< false: makes scales, zero points and codebook alone; the codes stay empty
};

/// Quantizes a row-major tensor; in a stack each matrix as if it were alone. Throws Error when the shape does
/// not fit the spec's groups (without pad) or when a value is inf or NaN (naming the tensor, their count and
/// the first index).
QuantizedTensor quantize(const QuantSpec& spec, std::span<const float> values,
                         std::span<const uint64_t> shape, const QuantizeOptions& options = {});

/// Writes dequantize(quantize(values)), bit for bit, to `out` (which may be `values` itself).
void fake_quantize(const QuantSpec& spec, std::span<const float> values, std::span<const uint64_t> shape,
                   std::span<float> out, const QuantizeOptions& options = {});

/// Returns the bits of the packed form (codes, scales, zero points, codebooks) over the number of weights; 0
/// for no weights.
double bits_per_weight(uint64_t stored_bytes, uint64_t weights);

}  // namespace crumb
