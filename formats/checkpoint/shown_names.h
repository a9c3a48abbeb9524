// Names for messages: the first dozen of them.
#pragma once

#include <string>
#include <vector>

namespace crumb {

/// Returns "a, b, c and 4 more".
inline std::string shown_names(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 12;
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kShown; ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kShown) text += " and " + std::to_string(names.size() - kShown) + " more";
  return text;
}

}  // namespace crumb
