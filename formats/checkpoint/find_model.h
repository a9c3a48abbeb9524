// Which file of a folder holds a model's tensors.
#pragma once

#include <array>
#include <filesystem>
#include <string>

#include "base/error.h"

namespace crumb {

/// What a folder's tensors lie in, in the order of preference; of each, an index after the file itself.
inline constexpr std::array<const char*, 2> kModelNames = {"model.safetensors", "pytorch_model.bin"};
inline constexpr const char* kIndexEnd = ".index.json";

/// Returns the tensor file or index that a folder's model lies in: one of kModelNames, else the only file of
/// tensors, or the first part of a GGUF model. A Failure, which names what the folder holds, where there is
/// none or several, one shard alone, or a low-rank adapter. `also`: expected_inputs' (list_tensors.h).
Result<std::filesystem::path> find_model(const std::filesystem::path& folder, const std::string& also);

}  // namespace crumb
