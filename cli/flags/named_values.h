// Flags that say something of one input or output: NAME=VALUE, or a VALUE that needs no name.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/text.h"
#include "base/text/nearest_name.h"

namespace crumb::cli {

/// Splits a flag's value into the name before '=', one of `names`, and what follows; without a name the first
/// is empty. A name may hold a '=', and so may a file that exists. `what`: what names stand for ("input").
/// Throws usage Error for another name.
inline std::pair<std::string, std::string> split_named(const std::string& flag, const std::string& value,
                                                       const std::vector<std::string>& names,
                                                       const std::string& what) {
  for (const std::string& name : names)
    if (value.starts_with(name + "=")) return {name, value.substr(name.size() + 1)};
  const std::size_t equals = value.find('=');
  std::error_code error;
  if (equals == std::string::npos || std::filesystem::exists(value, error)) return {"", value};
  throw usage_error(flag + " " + quote_text(value) + ": " +
                    unknown_name(what, value.substr(0, equals), names));
}

}  // namespace crumb::cli
