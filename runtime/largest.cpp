#include "runtime/largest.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace crumb::runtime {
namespace {

constexpr std::size_t kSideBySide = 16, kNumbersOfBlock = 64 * kSideBySide;
constexpr float kLeastNumber = -std::numeric_limits<float>::infinity();

/// The largest number of a block, NaN left out; odd[i] becomes 1 where lane i has a NaN.
float largest_of_block(std::span<const float> x, int (&odd)[kSideBySide]) {
  float most[kSideBySide];
  std::fill_n(most, kSideBySide, kLeastNumber);
  std::size_t k = 0;
  for (; k + kSideBySide <= x.size(); k += kSideBySide) {
    for (std::size_t i = 0; i < kSideBySide; ++i) {
      most[i] = x[k + i] > most[i] ? x[k + i] : most[i];
      odd[i] |= std::isnan(x[k + i]) ? 1 : 0;
    }
  }
  for (std::size_t i = 0; k + i < x.size(); ++i) {
    most[i] = x[k + i] > most[i] ? x[k + i] : most[i];
    odd[i] |= std::isnan(x[k + i]) ? 1 : 0;
  }
  return *std::max_element(most, most + kSideBySide);
}

}  // namespace

Largest largest_of(std::span<const float> numbers) {
  float largest = kLeastNumber;
  std::size_t block = 0;
  int odd[kSideBySide] = {};
  for (std::size_t first = 0; first < numbers.size(); first += kNumbersOfBlock) {
    const std::size_t count = std::min(kNumbersOfBlock, numbers.size() - first);
    const float found = largest_of_block(numbers.subspan(first, count), odd);
    if (found <= largest) continue;
    largest = found;
    block = first;
  }
  const auto at = std::find(numbers.begin() + static_cast<std::ptrdiff_t>(block), numbers.end(), largest);
  return {at == numbers.end() ? 0 : static_cast<std::size_t>(at - numbers.begin()),
          std::ranges::any_of(odd, [](int lane) { return lane != 0; })};
}

}  // namespace crumb::runtime
