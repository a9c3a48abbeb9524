// What a model's folder is made of, wherever it comes from: tensors that are written piece by piece, and the
// files beside them.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/safetensors/safetensors.h"

namespace crumb::exporting {

class FolderContent {
 public:
  using Sink = std::function<void(std::span<const std::byte>)>;

  virtual ~FolderContent() = default;

  virtual std::vector<TensorDescription> tensors() const = 0;

  /// A tensor's bytes, as tensors() describes it, piece by piece. `scratch` is a folder that can be written
  /// to (quant/ packed_stream.h says what for). Throws Error on damaged bytes.
  virtual void read_tensor(std::string_view name, const std::filesystem::path& scratch, int threads,
                           const Sink& sink) const = 0;

  /// Relative to the folder, with '/': "config.json", "1_Pooling/config.json".
  virtual const std::vector<std::string>& files() const = 0;

  /// A file's bytes, piece by piece. Throws Error on damaged ones.
  virtual void read_file(const std::string& path, const Sink& sink) const = 0;
};

}  // namespace crumb::exporting
