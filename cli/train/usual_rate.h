// The default learning rate of a language model or a sentence encoder.
#pragma once

#include "tasks/language/language_trainer.h"

namespace crumb::cli {

/// The highest learning rate of networks in floats, whether from scratch or continued, and of scales alone.
inline constexpr double kFloatRate = 5e-4;

/// The highest learning rate of a network that trains with its quantizers. Weights have to move by about as
/// much as rounding moves them, and a rate that suits two bits undoes more than it mends at four. So the rate
/// is in proportion to rounding's error relative to the weights (root mean squares; `lost` is its square, the
/// mean over all matrices). It is lower after codes that were found earlier (LanguageRequest::start.network),
/// and at most kFloatRate; rounded to two digits.
struct UsualRate {
  double rate = kFloatRate;
  double lost = 0;  ///< share of the weights' squares; 0 where nothing is rounded, or it does not matter
};
UsualRate usual_rate(const tasks::LanguageRequest& request);

}  // namespace crumb::cli
