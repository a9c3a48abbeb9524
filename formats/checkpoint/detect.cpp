#include "formats/checkpoint/detect.h"

#include <algorithm>

#include "formats/safetensors/safetensors.h"
#include "formats/torch_pickle/torch_pickle.h"

namespace crumb {

DetectedFile detect_model_file(std::span<const std::byte> start, std::string_view extension) {
  const std::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  if (looks_like_safetensors(start)) return {ModelFileKind::kSafetensors, "a safetensors file"};

  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') return {ModelFileKind::kJson, "a JSON file"};
  if (text.starts_with("PK\x03\x04") || text.starts_with("PK\x05\x06"))
    return {ModelFileKind::kZip, "a zip archive"};
  if (text.starts_with("\x93NUMPY")) return {ModelFileKind::kNpy, "a NumPy array (.npy)"};
  if (text.starts_with("GGUF")) return {ModelFileKind::kGguf, "a GGUF file"};
  if (text.starts_with("\x89HDF\r\n")) return {ModelFileKind::kOther, "an HDF5 file, which is not supported"};
  if (looks_like_old_torch(start))
    return {
        ModelFileKind::kOther,
        "a Python pickle, as torch.save wrote before PyTorch 1.6: it is not read, because a pickle may run "
        "any code (load it where you trust it and torch.save its state_dict again)"};
  if (extension == ".onnx") return {ModelFileKind::kOnnx, "an ONNX model"};
  // Named so, but damaged: its reader says how.
  if (extension == ".safetensors") return {ModelFileKind::kSafetensors, "a damaged safetensors file"};
  return {ModelFileKind::kUnknown, "a file of an unknown kind"};
}

}  // namespace crumb
