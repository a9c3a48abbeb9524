#include "formats/onnx/external_data.h"

#include <algorithm>
#include <optional>

#include "base/checked_size.h"
#include "base/files/text.h"
#include "base/text/number.h"

namespace crumb {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestPath = 65536;

Failure outside(std::string_view location) {
  return Failure{"its data are at " + quote_text(location) +
                 ", expected a path to a file inside the model's folder"};
}

/// Whether a system whose paths have drives and backslashes would leave the folder.
bool leaves_elsewhere(std::string_view location) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (location.front() == '\\') return true;
  if (location.size() > 2 && is_letter(location[0]) && location[1] == ':' &&
      (location[2] == '\\' || location[2] == '/'))
    return true;
  for (std::size_t begin = 0; begin <= location.size();) {
    const std::size_t end = std::min(location.find_first_of("/\\", begin), location.size());
    if (location.substr(begin, end - begin) == "..") return true;
    begin = end + 1;
  }
  return false;
}

/// A relative path without its "." parts and doubled slashes; nothing where it is none, or names no file.
std::optional<std::string> plain_path(std::string_view location) {
  if (location.empty() || location.size() > kLongestPath || location.front() == '/' ||
      location.back() == '/' || location.find('\0') != std::string_view::npos || leaves_elsewhere(location))
    return std::nullopt;
  std::string path;
  while (!location.empty()) {
    const std::string_view part = location.substr(0, location.find('/'));
    location.remove_prefix(std::min(location.size(), part.size() + 1));
    if (!part.empty() && part != ".") path += (path.empty() ? "" : "/") + std::string(part);
  }
  return path.empty() ? std::nullopt : std::optional(path);
}

bool lies_in(const fs::path& file, const fs::path& folder) {
  const fs::path relative = file.lexically_relative(folder);
  return !relative.empty() && *relative.begin() != ".." && relative != ".";
}

}  // namespace

Result<OnnxExternalPlace> place_onnx_external(std::span<const OnnxExternalEntry> entries,
                                              std::uint64_t bytes) {
  std::optional<std::string_view> location, offset, length;
  for (const OnnxExternalEntry& entry : entries) {
    auto* known = entry.key == "location" ? &location
                  : entry.key == "offset" ? &offset
                  : entry.key == "length" ? &length
                                          : nullptr;
    if (known == nullptr) continue;
    if (*known) return Failure{"external_data has two entries " + quote_text(entry.key)};
    *known = entry.value;
  }
  if (!location) return Failure{"its data are external, but no location says where"};
  const std::optional<std::string> path = plain_path(*location);
  if (!path) return outside(*location);
  OnnxExternalPlace place{*path, 0};
  if (offset) {
    const std::optional<std::uint64_t> begin = parse_number<std::uint64_t>(*offset);
    // Files end before 2^63.
    if (!begin || !checked::narrow<std::int64_t>(checked::add(*begin, bytes)))
      return Failure{"its external offset is " + quote_text(*offset) +
                     ", expected a number of bytes in a file"};
    place.offset = *begin;
  }
  if (length && parse_number<std::uint64_t>(*length) != bytes)
    return Failure{"its external length is " + quote_text(*length) + ", expected " + std::to_string(bytes)};
  return place;
}

OnnxDataFolder OnnxDataFolder::of_model(const fs::path& model) {
  OnnxDataFolder made = at(model.has_parent_path() ? model.parent_path() : fs::path("."));
  std::error_code error;
  const fs::path real = fs::canonical(model, error);
  if (!error) made.file_folder_ = real.parent_path();
  return made;
}

OnnxDataFolder OnnxDataFolder::at(const fs::path& folder) {
  OnnxDataFolder made;
  made.folder_ = folder;
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  if (!error) made.real_folder_ = made.file_folder_ = real;
  return made;
}

OnnxDataFolder OnnxDataFolder::with(const std::string& name, const fs::path& file) const {
  OnnxDataFolder made = *this;
  made.opened_ = std::make_shared<std::map<std::string, std::shared_ptr<const InputFile>>>(*opened_);
  (*made.opened_)[name] = std::make_shared<const InputFile>(InputFile::open(file).take());
  return made;
}

Result<fs::path> OnnxDataFolder::find(const OnnxExternalPlace& place) const {
  if (folder_.empty())
    return Failure{"its external data are at " + quote_text(place.path) +
                   ", expected data in the model itself"};
  const fs::path path = folder_ / place.path;
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error)
    return Failure{"its external data: cannot read " + quote_text(path.native()) + ": " + error.message()};
  if (!lies_in(real, real_folder_) && !lies_in(real, file_folder_)) return outside(place.path);
  return path;
}

Result<std::shared_ptr<const InputFile>> OnnxDataFolder::open(const OnnxExternalPlace& place) const {
  const auto found = opened_->find(place.path);
  if (found != opened_->end()) return found->second;
  Result<fs::path> path = find(place);
  if (!path.ok()) return path.failure();
  Result<InputFile> file = InputFile::open(path.value());
  if (!file.ok()) return Failure{"its external data: " + file.failure().message};
  return opened_->emplace(place.path, std::make_shared<const InputFile>(file.take())).first->second;
}

Status check_onnx_external(const OnnxExternalPlace& place, std::uint64_t bytes, std::uint64_t size) {
  if (checked::fits(place.offset, bytes, size)) return {};
  return Failure{"its data are " + byte_text(bytes) + " from byte " + std::to_string(place.offset) +
                 " on in " + quote_text(place.path) + ", but that file holds " + byte_text(size)};
}

}  // namespace crumb
