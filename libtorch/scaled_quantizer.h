// Fake quantization with scales and zero points that are given (learned) instead of searched, and its
// gradients. Codes and values come from the loops of quant/, threads from LibTorch.
//
// With u = x / s + z, q the code of x and v(q) its value on the grid, y = (v(q) - z) s. The gradient treats
// rounding as the identity and clamping as what it is; the band in which nothing is clamped is that of
// pass_band.h.
//
//               dy/dx   dy/ds                    dy/dz
//   inside        1     (v(q) - z) - x / s         0        LSQ (arXiv:1902.08153), equation 3
//   outside       0     v(q) - z                  -s        v(q) is lo or hi: LSQ, and for z
//                                                           LSQ+ (arXiv:2004.09576)
//   binary      inside  v(q)                                elastic binarisation
//                                                           (ParetoQ, arXiv:2502.02631)
//
// A scale's gradient is the sum over its block; LSQ's factor 1 / sqrt(N Qp) is the caller's. A scale of 0 is
// taken as the limit s -> 0: y = 0, dy/dx = [x = 0], and dy/ds as outside, so that a learned scale can leave
// 0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libtorch/pass_band.h"
#include "quant/loops/loops.h"
#include "quant/quant_spec.h"

namespace crumb {

/// One effective scale per block, in the order of formats/number/encoding.h, and one zero point per block or
/// none.
struct BlockScales {
  std::span<const float> scales;
  std::span<const float> zeros;
};

class ScaledQuantizer {
 public:
  /// The spec gives grid, rounding and blocks; its search and scale format play no part. Keeps `scales`, not
  /// the numbers. Throws Error when the shape does not fit the spec's groups (without pad), when the scales
  /// or zero points are not one per block, finite and (scales) not negative, or where the spec says zero=none
  /// and zero points are given or the other way round. `codebook`: of a learned codebook; empty before
  /// learn().
  ScaledQuantizer(const QuantSpec& spec, std::span<const uint64_t> shape, const BlockScales& scales,
                  std::span<const float> codebook = {});
  ScaledQuantizer(const ScaledQuantizer&) = delete;
  ScaledQuantizer& operator=(const ScaledQuantizer&) = delete;

  /// The number of blocks of a tensor of this shape. Throws Error as the constructor.
  static uint64_t blocks(const QuantSpec& spec, std::span<const uint64_t> shape);

  /// Finds the codebook of x / s as quantize() does. Precondition: spec.number->learned.
  std::vector<float> learn(std::span<const float> x);

  /// out = y. Throws Error when a value is inf or NaN. `out` may be `x`.
  void values(std::span<const float> x, std::span<float> out) const;

  /// inside = dy/dx.
  void pass(std::span<const float> x, std::span<bool> inside) const;

  /// Gradients of sum(grad * y). Empty spans are not wanted; dx may be `grad`. The order of the sums is
  /// fixed: 16 float32 lanes within runs of 1024 values of a row (of the whole tensor, where it is one
  /// block), then double.
  struct Gradients {
    std::span<float> x;
    std::span<float> scales;
    std::span<float> zeros;
  };
  void gradients(std::span<const float> x, std::span<const float> grad, const Gradients& out) const;

 private:
  /// A run of at most 1024 values of one block: `strip` is the row, or the piece of a tensor that is one
  /// block.
  struct Run {
    uint64_t first, count, block, strip;
  };
  struct Strips {
    uint64_t count, length;
  };
  Strips strips() const;
  template <class Visit>
  void for_runs(const Visit& visit) const;
  FakeSums run_gradients(const Run& run, const float* x, const float* grad, float* dx) const;

  const QuantSpec spec_;
  Encoding encoding_;
  EncodedLayout layout_;
  BlockScales scales_;
  CodeGrid grid_;
  PassBand band_;
  bool fused_ = false;  ///< by the loops that do all in one pass; else step by step
};

}  // namespace crumb
