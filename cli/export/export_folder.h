// crumb export --to hf and compressed-tensors: a Hugging Face folder out of a packed file.
#pragma once

#include <string>
#include <string_view>

namespace crumb::cli {

// Forms of --to.
inline constexpr std::string_view kHuggingFaceFolder = "hf", kCompressedTensors = "compressed-tensors";

struct ExportFolderRequest {
  std::string input, output, to;
  std::string shard;  ///< as --shard says it; empty: 5GB
  std::string dtype;  ///< as --dtype says it; of floats
  bool allow_approximate = false;
  bool json = false;
};

/// Writes the folder and prints what it is. Throws Error.
void write_export_folder(ExportFolderRequest request);

}  // namespace crumb::cli
