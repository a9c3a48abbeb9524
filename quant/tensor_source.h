// Named tensors as float32, wherever they are stored: any checkpoint (formats/checkpoint) or a packed file.
// `crumb inspect`, `compare` and `dequantize` read every input through it.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/checkpoint/checkpoint.h"
#include "formats/crumb_file/crumb_file.h"
#include "quant/value_stream.h"

namespace crumb {

struct SourceTensor {
  std::string name;
  DType dtype = DType::kF32;  ///< the tensor's dtype as it was published
  std::vector<uint64_t> shape;
  std::string spec;       ///< empty: not quantized by Crumb
  uint64_t bytes = 0;     ///< as stored
  std::string stored_as;  ///< the spec, the type of GGUF's blocks, the codes of others, or the dtype
  uint64_t raw = 0;       ///< stored bytes before compression
};

/// An opened source. Move-only; reading is thread-safe.
class TensorSource {
 public:
  /// Throws Error naming the path and what is wrong with it. Lists checkpoints that another tool quantized as
  /// well.
  /// `key` picks the model inside a PyTorch file (CheckpointOptions).
  static TensorSource open(const std::filesystem::path& path, const std::string& key = {});

  /// "crumb", or Checkpoint::kind().
  std::string_view kind() const;
  uint64_t bytes() const;                                                ///< of the tensor files
  const std::vector<SourceTensor>& tensors() const { return tensors_; }  ///< sorted by name
  const SourceTensor* find(std::string_view name) const;

  /// Streams the tensor's values piece by piece. Throws Error, here or when values are requested, on damaged
  /// bytes and for dtypes without float values. F64 is rounded. The source must outlive the stream.
  std::unique_ptr<ValueStream> stream(const SourceTensor& tensor, int threads = 0) const;

  /// Returns all values. Throws as stream() does.
  std::vector<float> floats(const SourceTensor& tensor, int threads = 0) const;

  /// Returns null where the source is a packed file.
  const Checkpoint* checkpoint() const { return checkpoint_ ? &*checkpoint_ : nullptr; }
  const CrumbFile* crumb() const { return crumb_ ? &*crumb_ : nullptr; }

 private:
  TensorSource() = default;

  std::optional<Checkpoint> checkpoint_;
  std::optional<CrumbFile> crumb_;
  std::vector<SourceTensor> tensors_;
};

}  // namespace crumb
