// crumb quantize --target for networks: formats of weights and activations, for bit operations, registers, and bits of graphs.
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
  Wish wish;
  int threads = 0;
  std::uint64_t memory = 0;  ///< QuantizeGraph's
};

/// Measures and chooses, with progress on stderr. Throws usage Error for what does not fit together, and as
/// ptq::choose_formats() does.
ptq::MixedChoice choose_for_network(const NetworkTarget& request);

/// For the report in JSON.
Json assignment_json(const ptq::MixedChoice& choice, const std::string& target);

/// Which formats how many layers have, what is lost, and what of the target is taken, for the report as text.
void print_choice(const ptq::MixedChoice& choice, const NetworkTarget& request, const std::string& target);

}  // namespace crumb::cli
