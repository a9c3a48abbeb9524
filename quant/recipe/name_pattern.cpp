#include "quant/recipe/name_pattern.h"

#include <fnmatch.h>

#include <algorithm>

#include "base/error.h"
#include "base/files/text.h"

namespace crumb {
namespace {

constexpr std::string_view kRegexPrefix = "re:";
constexpr std::string_view kSpecial = "*?[\\";

std::optional<std::string> literal_of(std::string_view glob) {
  std::string name;
  for (size_t i = 0; i < glob.size(); ++i) {
    if (glob[i] == '\\') {
      if (++i == glob.size()) return std::nullopt;
    } else if (kSpecial.find(glob[i]) != std::string_view::npos) {
      return std::nullopt;
    }
    name += glob[i];
  }
  return name;
}

/// fnmatch reads only up to a NUL, which no pattern contains.
bool glob_matches(const std::string& glob, const std::string& text) {
  if (text.find('\0') == std::string::npos) return fnmatch(glob.c_str(), text.c_str(), 0) == 0;
  std::string visible = text;
  std::ranges::replace(visible, '\0', '\1');
  return fnmatch(glob.c_str(), visible.c_str(), 0) == 0;
}

}  // namespace

NamePattern::NamePattern(const std::string& text) : text_(text) {
  if (!is_utf8(text)) throw usage_error("the pattern " + quote_text(text) + " is not UTF-8");
  if (text.starts_with(kRegexPrefix)) {
    regex_.emplace(std::string_view(text).substr(kRegexPrefix.size()));
    return;
  }
  literal_ = literal_of(text);
  if (!literal_ && text.find('\0') != std::string::npos) {
    throw usage_error("the glob " + quote_text(text) + " holds a NUL character");
  }
}

bool NamePattern::matches(const std::string& text) const {
  if (regex_) return regex_->matches(text);
  return literal_ ? text == *literal_ : glob_matches(text_, text);
}

bool NamePattern::names(const std::string& name) const {
  return matches(name) || std::ranges::any_of(layers_of(name), [&](std::string_view layer) {
           return matches(std::string(layer));
         });
}

std::string_view layer_of(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

std::vector<std::string_view> layers_of(std::string_view name) {
  std::vector<std::string_view> layers;
  for (name = layer_of(name); !name.empty(); name = layer_of(name)) layers.push_back(name);
  return layers;
}

std::string escape_glob(std::string_view name) {
  std::string glob;
  for (const char c : name) {
    if (kSpecial.find(c) != std::string_view::npos) glob += '\\';
    glob += c;
  }
  return glob.starts_with(kRegexPrefix) ? "\\" + glob : glob;
}

}  // namespace crumb
