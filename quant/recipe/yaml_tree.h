// YAML as a small tree of scalars, lists and maps with line numbers: as much as recipes need, with limits.
//
// Refused, with the line: more than kMaxYamlDepth levels, anchors and aliases, tags, several documents, tabs
// that indent, control characters, bytes that are not UTF-8, keys that are not scalars.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace crumb {

inline constexpr size_t kMaxYamlDepth = 16;

struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  size_t line = 0;              ///< from 1
  std::string text;             ///< of a scalar
  std::vector<YamlNode> keys;   ///< of a map: scalars, in the order of the file, possibly repeated
  std::vector<YamlNode> items;  ///< of a list, or the values of a map

  /// Describes the node for messages: "'int4'", "a list", "a map", "nothing".
  std::string describe() const;
};

/// Throws only Error(kUsage), whose message begins with origin. An empty document is kNull.
YamlNode parse_yaml(std::string_view text, const std::string& origin, size_t max_bytes);

/// Returns the file and line for messages: "'mine.yaml' line 7".
std::string yaml_place(const std::string& origin, size_t line);

}  // namespace crumb
