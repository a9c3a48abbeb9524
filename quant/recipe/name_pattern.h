// Patterns for names of tensors.
//
//   GLOB      POSIX fnmatch: * stands for any characters, dots among them, ? for one, [abc] for one of several;
//             a backslash takes the next character as it is
//   re:REGEX  a regular expression that matches the whole name (base/text/name_regex.h)
//
// A name matches as a whole, or by one of its layers: what stands before a dot of it.
// "encoder.layer.0.query.weight" is of the layers "encoder.layer.0.query", "encoder.layer.0", "encoder.layer"
// and "encoder"; a name without a dot is of none.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

  /// Whether it matches the name or one of its layers.
  bool names(const std::string& name) const;

 private:
  std::string text_;
  std::optional<std::string> literal_;
  std::optional<NameRegex> regex_;
};

/// The layer that owns a tensor, the innermost; empty where there is none.
std::string_view layer_of(std::string_view name);

/// All layers that a tensor is of, from the innermost.
std::vector<std::string_view> layers_of(std::string_view name);

/// The glob without wildcards that stands for this name.
std::string escape_glob(std::string_view name);

}  // namespace crumb
