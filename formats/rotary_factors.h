// By what queries and keys are multiplied where rotary positions are scaled and the model does not say.
#pragma once

#include <cmath>

namespace crumb {

/// YaRN (Peng et al. 2023, arXiv:2309.00071) with positions `factor` times as many; `scale`: its mscale.
inline double usual_yarn_factor(double factor, double scale = 1) {
  return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1;
}

/// longrope (Ding et al. 2024, arXiv:2402.13753) with positions `factor` times as many as the `original`
/// ones.
inline double usual_longrope_factor(double factor, double original) {
  return factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original));
}

}  // namespace crumb
