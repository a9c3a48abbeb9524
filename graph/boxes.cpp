#include "graph/boxes.h"

#include <algorithm>
#include <cmath>

namespace crumb::graph {

Box box_of(const float* at, bool centered) {
  if (centered) {
    const float half_width = at[2] / 2, half_height = at[3] / 2;
    return {at[1] - half_height, at[0] - half_width, at[1] + half_height, at[0] + half_width};
  }
  return {std::min(at[0], at[2]), std::min(at[1], at[3]), std::max(at[0], at[2]), std::max(at[1], at[3])};
}

namespace {

bool overlap(const Box& a, const Box& b, float threshold) {
  const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const float width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (!(height > 0) || !(width > 0) || a.area() <= 0 || b.area() <= 0) return false;
  const float both = height * width, either = a.area() + b.area() - both;
  return either > 0 && both / either > threshold;
}

}  // namespace

std::vector<std::int64_t> kept_boxes(std::span<const Box> boxes, const float* scores, std::int64_t most,
                                     float threshold, std::optional<float> least_score) {
  std::vector<std::int64_t> candidates, kept;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (least_score ? scores[i] > *least_score : !std::isnan(scores[i])) {
      candidates.push_back(static_cast<std::int64_t>(i));
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](std::int64_t a, std::int64_t b) { return scores[a] > scores[b]; });
  for (const std::int64_t candidate : candidates) {
    if (static_cast<std::int64_t>(kept.size()) >= most) break;
    const auto hides = [&](std::int64_t other) {
      return overlap(boxes[static_cast<std::size_t>(candidate)], boxes[static_cast<std::size_t>(other)],
                     threshold);
    };
    if (std::none_of(kept.begin(), kept.end(), hides)) kept.push_back(candidate);
  }
  return kept;
}

}  // namespace crumb::graph
