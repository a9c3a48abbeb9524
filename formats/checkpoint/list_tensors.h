// One tensor file of any kind as a list of tensors.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files/mapped_file.h"
#include "formats/gguf/model.h"
#include "formats/stored_tensor.h"

namespace crumb {

struct FileListing {
  TensorListing listing;
  std::string_view kind;             ///< "safetensors", "pytorch", "npy", "npz", "onnx", "gguf"
  std::vector<MadeFile> files = {};  ///< a model's other files, made from the same file
};

/// Finds the kind by the file's bytes (by its extension only where they leave it open) and lists its tensors,
/// each of which is inside the file or in a file that it names. `key` is TorchOptions::key; a Failure where
/// it is given for another kind. A Failure begins with the file's path. `also` says for messages what else
/// the caller takes (expected_inputs()).
Result<FileListing> list_tensors(const MappedFile& file, const std::string& key, std::string_view also);

/// What list_tensors can read, for messages.
inline constexpr std::string_view kTensorFiles =
    "a .safetensors file, a PyTorch file (.pt, .pth, .bin), .npy, .npz, .onnx or .gguf";

/// "expected a Hugging Face folder, ...": every input that a checkpoint may be, and what else the caller
/// takes, where that is not empty ("a packed file (.crumb)").
std::string expected_inputs(std::string_view also);

/// ".PT" -> ".pt".
std::string lower_extension(const std::filesystem::path& path);

}  // namespace crumb
