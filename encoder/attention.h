// Scaled dot-product attention of several heads, every position seeing every other (Vaswani et al. 2017, eq.
// 1).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace crumb::encoder {

/// Memory that attend() keeps between calls.
struct AttentionScratch {
  std::vector<float> scores;
  std::vector<float> values;
};

/// One sentence: q, k, v and out are [length, width] with the heads side by side in a row.
void attend(std::span<const float> q, std::span<const float> k, std::span<const float> v, size_t width,
            size_t heads, std::span<float> out, AttentionScratch& scratch);

}  // namespace crumb::encoder
