// The index of a checkpoint in several files (model.safetensors.index.json, pytorch_model.bin.index.json):
//   {"metadata": ..., "weight_map": {tensor: file in the same folder}}
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "base/error.h"

namespace crumb {

/// The file of each tensor: plain paths inside the index's folder. A Failure where the bytes are no JSON
/// object with such a map, or a path leaves the folder.
Result<std::map<std::string, std::string>> parse_shard_index(std::span<const std::byte> bytes);

/// Whether a path consists of plain components, so that it cannot leave the folder that it is relative to.
bool is_inside_path(const std::string& path);

}  // namespace crumb
