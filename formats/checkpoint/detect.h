// What kind of model file a path holds, told from its first bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace crumb {

enum class ModelFileKind {
  kSafetensors,
  kTorch,
  kNpy,
  kNpz,
  kOnnx,
  kGguf,
  kZip,    ///< PyTorch or NumPy: its members tell
  kJson,   ///< begins with '{': perhaps an index
  kOther,  ///< known, and not readable as a checkpoint
  kUnknown,
};

struct DetectedFile {
  ModelFileKind kind = ModelFileKind::kUnknown;
  std::string what;  ///< for people: "an HDF5 file"
};

/// start is the first bytes of the file (32 are enough), extension its lower-case ".pt", which decides only
/// where the bytes leave it open (ONNX has no magic).
DetectedFile detect_model_file(std::span<const std::byte> start, std::string_view extension);

}  // namespace crumb
