// A checkpoint that another tool quantized, as the floating-point checkpoint that it stands for:
// `q_proj.weight` instead of `q_proj.weight_packed`, `q_proj.weight_scale` and so on, with the values that
// the other library computes.
//
// Read are
//   compressed-tensors   pack-quantized (int, 1 to 8 bits), int-quantized, float-quantized (e4m3fn),
//                        naive-quantized, nvfp4-pack-quantized, mxfp4-pack-quantized, mxfp6-pack-quantized,
//                        mxfp8-quantized
//   GPTQ                 checkpoint_format gptq and gptq_v2 of 2, 3, 4 and 8 bits, with and without desc_act
//   AWQ                  version gemm, 4 bits
//   AutoRound            packing_format auto_round, auto_round:auto_gptq and auto_round:auto_awq, of 2 to 8
//                        bits (the last: 4)
//   bitsandbytes         NF4, FP4, LLM.int8 (bitsandbytes.h)
//   fp8, fbgemm_fp8      and modelopt's FP8: scales beside weights of 8 bits (scaled_weights.h)
// quantized_matrix.h has their layouts. Values are computed in the type of the scales, as these libraries do
// (NVFP4 and MX in bfloat16), which is the type that the tensors then have. Quantizers of activations and of
// the key-value cache are left out, and listed.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/checkpoint/checkpoint.h"

namespace crumb {

struct DequantizedModel {
  std::vector<TensorEntry> tensors;  ///< in any order
  std::vector<SkippedEntry> skipped;
  std::string
      what;  ///< for people: "compressed-tensors (pack-quantized) computes of 14 quantized matrices, in BF16"
};

/// `config` is quantization_config of config.json, or what quantize_config.json or hf_quant_config.json say;
/// `files` are those that the tensors' `input` counts. A Failure names what is not supported (method, format,
/// version, number of bits, ...), or a tensor that is missing, has another type or shape than the others
/// need, or can be read in two ways.
Result<DequantizedModel> dequantized_model(const nlohmann::json& config,
                                           const std::vector<TensorEntry>& tensors,
                                           const std::vector<InputFile>& files);

/// What dequantized_model() reads, for messages.
inline constexpr std::string_view kReadQuantizations =
    "compressed-tensors, gptq, awq, auto-round, bitsandbytes and fp8";

}  // namespace crumb
