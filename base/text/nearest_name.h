// Finds the nearest valid name for a typo, for messages: "unknown format 'imt4', did you mean 'int4'?".
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace crumb {

/// Returns the Levenshtein distance in bytes.
inline size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> distances(b.size() + 1);  // from the part of a so far to b's first 0, 1, 2, ... bytes
  size_t* const row = distances.data();
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (const char c : a) {
    size_t diagonal = row[0]++;
    size_t* next = row + 1;
    for (const char d : b) {
      const size_t change = diagonal + (c != d ? 1 : 0);
      diagonal = *next;
      *next = std::min(change, std::min(next[-1], diagonal) + 1);
      ++next;
    }
  }
  return row[b.size()];
}

/// Returns the candidate with the least edit distance (the first of equals); empty when there are no
/// candidates.
template <class Names>
std::string nearest_name(std::string_view name, const Names& candidates) {
  std::string best;
  size_t least = SIZE_MAX;
  name = name.substr(0, 64);
  for (const std::string_view candidate : candidates) {
    const auto [shorter, longer] = std::minmax({name.size(), candidate.size()});
    if (longer - shorter >= least) continue;  // the distance is at least this
    const size_t distance = edit_distance(name, candidate);
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

/// Returns "unknown WHAT 'NAME', did you mean 'NEAREST'?"
template <class Names>
std::string unknown_name(std::string_view what, std::string_view name, const Names& candidates) {
  return "unknown " + std::string(what) + " '" + std::string(name) + "', did you mean '" +
         nearest_name(name, candidates) + "'?";
}

}  // namespace crumb
