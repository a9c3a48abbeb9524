// How GGUF stores scaled rotary frequencies.
//
// Llama 3's scaling is found again from the factors that stand there instead of its parameters.
// GGUF's tensor rope_freqs.weight holds, for each frequency f_i = theta^(-2i/d) of a head of d elements, what
// it is divided by: 1 / ((1 - s) / factor + s) with the share s of formats/llama3_scaling.h. These depend on
// C / low and C / high alone, so that C is taken to be 8192, as every published model has it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "formats/llama3_scaling.h"

namespace crumb {

/// Tensors of divisors of the frequencies, outside of layers: Llama 3's, and phi3's for texts that are as
/// long as those it was first trained on, and for longer ones.
inline constexpr std::string_view kRopeFactors = "rope_freqs.weight",
                                  kShortRopeFactors = "rope_factors_short.weight",
                                  kLongRopeFactors = "rope_factors_long.weight";

/// The divisors of d/2 = `count` frequencies.
std::vector<double> llama3_factors(const Llama3Scaling& scaling, double theta, std::size_t count);

/// The parameters whose divisors are these, except for rounding; nothing where no parameters are.
std::optional<Llama3Scaling> find_llama3_scaling(std::span<const float> factors, double theta);

}  // namespace crumb
