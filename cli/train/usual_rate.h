// How fast a language model or a sentence encoder learns where nobody says it.
#pragma once

#include "tasks/language/language_trainer.h"

namespace crumb::cli {

/// The highest learning rate of networks in floats, from scratch or going on, and of scales alone.
inline constexpr double kFloatRate = 5e-4;

/// That of a network that trains with its quantizers. Weights have to move by about as much as rounding moves them, and a rate that
/// suits two bits undoes more than it mends at four. So the rate is in proportion to rounding's error, relative to the weights (root
/// mean squares; `lost` is its square, the mean of all matrices'), lower behind codes that were found before
/// (LanguageRequest::start), and kFloatRate at most; two digits of it.
struct UsualRate {
  double rate = kFloatRate;
  double lost = 0;  ///< of the weights' squares, a share; 0 where nothing is rounded, or it does not matter
};
UsualRate usual_rate(const tasks::LanguageRequest& request);

}  // namespace crumb::cli
