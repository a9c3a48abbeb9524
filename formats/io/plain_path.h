// Paths that a file names to its own neighbours.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace crumb {

/// A relative path without its "." parts; nothing where it is absolute, has a "..", names no file, holds a NUL or
/// is longer than 65536 bytes. What it names may still be a link to elsewhere.
std::optional<std::string> plain_path(std::string_view location);

}  // namespace crumb
