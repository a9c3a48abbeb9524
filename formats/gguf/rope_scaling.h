// Llama 3's scaling of rotary frequencies, found again from the factors that GGUF keeps instead of its parameters.
//
// Frequency i of a head of d elements is f_i = theta^(-2i/d), its wavelength w_i = 2 pi / f_i. With a context C of the
// first training, Llama 3 divides f_i by
//   1                                where w_i < C / high
//   factor                           where w_i > C / low
//   1 / ((1 - s) / factor + s)       else, with s = (C / w_i - low) / (high - low)
// GGUF's tensor rope_freqs.weight holds these divisors. They depend on C / low and C / high alone, so that C is taken
// to be 8192, as every published model has it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace crumb {

struct Llama3Scaling {
  double factor = 1;
  double low = 1;                ///< low_freq_factor
  double high = 4;               ///< high_freq_factor
  std::uint64_t context = 8192;  ///< original_max_position_embeddings
};

/// The divisors of d/2 = `count` frequencies.
std::vector<double> llama3_factors(const Llama3Scaling& scaling, double theta, std::size_t count);

/// The parameters whose divisors are these, to within rounding; nothing where there are none.
std::optional<Llama3Scaling> find_llama3_scaling(std::span<const float> factors, double theta);

}  // namespace crumb
