// The nearest valid name for a typo, for messages: "unknown format 'imt4', did you mean 'int4'?".
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace crumb {

/// Levenshtein distance in bytes.
inline size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substitute = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substitute, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

/// The candidate with the least edit distance (the first of equals); empty when there are none.
template <class Names>
std::string nearest_name(std::string_view name, const Names& candidates) {
  std::string best;
  size_t least = SIZE_MAX;
  for (const std::string_view candidate : candidates) {
    const size_t distance = edit_distance(name.substr(0, 64), candidate);
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

/// "unknown WHAT 'NAME', did you mean 'NEAREST'?"
template <class Names>
std::string unknown_name(std::string_view what, std::string_view name, const Names& candidates) {
  return "unknown " + std::string(what) + " '" + std::string(name) + "', did you mean '" +
         nearest_name(name, candidates) + "'?";
}

}  // namespace crumb
