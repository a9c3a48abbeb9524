// Llama 3's scaling of rotary frequencies: the formula, for code that applies it and code that recovers its
// parameters.
//
// With a context C of the first training, a frequency of wavelength w is kept where w < C / high, divided by
// `factor` where w > C / low, and in between moved from one to the other: a share s of it is kept and 1 - s
//   divided, with s = (C / w - low) / (high - low)
#pragma once

#include <cstdint>

namespace crumb {

struct Llama3Scaling {
  double factor = 1;
  double low = 1;                ///< low_freq_factor
  double high = 4;               ///< high_freq_factor
  std::uint64_t context = 8192;  ///< original_max_position_embeddings
};

/// The share s of a frequency of this wavelength: 0 where all of it is divided, 1 where it is kept.
/// Precondition: 0 < low < high.
inline double share_kept(const Llama3Scaling& scaling, double wavelength) {
  const auto context = static_cast<double>(scaling.context);
  if (wavelength > context / scaling.low) return 0;
  if (wavelength < context / scaling.high) return 1;
  return (context / wavelength - scaling.low) / (scaling.high - scaling.low);
}

}  // namespace crumb
