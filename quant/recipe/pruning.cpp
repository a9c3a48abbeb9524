#include "quant/recipe/pruning.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/error.h"
#include "base/files/text.h"
#include "base/text/nearest_name.h"
#include "base/text/number.h"

namespace crumb {
namespace {

constexpr std::string_view kScopeNames[] = {"global", "layer"};  // indexed by Scope
constexpr std::string_view kPruningWords[] = {"global", "layer", "steps=8", "rewind", "floor=0.02"};

/// Parses a decimal fraction: digits, a point, an exponent, at most 32 characters; no sign, no "nan".
std::optional<double> fraction_in(std::string_view text) {
  if (text.size() > 32 || text.starts_with('-') ||
      text.find_first_not_of("0123456789.e-") != std::string_view::npos)
    return {};
  return parse_number<double>(text);
}

void check_floor(const PruneGoal& goal, std::string_view text) {
  if (goal.floor == 0) return;
  if (goal.scope == PruneGoal::Scope::kLayer) {
    throw usage_error("a floor is for global magnitudes: each layer keeps its own share by layer, found " +
                      quote_text(text));
  }
  if (goal.floor + goal.share > 1 + 1e-9) {
    throw usage_error("a floor of " + share_text(goal.floor) + " of each layer leaves no share of " +
                      share_text(goal.share) + " to prune, found " + quote_text(text));
  }
}

}  // namespace

std::string share_text(double share) {
  char text[32];
  const auto [end, error] = std::to_chars(std::begin(text), std::end(text), share);
  return error == std::errc() ? std::string(text, end) : "0";
}

double parse_prune_share(std::string_view text) {
  const auto share = fraction_in(text);
  if (!share || *share >= 1) {
    throw usage_error(
        "expected the share of weights to prune, at least 0 and less than 1, as in 0.8, found " +
        quote_text(text));
  }
  return *share;
}

double parse_prune_floor(std::string_view text) {
  const auto floor = fraction_in(text);
  if (!floor || *floor > 1) {
    throw usage_error("expected the share of each layer's weights that stays, as in floor=0.02, found " +
                      quote_text(text));
  }
  return *floor;
}

int parse_prune_steps(std::string_view text) {
  const auto steps = parse_number<int>(text);
  if (!steps || *steps < 1 || *steps > PruneGoal::kMostSteps) {
    throw usage_error("expected a number of steps, 1 to " + std::to_string(PruneGoal::kMostSteps) +
                      ", as in steps=8, found " + quote_text(text));
  }
  return *steps;
}

PruneGoal::Scope parse_prune_scope(std::string_view text) {
  const auto found = std::ranges::find(kScopeNames, text);
  if (found == std::end(kScopeNames)) {
    throw usage_error("expected global or layer, found " + quote_text(text) + "; did you mean '" +
                      nearest_name(text, kScopeNames) + "'?");
  }
  return static_cast<PruneGoal::Scope>(found - std::begin(kScopeNames));
}

std::string_view name_of(PruneGoal::Scope scope) { return kScopeNames[static_cast<size_t>(scope)]; }

std::optional<PruneGoal> parse_prune(std::string_view text) {
  if (text == "none") return std::nullopt;
  PruneGoal goal;
  bool has_scope = false, has_steps = false, has_floor = false;
  const auto once = [&](bool& given, std::string_view word) {
    if (given) throw usage_error("expected " + quote_text(word) + " once, found " + quote_text(text));
    given = true;
  };
  for (size_t part = 0, begin = 0; begin <= text.size(); ++part) {
    const size_t end = std::min(text.find(':', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    begin = end + 1;
    if (part == 0) {
      goal.share = parse_prune_share(word);
    } else if (std::ranges::find(kScopeNames, word) != std::end(kScopeNames)) {
      once(has_scope, "global or layer");
      goal.scope = parse_prune_scope(word);
    } else if (word == "rewind") {
      once(goal.rewind, word);
    } else if (word.starts_with("steps=")) {
      once(has_steps, "steps");
      goal.steps = parse_prune_steps(word.substr(6));
    } else if (word.starts_with("floor=")) {
      once(has_floor, "floor");
      goal.floor = parse_prune_floor(word.substr(6));
    } else {
      throw usage_error("expected SHARE[:global|layer][:steps=N][:rewind][:floor=SHARE], found " +
                        quote_text(word) + "; did you mean '" + nearest_name(word, kPruningWords) + "'?");
    }
  }
  check_floor(goal, text);
  return goal;
}

std::string to_string(const std::optional<PruneGoal>& goal) {
  if (!goal) return "none";
  std::string text = share_text(goal->share) + ":" + std::string(name_of(goal->scope));
  if (goal->steps != PruneGoal::kUsualSteps) text += ":steps=" + std::to_string(goal->steps);
  if (goal->rewind) text += ":rewind";
  if (goal->floor > 0) text += ":floor=" + share_text(goal->floor);
  return text;
}

}  // namespace crumb
