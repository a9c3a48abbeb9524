#include <algorithm>
#include <string_view>
#include <vector>

#include "base/files/text.h"
#include "formats/crumb_file/crumb_file.h"

namespace crumb {
namespace {

/// Whether a path holds a control character: U+0000 to U+001F, U+007F to U+009F.
bool has_control(std::string_view path) {
  for (size_t i = 0; i < path.size(); ++i) {
    const auto byte = static_cast<unsigned char>(path[i]);
    if (byte < 0x20 || byte == 0x7f) return true;
    if (byte == 0xc2 && i + 1 < path.size() && static_cast<unsigned char>(path[i + 1]) < 0xa0) return true;
  }
  return false;
}

/// What keeps a path from naming a file inside the model's folder on any system; null where nothing does.
const char* fault_of(std::string_view path) {
  if (path.empty()) return "is empty";
  if (path.find_first_of("\\:") != std::string_view::npos) return "holds a backslash or a colon";
  if (has_control(path)) return "holds a control character";
  for (std::string_view rest = path;;) {
    const std::string_view step = rest.substr(0, rest.find('/'));
    if (step.empty()) return "has an empty component, expected a relative path without one";
    if (step == "." || step == "..") return "has a component '.' or '..', expected none";
    if (step.size() == rest.size()) return nullptr;
    rest.remove_prefix(step.size() + 1);
  }
}

/// Paths in an order in which a folder stands right before what it holds.
bool comes_before(std::string_view a, std::string_view b) {
  return std::ranges::lexicographical_compare(
      a, b, {}, [](char c) { return c == '/' ? '\0' : c; }, [](char c) { return c == '/' ? '\0' : c; });
}

Status check_tensor_names(const CrumbHeader& header) {
  std::vector<std::string_view> names;
  names.reserve(header.tensors.size());
  for (const PackedTensor& tensor : header.tensors) {
    if (tensor.name.empty()) return Failure{"a tensor has an empty name"};
    if (!is_utf8(tensor.name) || !is_utf8(tensor.spec))
      return Failure{"tensor " + quote_text(tensor.name) + ": its name or spec is not UTF-8"};
    names.push_back(tensor.name);
  }
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return {};
  return Failure{"tensor " + quote_text(*twice) + " appears twice"};
}

Status check_paths(const CrumbHeader& header) {
  std::vector<std::string_view> paths;
  paths.reserve(header.files.size());
  for (const PackedFile& file : header.files) {
    const char* fault = is_utf8(file.path) ? fault_of(file.path) : "is not UTF-8";
    if (fault) return Failure{"file " + quote_text(file.path) + ": its path " + fault};
    paths.push_back(file.path);
  }
  std::ranges::sort(paths, comes_before);
  for (size_t i = 1; i < paths.size(); ++i) {
    const std::string_view before = paths[i - 1], path = paths[i];
    if (before == path) return Failure{"file " + quote_text(path) + " appears twice"};
    if (path.starts_with(before) && path[before.size()] == '/') {
      return Failure{"file " + quote_text(path) + " lies in " + quote_text(before) +
                     ", which is a file and cannot be a folder"};
    }
  }
  return {};
}

}  // namespace

Status check_crumb_names(const CrumbHeader& header) {
  if (!is_utf8(header.model)) return Failure{"the model's name is not UTF-8"};
  if (Status tensors = check_tensor_names(header); !tensors.ok()) return tensors;
  return check_paths(header);
}

}  // namespace crumb
