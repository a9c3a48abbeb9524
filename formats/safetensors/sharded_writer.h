// Writing a model as several safetensors files of a limited size and an index, as Hugging Face does:
//
//   model-00001-of-00003.safetensors ...   tensors in the order of their names, as many as fit
//   model.safetensors.index.json           {"metadata": {"total_size": bytes of all tensors},
//                                           "weight_map": {tensor: file}}
//
// What fits into one file is model.safetensors, without an index. Sizes are those of tensors, without
// headers; a tensor above the limit has a file of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/files/output_file.h"
#include "formats/safetensors/safetensors.h"

namespace crumb {

inline constexpr std::string_view kSafetensorsIndex = "model.safetensors.index.json";

struct Shard {
  std::string file;
  std::vector<TensorDescription> tensors;  ///< in the order of the file
};

struct ShardPlan {
  std::vector<Shard> shards;  ///< at least one
  std::uint64_t tensor_bytes = 0;

  bool has_index() const { return shards.size() > 1; }
  /// The names of all files, the index last.
  std::vector<std::string> files() const;
};

/// Throws crumb::Error on names and shapes that safetensors cannot hold. Precondition: shard_bytes > 0.
ShardPlan plan_shards(std::vector<TensorDescription> tensors, std::uint64_t shard_bytes);

/// Writes the files of a plan into a folder, one after the other, and the index last, so that what an
/// interrupted run leaves behind is never taken for a whole model. Every failure throws crumb::Error.
///
/// The folder is made where it is missing. One that holds other safetensors files or another index is
/// refused: old and new files would be mixed. Files of the plan's own names are replaced; the old index goes
/// before the first of them. While the object lives, a second run into the folder is refused. Destruction
/// without commit() removes the files that were written.
class ShardedSafetensorsWriter {
 public:
  ShardedSafetensorsWriter(const std::filesystem::path& folder, ShardPlan plan,
                           const std::map<std::string, std::string>& metadata = {});
  ShardedSafetensorsWriter(const ShardedSafetensorsWriter&) = delete;
  ShardedSafetensorsWriter& operator=(const ShardedSafetensorsWriter&) = delete;
  ~ShardedSafetensorsWriter();

  /// The order in which bytes are expected: shard by shard.
  const std::vector<TensorDescription>& tensors() const { return tensors_; }

  /// As SafetensorsWriter::write.
  void write(std::string_view name, std::span<const std::byte> chunk);

  /// The remaining files, then the index. Refused while bytes are missing.
  void commit();

 private:
  void refuse_other_files() const;
  void finish_shard();
  std::string index_json() const;

  std::filesystem::path folder_;
  ShardPlan plan_;
  std::map<std::string, std::string> metadata_;
  bool made_folder_ = false;
  bool committed_ = false;
  std::vector<TensorDescription> tensors_;
  std::unordered_map<std::string, std::size_t> shard_of_;
  std::optional<OutputFile> index_;  ///< held from the start: its lock stands for the whole folder
  std::optional<SafetensorsWriter> shard_;
  std::size_t current_ = 0;  ///< the shard that is being written; those before are complete
};

}  // namespace crumb
