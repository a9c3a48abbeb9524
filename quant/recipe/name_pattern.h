// Patterns for names of tensors.
//
//   GLOB      POSIX fnmatch: * stands for any characters, dots among them, ? for one, [abc] for one of several;
//             a backslash takes the next character as it is
//   re:REGEX  a regular expression that matches the whole name (base/text/name_regex.h)
//
// A name matches as a whole, or by its layer: the name without its last component ("lm_head" for
// "lm_head.weight"). A name without a dot has no layer.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/text/name_regex.h"

namespace crumb {

class NamePattern {
 public:
  /// Throws Error(kUsage): a bad regular expression; a pattern that is not UTF-8.
  explicit NamePattern(const std::string& text);

  /// The name that a glob without wildcards stands for.
  const std::optional<std::string>& literal() const { return literal_; }

  /// Whether the pattern matches this text as a whole; names and layers alike.
  bool matches(const std::string& text) const;

 private:
  std::string text_;
  std::optional<std::string> literal_;
  std::optional<NameRegex> regex_;
};

/// The layer that owns a tensor; empty where there is none.
std::string_view layer_of(std::string_view name);

/// The glob without wildcards that stands for this name.
std::string escape_glob(std::string_view name);

}  // namespace crumb
