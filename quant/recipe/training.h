// What only training reads in a recipe: registers that must not overflow, and how scales of weights are
// found.
//
// As text: BITS[:METHOD][:tile=N], as in 16:a2q_plus or 16:a2q:tile=64; none takes a goal back. In YAML also
// as a map: {bits: 16, method: a2q, tile: 64}.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace crumb {

/// The register in which a layer's products are added up, and how training keeps to it.
struct AccumulatorGoal {
  enum class Method {
    kA2q,     ///< arXiv:2308.13504
    kA2qPlus  ///< arXiv:2401.10432: rows of mean zero
  };
  int bits = 0;  ///< signed, 2 to kMostAccumulatorBits
  Method method = Method::kA2qPlus;
  int tile = 0;  ///< how many products share a register (arXiv:2409.17092); 0: the whole row
  bool operator==(const AccumulatorGoal&) const = default;
};

/// Returns a goal, or nothing where the text is "none". Throws Error(kUsage).
std::optional<AccumulatorGoal> parse_accumulator(std::string_view text);

/// Parse the parts of a goal. Throw Error(kUsage).
int parse_accumulator_bits(std::string_view text);
int parse_accumulator_tile(std::string_view text);
std::string_view name_of(AccumulatorGoal::Method method);  ///< "a2q_plus"
AccumulatorGoal::Method parse_accumulator_method(std::string_view text);

/// Returns text such as "16:a2q_plus", "16:a2q:tile=64", "none".
std::string to_string(const std::optional<AccumulatorGoal>& goal);

/// How training finds the scales of weights.
enum class WeightScales {
  kLearned,     ///< "learned": parameters of their own, by gradients (LSQ, arXiv:1902.08153)
  kStatistics,  ///< "statistics": the spec's search, anew at every step
  kNorm,        ///< "weight_norm": the weights' direction and length are parameters of their own
  kMean,        ///< "mean": the mean of the weights' absolute values (BitNet b1.58, arXiv:2402.17764)
};

/// Throws Error(kUsage).
WeightScales parse_weight_scales(std::string_view text);
std::string_view name_of(WeightScales scales);

}  // namespace crumb
