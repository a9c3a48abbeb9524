#include "cli/flags/shape_flags.h"

#include <charconv>

#include "base/error.h"
#include "base/files/text.h"

namespace crumb::cli {
namespace {

std::vector<std::int64_t> sizes_in(std::string_view text, const std::string& wish) {
  std::vector<std::int64_t> sizes;
  while (!text.empty()) {
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    const bool more = end != text.data() + text.size();
    if (error != std::errc() || size < 0 || (more && (*end != 'x' || end + 1 == text.data() + text.size()))) {
      throw usage_error("--shape " + quote_text(wish) + ": expected NAME=SIZExSIZE, as in tokens=1x128");
    }
    sizes.push_back(size);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()) + (more ? 1 : 0));
  }
  return sizes;
}

}  // namespace

std::map<std::string, std::vector<std::int64_t>> read_shapes(const std::vector<std::string>& wishes) {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const std::string& wish : wishes) {
    const std::size_t equals = wish.rfind('=');  // a name may contain '='
    if (equals == std::string::npos || equals == 0) {
      throw usage_error("--shape " + quote_text(wish) + ": expected NAME=SIZExSIZE, as in tokens=1x128");
    }
    const std::string name = wish.substr(0, equals);
    if (!shapes.emplace(name, sizes_in(std::string_view(wish).substr(equals + 1), wish)).second) {
      throw usage_error("--shape gives " + quote_text(name) + " twice");
    }
  }
  return shapes;
}

}  // namespace crumb::cli
