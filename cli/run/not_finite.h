// What verbs that run networks print about values that are NaN or infinite and reach quantizers
// (graph/not_finite.h).
#pragma once

#include <CLI/CLI.hpp>
#include <optional>

#include "cli/flags/flag_group.h"
#include "cli/notes.h"
#include "cli/output.h"
#include "graph/not_finite.h"

namespace crumb::cli {

inline void add_strict_flag(CLI::App& verb, bool& strict) {
  verb.add_flag("--strict", strict,
                "Values that are NaN or infinite and come to a quantizer are an error, not a note")
      ->group(kRunningFlags);
}

/// Notes what was found; says nothing where all values were finite.
inline void note_not_finite(const std::optional<graph::NotFinite>& found, Notes& notes) {
  if (found) notes.say(graph::text_of(*found));
}

/// Returns {"node", "count"}, or null.
inline Json not_finite_json(const std::optional<graph::NotFinite>& found) {
  if (!found) return nullptr;
  return {{"node", found->node}, {"count", found->count}};
}

}  // namespace crumb::cli
