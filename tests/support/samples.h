// Small things that many tests need: numbers to quantize, and a check of what a message says.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

namespace crumb::testing {

/// Normally distributed values; the same seed gives the same values.
inline std::vector<float> normal_values(size_t count, uint64_t seed, float sigma = 1) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<float> draw(0, sigma);
  std::vector<float> values(count);
  for (float& v : values) v = draw(engine);
  return values;
}

inline uint64_t elements(const std::vector<uint64_t>& shape) {
  uint64_t count = 1;
  for (const uint64_t axis : shape) count *= axis;
  return count;
}

/// Whether a message says all of these; the first that it does not say is shown with a failed check.
inline bool says(const std::string& message, std::initializer_list<const char*> parts) {
  for (const char* part : parts) {
    if (message.find(part) == std::string::npos) {
      MESSAGE(message << " does not say " << std::string(part));  // doctest prints a char* as a pointer
      return false;
    }
  }
  return true;
}

}  // namespace crumb::testing
