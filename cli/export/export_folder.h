// crumb export --to hf and compressed-tensors: makes a Hugging Face folder from a packed file.
#pragma once

#include <string>
#include <string_view>

namespace crumb::cli {

// Names of forms after --to.
inline constexpr std::string_view kHuggingFaceFolder = "hf", kCompressedTensors = "compressed-tensors";

struct ExportFolderRequest {
  std::string input, output, to;
  std::string shard;  ///< the value of --shard; empty: 5GB
  std::string dtype;  ///< the value of --dtype, for floats
  bool allow_approximate = false;
  bool json = false;
};

/// Writes the folder and prints what it is. Throws Error.
void write_export_folder(ExportFolderRequest request);

}  // namespace crumb::cli
