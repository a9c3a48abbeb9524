// Patterns for the names of tensors.
//
//   GLOB      POSIX fnmatch: * stands for any characters, dots among them, ? for one, [abc] for one of
//             several; a backslash takes the next character as it is
//   re:REGEX  a regular expression that matches the whole name (base/text/name_regex.h)
//
// A pattern matches the whole name, or one of the name's layers: what stands before one of its dots.
// "encoder.layer.0.query.weight" belongs to the layers "encoder.layer.0.query", "encoder.layer.0",
// "encoder.layer" and "encoder"; a name without a dot belongs to none.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/name_regex.h"

namespace crumb {

class NamePattern {
 public:
  /// Throws Error(kUsage) for a bad regular expression and for a pattern that is not UTF-8.
  explicit NamePattern(const std::string& text);

  /// Returns the name that a glob without wildcards stands for; nothing for other patterns.
  const std::optional<std::string>& literal() const { return literal_; }

  /// Whether the pattern matches the whole text, be it a name or a layer.
  bool matches(const std::string& text) const;

  /// Whether the pattern matches the name or one of its layers.
  bool names(const std::string& name) const;

 private:
  std::string text_;
  std::optional<std::string> literal_;
  std::optional<NameRegex> regex_;
};

/// Returns the innermost layer that a tensor belongs to; empty where there is none.
std::string_view layer_of(std::string_view name);

/// Returns all layers that a tensor belongs to, from the innermost.
std::vector<std::string_view> layers_of(std::string_view name);

/// Returns the glob without wildcards that stands for this name.
std::string escape_glob(std::string_view name);

}  // namespace crumb
