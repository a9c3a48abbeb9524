// The kind of model file at a path, by its first bytes.
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
  kZip,    ///< PyTorch or NumPy, by its members
  kJson,   ///< begins with '{': perhaps an index
  kOther,  ///< known, but not readable as a checkpoint
  kUnknown,
};

/// How many first bytes tell the kind of a file: a tar archive's mark lies behind its first name.
inline constexpr std::size_t kDetectedBytes = 512;

struct DetectedFile {
  ModelFileKind kind = ModelFileKind::kUnknown;
  std::string what;  ///< for people: "an HDF5 file"
};

/// `start`: the first bytes of the file (kDetectedBytes are enough). `extension`: lower-case, as ".pt"; it
/// decides only where the bytes leave the kind open (ONNX has no magic).
DetectedFile detect_model_file(std::span<const std::byte> start, std::string_view extension);

}  // namespace crumb
