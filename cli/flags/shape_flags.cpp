#include "cli/flags/shape_flags.h"

#include <charconv>

#include "base/error.h"
#include "base/files/text.h"

namespace crumb::cli {
namespace {

std::vector<std::int64_t> sizes_in(std::string_view text, const std::string& requested) {
  std::vector<std::int64_t> sizes;
  while (!text.empty()) {
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    const bool more = end != text.data() + text.size();
    if (error != std::errc() || size < 0 || (more && (*end != 'x' || end + 1 == text.data() + text.size()))) {
      throw usage_error("--shape " + quote_text(requested) + ": expected NAME=SIZExSIZE, as in tokens=1x128");
    }
    sizes.push_back(size);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()) + (more ? 1 : 0));
  }
  return sizes;
}

}  // namespace

std::map<std::string, std::vector<std::int64_t>> read_shapes(const std::vector<std::string>& requests) {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const std::string& requested : requests) {
    const std::size_t equals = requested.rfind('=');  // a name may contain '='
    if (equals == std::string::npos || equals == 0) {
      throw usage_error("--shape " + quote_text(requested) + ": expected NAME=SIZExSIZE, as in tokens=1x128");
    }
    const std::string name = requested.substr(0, equals);
    if (!shapes.emplace(name, sizes_in(std::string_view(requested).substr(equals + 1), requested)).second) {
      throw usage_error("--shape gives " + quote_text(name) + " twice");
    }
  }
  return shapes;
}

}  // namespace crumb::cli
