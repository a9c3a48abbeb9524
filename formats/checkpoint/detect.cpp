#include "formats/checkpoint/detect.h"

#include <algorithm>

#include "formats/safetensors/safetensors.h"

namespace crumb {

DetectedFile detect_model_file(std::span<const std::byte> start, std::string_view extension) {
  const std::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  if (looks_like_safetensors(start)) return {ModelFileKind::kSafetensors, "a safetensors file"};

  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') return {ModelFileKind::kJson, "a JSON file"};
  if (text.starts_with("PK\x03\x04")) {
    if (extension == ".npz") return {ModelFileKind::kOther, "a NumPy archive (.npz)"};
    if (extension == ".pt" || extension == ".pth" || extension == ".bin" || extension == ".ckpt")
      return {ModelFileKind::kOther, "a PyTorch checkpoint"};
    return {ModelFileKind::kOther, "a zip archive (a PyTorch checkpoint or .npz?)"};
  }
  if (text.starts_with("\x93NUMPY")) return {ModelFileKind::kOther, "a NumPy array (.npy)"};
  if (text.starts_with("GGUF")) return {ModelFileKind::kOther, "a GGUF file"};
  if (text.starts_with("\x89HDF\r\n")) return {ModelFileKind::kOther, "an HDF5 file"};
  if (text.size() >= 2 && text[0] == '\x80' && text[1] >= '\x02' && text[1] <= '\x05')
    return {ModelFileKind::kOther, "a Python pickle (an old PyTorch checkpoint?)"};
  if (extension == ".onnx") return {ModelFileKind::kOther, "an ONNX model"};
  if (extension == ".pt" || extension == ".pth" || extension == ".bin" || extension == ".ckpt")
    return {ModelFileKind::kOther, "a " + std::string(extension) + " file (a PyTorch checkpoint?)"};
  // Named so, but damaged: its reader says how.
  if (extension == ".safetensors") return {ModelFileKind::kSafetensors, "a damaged safetensors file"};
  return {ModelFileKind::kUnknown, "a file of an unknown kind"};
}

}  // namespace crumb
