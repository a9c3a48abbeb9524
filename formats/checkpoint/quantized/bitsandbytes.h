// Folders that bitsandbytes quantized: NF4 and FP4 with and without double quantization, and LLM.int8.
//
// A weight NAME of four bits has beside it NAME.absmax, NAME.quant_map, NAME.quant_state.bitsandbytes__nf4
// (or __fp4: JSON in bytes, with shape, type, block and offset) and, with double quantization,
// NAME.nested_absmax and NAME.nested_quant_map; its own type and shape say nothing. One of eight bits,
// MODULE.weight, has MODULE.SCB, and perhaps MODULE.weight_format. Values are those of bitsandbytes'
// dequantize_4bit and int8_vectorwise_dequant (bitsandbytes_matrix.h), in the type that the former says and
// in F32.
#pragma once

#include <vector>

#include "base/error.h"
#include "formats/checkpoint/checkpoint.h"
#include "formats/checkpoint/quantized/dequantized_model.h"

namespace crumb {

/// Whether tensors have the names of bitsandbytes' codes.
bool is_of_bitsandbytes(const std::vector<TensorEntry>& tensors);

/// The checkpoint with its weights' values. `files` are those that the tensors' `input` counts. A Failure
/// names the tensor that is missing, has another type or shape than the others say, or is damaged: a
/// quant_map that is not that of its type, or an absmax that is nothing but zeros beside codes that differ.
Result<DequantizedModel> bitsandbytes_model(const std::vector<TensorEntry>& tensors,
                                            const std::vector<InputFile>& files);

}  // namespace crumb
