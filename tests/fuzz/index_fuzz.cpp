// A checkpoint folder's JSON, parted by the byte 1E in the order of kFiles, beside shards that stay: what opens
// has every tensor of the index in the shard that it names.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/json/bounded_json.h"
#include "formats/checkpoint/checkpoint.h"
#include "formats/checkpoint/shard_index.h"
#include "formats/safetensors/safetensors.h"
#include "tests/fuzz/fuzz.h"

namespace crumb::testing {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 3> kFiles = {"model.safetensors.index.json", "config.json", "modules.json"};
constexpr char kSeparator = '\x1E';

void write_file(const fs::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
}

/// A temporary folder with three shards: a, b; c; and, in a folder of their own, a again and d.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "crumb_fuzz_XXXXXX").string();
    require(mkdtemp(name.data()) != nullptr, "a temporary folder can be made");
    path = name;
    fs::create_directory(path / "sub");
    write_shard("one.safetensors", {{"a", DType::kF32, {2}}, {"b", DType::kI8, {3}}});
    write_shard("two.safetensors", {{"c.weight", DType::kF16, {2, 2}}});
    write_shard("sub/three.safetensors", {{"a", DType::kF32, {2}}, {"d", DType::kF32, {}}});
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }

  fs::path path;

 private:
  void write_shard(const char* name, const std::vector<TensorDescription>& tensors) const {
    std::string file = safetensors_header(tensors);
    for (const TensorDescription& tensor : tensors)
      file.resize(file.size() + tensor_byte_size(tensor.dtype, tensor.shape).take());
    write_file(path / name, file);
  }
};

void check_opened(const Checkpoint& checkpoint, std::string_view index) {
  require(std::ranges::is_sorted(checkpoint.tensors(), std::less_equal<>(), &TensorEntry::name),
          "tensors are sorted and unique");
  for (const TensorEntry& tensor : checkpoint.tensors()) {
    require(checkpoint.find(tensor.name) == &tensor, "a tensor is found by its name");
    const auto bytes = require_ok(checkpoint.load(tensor), "a tensor is read");
    require(bytes.size() == tensor.bytes, "a tensor has its size");
  }
  for (const ModelFile& file : checkpoint.files())
    require(checkpoint.find_file(file.path) == &file, "a file is found by its path");
  const nlohmann::json parsed =
      require_ok(parse_bounded_json(bytes_of(index)), "an index that opens is JSON");
  for (const auto& [name, file] : parsed.at("weight_map").items()) {
    const TensorEntry* tensor = checkpoint.find(name);
    require(tensor != nullptr, "a tensor of the index is there");
    const fs::path& path = checkpoint.tensor_files().at(tensor->input).path();
    require(path.native().ends_with("/" + file.get<std::string>()), "a tensor lies where the index says");
  }
}

}  // namespace

void fuzz(std::span<const std::byte> input) {
  static const Folder folder;
  std::string_view rest = text_of(input);
  const std::string_view index = rest.substr(0, rest.find(kSeparator));
  // Files cost a hundred times what parsing does: only for an index that could open.
  const auto placed = parse_shard_index(bytes_of(index));
  if (!is_ok(placed)) return;
  for (const auto& [tensor, file] : placed.value())
    require(is_inside_path(file), "a shard lies inside the folder");
  if (!std::ranges::all_of(placed.value(), [&](const auto& entry) {
        std::error_code ignored;
        return fs::exists(folder.path / entry.second, ignored);
      }))
    return;
  for (const char* name : kFiles) {
    const std::size_t end = std::min(rest.find(kSeparator), rest.size());
    std::error_code ignored;
    // The index is always there: without it the folder is another kind of checkpoint.
    if (end > 0 || name == kFiles.front())
      write_file(folder.path / name, rest.substr(0, end));
    else
      fs::remove(folder.path / name, ignored);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const Result<Checkpoint> checkpoint = Checkpoint::open(folder.path, {.refuse_quantized = false});
  if (is_ok(checkpoint)) check_opened(checkpoint.value(), index);
}

}  // namespace crumb::testing
