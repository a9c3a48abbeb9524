// The parts of a layer in the layouts of compressed-tensors
// (formats/checkpoint/quantized/quantized_matrix.h).
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "export/compressed_tensors/scheme.h"
#include "quant/quantized_tensor.h"

namespace crumb::exporting::compressed_tensors {

using ByteSink = std::function<void(std::span<const std::byte>)>;

/// Bytes of a row of codes: whole words where integers are packed.
std::uint64_t code_row_bytes(const Scheme& scheme, std::uint64_t cols);

/// weight_packed or weight, some rows at a time.
void write_codes(const QuantizedView& tensor, const StoredForm& form, int threads, const ByteSink& sink);

/// weight_scale: F32, or of MX and NVFP4 the stored byte. Throws Error on a scale that has no form there.
void write_scales(const QuantizedView& tensor, const StoredForm& form, const ByteSink& sink);

/// weight_zero_point: I8. Precondition: the form has them.
void write_zero_points(const QuantizedView& tensor, const StoredForm& form, const ByteSink& sink);

}  // namespace crumb::exporting::compressed_tensors
