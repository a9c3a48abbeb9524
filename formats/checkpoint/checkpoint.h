// A model as it is published: one list of named tensors, whatever files they lie in.
//
// Opened from (a) a Hugging Face folder: model.safetensors, else model.safetensors.index.json with its
// shards, else the only *.safetensors there is; (b) one safetensors file; (c) an index, which stands for its
// folder. Only the safetensors are needed: configuration, tokenizer and the index's total_size are optional.
// What a file is, its first bytes say, not its name alone.
//
// The index is {"metadata": ..., "weight_map": {tensor: file in the same folder}}.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/dtype.h"
#include "formats/error.h"
#include "formats/io/mapped_file.h"

namespace crumb {

struct TensorEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;
  std::span<const std::byte> data;  ///< mapped, little-endian, row-major; not necessarily aligned
  std::size_t file = 0;             ///< which tensor file it lies in
};

/// A file that belongs to the model beside its tensors (configuration, tokenizer, modules).
struct ModelFile {
  std::string path;  ///< relative to the folder, with '/': "1_Pooling/config.json"
  std::span<const std::byte> bytes;
};

struct CheckpointOptions {
  /// Refuse what is already quantized. `inspect` may want to look all the same.
  bool refuse_quantized = true;
};

/// Everything that spans point to is mapped and lives as long as the Checkpoint (also across a move).
/// Move-only.
class Checkpoint {
 public:
  static constexpr std::uint64_t kMaxModelFile = std::uint64_t{64} << 20;

  /// A Failure names the path and: what was found where no checkpoint is; the damage of a safetensors file; a
  /// shard that is missing or outside the folder; a tensor that the index places in a shard where it is not,
  /// or that two shards hold; a side file above kMaxModelFile; how the checkpoint is already quantized.
  static Result<Checkpoint> open(const std::filesystem::path& path, const CheckpointOptions& options = {});

  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  /// Sorted by name (bytewise), which is unique.
  const std::vector<TensorEntry>& tensors() const { return tensors_; }

  /// Null where there is none of that name.
  const TensorEntry* find(std::string_view name) const;

  /// Gives the memory of a tensor's pages back to the system once it was read; its bytes stay readable.
  void release(const TensorEntry& tensor) const { tensor_files_[tensor.file].release(tensor.data); }

  /// The sum of the tensor files' sizes.
  std::uint64_t input_bytes() const;

  /// What makes the model complete beside its tensors, sorted by path. Empty for a single file.
  const std::vector<ModelFile>& files() const { return files_; }

  /// Null where there is none of that path.
  const ModelFile* find_file(std::string_view path) const;

  /// config.json, an object; null where there is none.
  const nlohmann::json* config() const { return config_.get(); }

  /// Every file that was read, canonical: an output must be none of them.
  const std::vector<std::filesystem::path>& input_paths() const { return input_paths_; }

  /// Why this counts as already quantized: "config.json has quantization_config (gptq)".
  const std::optional<std::string>& quantized() const { return quantized_; }

 private:
  friend class CheckpointOpener;
  Checkpoint();

  std::vector<MappedFile> tensor_files_;
  std::vector<MappedFile> side_files_;
  std::vector<TensorEntry> tensors_;
  std::vector<ModelFile> files_;
  std::vector<std::filesystem::path> input_paths_;
  std::unique_ptr<nlohmann::json> config_;
  std::optional<std::string> quantized_;
};

}  // namespace crumb
