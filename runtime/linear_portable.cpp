// float_product with four lanes (the vector extension of GCC and Clang), products and sums rounded apart.
#include <algorithm>
#include <cstring>

#include "runtime/linear_kernels.h"

namespace crumb::runtime {
namespace {

constexpr size_t kLanes = 4;
constexpr size_t kTileX = 2;
constexpr size_t kTileW = 4;

using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));

inline Lanes load(const float* from, size_t count) {
  Lanes lanes = {0, 0, 0, 0};
  std::memcpy(&lanes, from, count * sizeof(float));
  return lanes;
}

template <size_t M, size_t N>
void tile(const FloatProduct& p, size_t n, size_t r) {
  Lanes sums[M][N] = {};
  const auto add = [&](size_t k, size_t count) {
    Lanes w[N];
    for (size_t j = 0; j < N; ++j) w[j] = load(p.w + (r + j) * p.w_stride + k, count);
    for (size_t i = 0; i < M; ++i) {
      const Lanes x = load(p.x + (n + i) * p.x_stride + k, count);
      for (size_t j = 0; j < N; ++j) sums[i][j] += x * w[j];
    }
  };
  const size_t whole = p.cols / kLanes * kLanes;
  for (size_t k = 0; k < whole; k += kLanes) add(k, kLanes);
  if (whole < p.cols) add(whole, p.cols - whole);
  for (size_t i = 0; i < M; ++i) {
    for (size_t j = 0; j < N; ++j) {
      const Lanes& s = sums[i][j];
      p.y[(n + i) * p.y_stride + r + j] = (s[0] + s[1]) + (s[2] + s[3]);
    }
  }
}

template <size_t M>
void x_rows(const FloatProduct& p, size_t n, size_t r, size_t end) {
  for (; r + kTileW <= end; r += kTileW) tile<M, kTileW>(p, n, r);
  for (; r < end; ++r) tile<M, 1>(p, n, r);
}

}  // namespace

void float_product_portable(const FloatProduct& p) {
  const size_t step = cached_rows(p.cols, kTileW);
  for (size_t r = 0; r < p.rows; r += step) {
    const size_t end = std::min(p.rows, r + step);
    size_t n = 0;
    for (; n + kTileX <= p.batch; n += kTileX) x_rows<kTileX>(p, n, r, end);
    for (; n < p.batch; ++n) x_rows<1>(p, n, r, end);
  }
}

}  // namespace crumb::runtime
