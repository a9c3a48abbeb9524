// Weights of eight bits and less beside the scales that make values of them, found by names and shapes alone:
// what vLLM, ModelOpt and fbgemm write (weight_scale), DeepSeek and Qwen (weight_scale_inv, which is
// multiplied, too), Mistral (qscale_weight), ComfyUI (scale_weight, and a tensor named scaled_fp8), and
// experts in one tensor (gate_up_proj_scale_inv).
//
//   value = narrow(code * scale), narrow() to the type of the scales (of powers of two, to BF16)
//
// Read are codes of 8-bit floats, and of I8 where weight_scale is one number or one for each row. A scale is
//   one number;
//   one for each index of the leading axes: [N], [N, 1], of experts [E], [E, N, 1] ...;
//   one for each block of rows and columns of the last two axes: of the sizes that the configuration says,
//   else of 128 x 128, else of those that the scales divide the weight into.
// Scales of activations are left out, and listed. Whatever else looks as if it scaled such a weight is a
// Failure that names it: weight_scale_2, absmax, zero points, pre_quant_scale ...
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/checkpoint/checkpoint.h"
#include "formats/checkpoint/quantized/dequantized_model.h"

namespace crumb {

/// The rows and columns that share a scale.
using ScaleBlock = std::array<std::uint64_t, 2>;

/// The first scale of a weight of few bits: "it holds the tensor 'a.weight_scale' beside a weight of type
/// F8_E4M3". Nothing where there is none. Tensors are sorted by name.
std::optional<std::string> find_scaled_weight(const std::vector<TensorEntry>& tensors);

/// The checkpoint with its weights multiplied by their scales. A Failure names what is not supported.
Result<DequantizedModel> scaled_model(const std::vector<TensorEntry>& tensors,
                                      const std::vector<InputFile>& files,
                                      const std::optional<ScaleBlock>& block = {});

}  // namespace crumb
