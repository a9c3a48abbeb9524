// A check that refuses empty values of flags: one would pass for a flag that was not given.
#pragma once

#include <string>

namespace crumb::cli {

inline std::string not_empty(const std::string& value) {
  return value.empty() ? "found nothing, expected a value" : "";
}

}  // namespace crumb::cli
