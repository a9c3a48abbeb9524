// Which boxes NonMaxSuppression keeps, for both engines.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace crumb::graph {

struct Box {
  float top = 0, left = 0, bottom = 0, right = 0;
  float area() const { return (bottom - top) * (right - left); }
};

/// Of four numbers: two corners, or (`centered`) the center, width and height.
Box box_of(const float* numbers, bool centered);

/// The boxes of one class that stay, best scores first, at most `most`: of those that share more than
/// `threshold` of their union the best alone; only those above `least_score`, where there is one. Of equal
/// scores the first is better; a score that is NaN is none. Precondition: a score for each box.
std::vector<std::int64_t> kept_boxes(std::span<const Box> boxes, const float* scores, std::int64_t most,
                                     float threshold, std::optional<float> least_score);

}  // namespace crumb::graph
