// What crumb dequantize reads: a packed file, or a GGUF file, as floats and the files of a model's folder.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/safetensors/safetensors.h"
#include "quant/tensor_source.h"

namespace crumb::cli {

class FloatSource {
 public:
  using Sink = std::function<void(std::span<const std::byte>)>;

  /// Throws Error: as TensorSource::open does, and for a source of another kind.
  explicit FloatSource(const std::filesystem::path& path);

  bool is_packed() const { return source_.crumb() != nullptr; }
  const TensorSource& source() const { return source_; }

  /// Floating tensors become F32, others keep their type.
  std::vector<TensorDescription> tensors() const;

  /// A tensor's bytes, as tensors() describes it, piece by piece. `scratch` and `threads` as open_packed_stream() has
  /// them. Throws Error on damaged bytes.
  void read_tensor(std::string_view name, const std::filesystem::path& scratch, int threads,
                   const Sink& sink) const;

  /// The files that a model's folder has: not the graph of a checkpoint, which takes the packed file's tensors.
  const std::vector<std::string>& files() const { return files_; }
  bool has_file(std::string_view path) const;

  /// A file's bytes, piece by piece, of a packed file checked before they are given. Throws Error on damaged ones.
  void read_file(const std::string& path, const Sink& sink) const;

  /// Whether a file that exists holds the same, byte for byte.
  bool is_same_file(const std::string& path, const std::filesystem::path& other) const;

 private:
  std::string path_;
  TensorSource source_;
  std::vector<std::string> files_;
};

}  // namespace crumb::cli
