// A packed file, a GGUF file, or a Hugging Face folder (one that another tool quantized, too), as floats and
// the files of a Hugging Face folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "export/folder/folder_content.h"
#include "quant/tensor_source.h"

namespace crumb::exporting {

/// What becomes of the floating tensors of a checkpoint. Packed ones are F32 either way.
enum class FloatTypes : std::uint8_t { kFloat32, kAsStored };

class FloatSource final : public FolderContent {
 public:
  /// Throws Error: as TensorSource::open does, and with kFloat32 for a checkpoint that is neither a GGUF file
  /// nor a folder with a config.json.
  explicit FloatSource(const std::filesystem::path& path, FloatTypes types = FloatTypes::kFloat32);

  bool is_packed() const { return source_.crumb() != nullptr; }
  const TensorSource& source() const { return source_; }

  /// A stored head that the network does not have (models/configured_network.h), which tensors() leaves out.
  const std::optional<std::string>& unused_head() const { return unused_head_; }

  /// Floating tensors become F32 where kFloat32 or packing says so, others keep their type.
  std::vector<TensorDescription> tensors() const override;
  void read_tensor(std::string_view name, const std::filesystem::path& scratch, int threads,
                   const Sink& sink) const override;

  /// Not the graph of a checkpoint, which takes the packed file's tensors.
  const std::vector<std::string>& files() const override { return files_; }

  /// Those of a packed file are checked before they are given.
  void read_file(const std::string& path, const Sink& sink) const override;

 private:
  bool widens(DType dtype) const;

  std::string path_;
  FloatTypes types_;
  TensorSource source_;
  std::vector<std::string> files_;
  std::optional<std::string> unused_head_;
};

}  // namespace crumb::exporting
