// What a checkpoint says of how it was quantized: config.json, the files of tools that keep it elsewhere, the
// names of its tensors.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/checkpoint/checkpoint.h"

namespace crumb {

/// In which ModelOpt keeps what others have in config.json.
inline constexpr const char* kModelOptConfig = "hf_quant_config.json";
/// In which older tools for GPTQ do.
inline constexpr const char* kGptqConfig = "quantize_config.json";

/// Returns what config.json says of quantization; null where it says nothing, and where `config` is null.
const nlohmann::json* quantization_in(const nlohmann::json* config);

/// Erases that; whether there was some.
bool forget_quantization(nlohmann::json& config);

/// Reads a kModelOptConfig, {"quantization": {"quant_algo": "FP8", ...}}, as quantization_in() has it; null
/// where its weights are in floats. A Failure, which names the file, where it is none.
Result<nlohmann::json> read_modelopt_config(const std::filesystem::path& path);

/// Reads a kGptqConfig likewise.
Result<nlohmann::json> read_gptq_config(const std::filesystem::path& path);

/// Returns why a checkpoint counts as quantized; nothing where it does not. `config`: its config.json, or
/// null; `modelopt`: read_modelopt_config's.
std::optional<std::string> why_quantized(const nlohmann::json* config, const nlohmann::json& modelopt,
                                         const std::vector<TensorEntry>& tensors);

}  // namespace crumb
