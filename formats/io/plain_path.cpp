#include "formats/io/plain_path.h"

#include <algorithm>

namespace crumb {

std::optional<std::string> plain_path(std::string_view location) {
  constexpr std::size_t kLongest = 65536;
  if (location.empty() || location.size() > kLongest || location.front() == '/' || location.back() == '/' ||
      location.find('\0') != std::string_view::npos)
    return std::nullopt;
  std::string path;
  while (!location.empty()) {
    const std::string_view part = location.substr(0, location.find('/'));
    location.remove_prefix(std::min(location.size(), part.size() + 1));
    if (part == "..") return std::nullopt;
    if (!part.empty() && part != ".") path += (path.empty() ? "" : "/") + std::string(part);
  }
  return path.empty() ? std::nullopt : std::optional(path);
}

}  // namespace crumb
