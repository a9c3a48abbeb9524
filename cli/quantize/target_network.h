// crumb quantize --target for networks: chooses formats of weights and activations by bit operations,
// registers, or a graph's bits per weight.
#pragma once

#include <cstdint>
#include <string>

#include "cli/flags/recipe_flags.h"
#include "cli/flags/target_flags.h"
#include "cli/output.h"
#include "cli/quantize/quantize_graph.h"
#include "ptq/precision/mixed_precision.h"

namespace crumb::cli {

struct NetworkTarget {
  std::string input;
  RecipeFlags recipe;
  std::string sensitivity;
  GraphFlags graph;
  Wish requested;
  int threads = 0;
  std::uint64_t memory = 0;  ///< as QuantizeGraph's
};

/// Measures and chooses, with progress on stderr. Throws usage Error for flags that do not go together, and
/// as ptq::choose_formats() does.
ptq::MixedChoice choose_for_network(const NetworkTarget& request);

/// Returns the choice for the report in JSON.
Json assignment_json(const ptq::MixedChoice& choice, const std::string& target);

/// Prints how many layers have which formats, what is lost, and how much of the target is used.
void print_choice(const ptq::MixedChoice& choice, const NetworkTarget& request, const std::string& target);

}  // namespace crumb::cli
