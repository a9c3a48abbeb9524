#include "formats/checkpoint/shard_index.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/files/text.h"
#include "base/json/bounded_json.h"

namespace crumb {

using nlohmann::json;

bool is_inside_path(const std::string& name) {
  if (name.empty() || name.find('\0') != std::string::npos) return false;
  const std::filesystem::path path(name);
  if (path.is_absolute()) return false;
  return std::ranges::none_of(
      path, [](const std::filesystem::path& part) { return part.empty() || part == "." || part == ".."; });
}

Result<std::map<std::string, std::string>> parse_shard_index(std::span<const std::byte> bytes) {
  const Result<json> index = parse_bounded_json(bytes);
  if (!index.ok()) return index.failure();
  if (!index.value().is_object()) return Failure{"expected a JSON object"};
  const auto map = index.value().find("weight_map");
  if (map == index.value().end())
    return Failure{"this JSON has no 'weight_map'; expected the index of a checkpoint"};
  if (!map->is_object()) return Failure{"'weight_map' is not an object"};
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string())
      return Failure{"tensor " + quote_text(tensor) + " is not placed in a file by its name"};
    const auto& name = file.get_ref<const std::string&>();
    if (!is_inside_path(name))
      return Failure{"tensor " + quote_text(tensor) + " is placed in " + quote_text(name) +
                     ", which is not a plain path inside the folder"};
    files.emplace(tensor, name);
  }
  return files;
}

}  // namespace crumb
