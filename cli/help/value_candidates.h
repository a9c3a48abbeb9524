// Completes a flag's value by the words that its help has for it ("SPEC|keep").
#pragma once

#include <string>
#include <string_view>

#include "cli/help/complete.h"

namespace crumb::cli {

/// Adds to `found` all values of one word that begin with `begun`: whole values, "int4:channel" for
/// "int4:ch".
void add_values(std::string_view word, const std::string& begun, Candidates& found);

}  // namespace crumb::cli
