#include "formats/checkpoint/checkpoint.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace crumb {

Checkpoint::Checkpoint() = default;
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

const TensorEntry* Checkpoint::find(std::string_view name) const {
  const auto found =
      std::lower_bound(tensors_.begin(), tensors_.end(), name,
                       [](const TensorEntry& entry, std::string_view key) { return entry.name < key; });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

const ModelFile* Checkpoint::find_file(std::string_view path) const {
  const auto found =
      std::find_if(files_.begin(), files_.end(), [&](const ModelFile& file) { return file.path == path; });
  return found != files_.end() ? &*found : nullptr;
}

std::uint64_t Checkpoint::input_bytes() const {
  std::uint64_t sum = 0;
  for (const InputFile& file : tensor_files_) sum += file.size();
  return sum;
}

Result<std::vector<std::byte>> Checkpoint::load(const TensorEntry& tensor) const {
  std::vector<std::byte> bytes(tensor.bytes);
  if (const Status read = reader(tensor).read(bytes); !read.ok()) return read.failure();
  return bytes;
}

}  // namespace crumb
