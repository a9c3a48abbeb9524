// A published model as one list of named tensors, whatever files they are in.
//
// Opened from
//   a Hugging Face folder: model.safetensors, else model.safetensors.index.json with its shards, else the
//     only *.safetensors, else pytorch_model.bin, else pytorch_model.bin.index.json with its shards, else the
//     only file of a kind below, or the parts of one GGUF model;
//   an index, which stands for its folder;
//   such a folder whose weights another tool quantized, as the values that they stand for
//     (formats/checkpoint/quantized/dequantized_model.h);
//   one file: safetensors, PyTorch (.pt, .pth, .bin), NumPy (.npy, .npz), ONNX (its initializers), GGUF (with
//     the configuration and tokenizer that its metadata describe, unless its folder is opened and has its
//     own: formats/gguf/model.h), by any part of a model in several files.
// Where config.json describes a decoder that Crumb knows, its tensors have the names of transformers'
// ...ForCausalLM, whatever they were saved as; of a model that reads images, too, the language model alone is
// there, with a configuration of its own (formats/checkpoint/decoder_part.h).
// Only the tensors are needed: configuration, tokenizer and the index's total_size are optional. A file's
// first bytes say what it is, not its name alone. The tensor of an .npy file is named after the file's stem.
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

#include "base/error.h"
#include "base/files/input_file.h"
#include "base/files/mapped_file.h"
#include "formats/checkpoint/tensor_reader.h"
#include "formats/stored_tensor.h"

namespace crumb {

struct TensorEntry : StoredTensor {
  std::uint64_t bytes = 0;  ///< what dtype and shape take
  std::size_t input = 0;    ///< index of the tensor file that it is in
};

/// A file of the model that holds no tensors (configuration, tokenizer, modules).
struct ModelFile {
  std::string path;  ///< relative to the folder, with '/': "1_Pooling/config.json"
  std::span<const std::byte> bytes;
};

struct CheckpointOptions {
  /// Refuse checkpoints that are quantized already; `inspect` opens them all the same.
  bool refuse_quantized = true;
  /// Which entry of a PyTorch file is the model (formats/torch_pickle/torch_pickle.h). Refused for others.
  std::string key = {};
  /// What the caller takes in addition to checkpoints, for messages: "a packed file (.crumb)".
  std::string also = {};
};

/// Move-only; reading is thread-safe. The bytes of model files live as long as the checkpoint, also after it
/// was moved.
class Checkpoint {
 public:
  static constexpr std::uint64_t kMaxModelFile = std::uint64_t{64} << 20;

  /// A Failure names the path and: what was found where no checkpoint is; the damage of a tensor file; a
  /// shard or external data that is missing, too short or outside the folder; a tensor that the index places
  /// in a shard where it is not, or that two shards hold; a side file above kMaxModelFile; how the checkpoint
  /// is already quantized.
  static Result<Checkpoint> open(const std::filesystem::path& path, const CheckpointOptions& options = {});

  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  /// Sorted by name (bytewise). Names are unique.
  const std::vector<TensorEntry>& tensors() const { return tensors_; }

  /// Null where no tensor has that name.
  const TensorEntry* find(std::string_view name) const;

  /// Reads a tensor's bytes slice by slice. The Checkpoint must outlive the reader and not move meanwhile.
  TensorReader reader(const TensorEntry& tensor) const { return {tensor_files_[tensor.input], tensor}; }

  /// A tensor's bytes, little-endian and row-major. A Failure names file and tensor.
  Result<std::vector<std::byte>> load(const TensorEntry& tensor) const;

  /// Entries of the files that are no tensors, and networks beside the language model: listed, not read.
  const std::vector<SkippedEntry>& skipped() const { return skipped_; }

  /// The files that hold the tensors.
  const std::vector<InputFile>& tensor_files() const { return tensor_files_; }

  /// The kind of what was opened: "folder", "safetensors", "pytorch", "npy", "npz", "onnx", "gguf".
  std::string_view kind() const { return kind_; }

  /// The sum of the tensor files' sizes.
  std::uint64_t input_bytes() const;

  /// The model's other files, sorted by path. Empty for a single file, except for GGUF.
  const std::vector<ModelFile>& files() const { return files_; }

  /// Other files and folders (with '/' at the end) of the folder, which are neither read nor copied; sorted,
  /// without hidden ones. Empty for a single file.
  const std::vector<std::string>& not_carried() const { return not_carried_; }

  /// Null where no file has that path.
  const ModelFile* find_file(std::string_view path) const;

  /// config.json, an object; null where there is none.
  const nlohmann::json* config() const { return config_.get(); }

  /// Every file that was read, canonical: an output must be none of them.
  const std::vector<std::filesystem::path>& input_paths() const { return input_paths_; }

  /// Why this counts as already quantized, and why it is not read as what it stands for: "config.json has
  /// quantization_config (quant_method 'hqq'): ...". Tensors are then as they are stored.
  const std::optional<std::string>& quantized() const { return quantized_; }

  /// Which tool quantized it, of one that is read as the checkpoint in floating point that it stands for
  /// (formats/checkpoint/quantized): tensors, types and config() are that one's. Nothing for others.
  const std::optional<std::string>& dequantized() const { return dequantized_; }

 private:
  friend class CheckpointOpener;
  Checkpoint();

  std::string_view kind_;
  std::vector<InputFile> tensor_files_;
  std::vector<SkippedEntry> skipped_;
  std::vector<MappedFile> side_files_;
  /// Contents of the files in files_ that a GGUF file describes.
  std::vector<std::vector<std::byte>> made_files_;
  std::vector<TensorEntry> tensors_;
  std::vector<ModelFile> files_;
  std::vector<std::string> not_carried_;
  std::vector<std::filesystem::path> input_paths_;
  std::unique_ptr<nlohmann::json> config_;
  std::optional<std::string> quantized_, dequantized_;
};

}  // namespace crumb
