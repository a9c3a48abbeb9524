// adapter_config.json, inside formats/adapters.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace crumb {

/// Numbers for some modules, by patterns of their names (rank_pattern, alpha_pattern).
class PeftPatterns {
 public:
  static constexpr std::size_t kMost = 4096;

  /// A Failure where the key occurred before, or is no regular expression that Crumb reads.
  Status add(std::string_view key, double number);

  /// The number of each module as PEFT finds it, else `otherwise`. One pattern is held compiled at a time.
  std::vector<double> find(std::span<const std::string> modules, double otherwise) const;

 private:
  std::vector<std::pair<std::string, double>> entries_;  ///< in the file's order
};

struct PeftConfig {
  std::string base_model;
  double rank = 8;
  double alpha = 8;
  bool rank_stabilized = false;
  PeftPatterns ranks, alphas;
};

/// A Failure says which field has which value, and what is expected: for anything but plain LoRA, and for
/// unknown fields that are set. `with_copies`: also modules that are saved whole and biases, whose tensors
/// have to be checked.
Result<PeftConfig> parse_peft_config(std::string_view text, bool with_copies = false);

}  // namespace crumb
