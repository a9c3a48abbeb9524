#include "encoder/attention.h"

#include <cmath>

#include "encoder/elementwise.h"
#include "runtime/linear_kernels.h"

namespace crumb::encoder {

void attend(std::span<const float> q, std::span<const float> k, std::span<const float> v, size_t width,
            size_t heads, std::span<float> out, AttentionScratch& scratch) {
  const size_t length = q.size() / width;
  const size_t depth = width / heads;
  const float scale = 1.0F / std::sqrt(static_cast<float>(depth));
  scratch.scores.resize(length * length);
  scratch.values.resize(depth * length);
  for (size_t head = 0; head < heads; ++head) {
    const size_t first = head * depth;
    runtime::float_product({.batch = length,
                            .rows = length,
                            .cols = depth,
                            .x = q.data() + first,
                            .x_stride = width,
                            .w = k.data() + first,
                            .w_stride = width,
                            .y = scratch.scores.data(),
                            .y_stride = length});
    softmax_rows(scratch.scores, length, scale);
    for (size_t i = 0; i < length; ++i) {
      for (size_t d = 0; d < depth; ++d) scratch.values[d * length + i] = v[i * width + first + d];
    }
    runtime::float_product({.batch = length,
                            .rows = depth,
                            .cols = length,
                            .x = scratch.scores.data(),
                            .x_stride = length,
                            .w = scratch.values.data(),
                            .w_stride = length,
                            .y = out.data() + first,
                            .y_stride = width});
  }
}

}  // namespace crumb::encoder
