// What a recipe says of pruning while training: what share of the weights becomes zero, whether magnitudes
// are compared over all layers or within each, and in how many steps.
//
// As text: SHARE[:global|layer][:steps=N][:rewind][:floor=SHARE], as in 0.8, 0.8:layer or
// 0.95:global:steps=8:floor=0.02; none takes a goal back. In YAML also as a map:
// {share: 0.8, scope: layer, steps: 8}.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace crumb {

/// The weights of least magnitude become zeros, a few more at every step of a schedule (arXiv:2102.11289).
struct PruneGoal {
  enum class Scope {
    kGlobal,  ///< the least weights of all layers that have an equal goal
    kLayer    ///< the least weights of each layer
  };
  static constexpr int kUsualSteps = 10;
  static constexpr int kMostSteps = 1000000;

  double share = 0;  ///< of the weights, 0 <= share < 1
  Scope scope = Scope::kGlobal;
  int steps = kUsualSteps;
  bool rewind = false;  ///< remaining weights return to their first values at every step (arXiv:1803.03635)
  double floor = 0;     ///< with kGlobal: the least share of each layer's weights that stays
  bool operator==(const PruneGoal&) const = default;
};

/// Returns a goal, or nothing where the text is "none". Throws Error(kUsage).
std::optional<PruneGoal> parse_prune(std::string_view text);

/// Parse the parts of a goal. Throw Error(kUsage).
double parse_prune_share(std::string_view text);
double parse_prune_floor(std::string_view text);
int parse_prune_steps(std::string_view text);
PruneGoal::Scope parse_prune_scope(std::string_view text);
std::string_view name_of(PruneGoal::Scope scope);  ///< "global"

/// Returns decimal digits that give the same number back.
std::string share_text(double share);

/// Returns text such as "0.8:global", "0.8:layer:steps=8:rewind", "0.95:global:floor=0.02", "none".
std::string to_string(const std::optional<PruneGoal>& goal);

}  // namespace crumb
