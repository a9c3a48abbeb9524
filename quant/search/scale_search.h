// Finds the scale and zero point of one block: the values of a tensor that share them.
//
//   absmax      ideal = max|x| / largest value of the grid. With a zero point: (max - min) / (hi - lo), where
//               the range is widened to include 0, and z = lo - min / s. With zero=min: the same quotient
//               without the widening, and min itself; a block of one value gets scale 0
//   percentile  the same with the value at 1-based sorted position floor(P/100 * n + 0.5) of |x| instead of
//               the maximum; with a zero point, positions of P and 100 - P of x. Where that is 0, the maximum
//   mse         the best of 36 factors 0.30, 0.32, ..., 1.00 of the absmax ideal, by the squared error of the
//               values as stored, ties to the larger factor. Where scales are powers of two (e8m0), the
//               nearest to the absmax ideal may clip a third of the range: the least that clips nothing is
//               tried as well. With zero=min the range shrinks around its middle
//   lsq         alternating least squares: codes for s, then s = sum(x v) / sum(v^2) over the codes' values
//               v, until the codes stay; kept when better than absmax
//   hqo         half-quadratic splitting (HQQ): s = median((x - shrink(x - x_q)) / v) with
//               shrink(e) = sign(e) max(|e| - |e|^(p-1) / beta, 0), p = 0.7, beta = 1e5 growing by 1.01; with
//               a zero point, z = mean(q - (x - shrink(x - x_q)) / s) with p = 0.5, beta = 1. At most 1000
//               steps: scales until the mean |error| of the block grows by more than 1e-6 of the least one
//               (the peer stops all blocks together), zero points until it no longer falls. Scales are
//               float32 on the way, stored at the end
//
// Block formats replace the absmax ideal by their own rule (formats/number/block_format.h). The ideal is
// rounded once, half to even, to the scale format; what it cannot hold saturates. An all-zero block gets
// scale 0.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "quant/code_grid.h"
#include "quant/loops/loops.h"
#include "quant/quant_spec.h"
#include "quant/value_stream.h"

namespace crumb {

/// A block: `rows` runs of `cols` contiguous values, `stride` apart. `index` is the first value's index in
/// the tensor. Or, with a stream, all of a tensor that is one block, read `slice` values at a time.
struct BlockValues {
  const float* data;
  uint64_t rows;
  uint64_t cols;
  uint64_t stride;
  uint64_t index;
  ValueStream* stream = nullptr;
  uint64_t slice = 0;
};

/// A block's scale and zero point, as stored and as used.
struct BlockFit {
  uint32_t scale_pattern = 0;
  uint32_t zero_pattern = 0;  ///< a code's pattern or a float's, as the encoding's zero point kind says
  float scale = 0;            ///< effective; 0 for an all-zero block
  float zero = 0;             ///< the zero point, or the minimum
  bool saturated = false;
  bool finite = true;  ///< false: the block holds an inf or NaN, and nothing else is set
};

class ScaleSearch {
 public:
  /// `grid` must outlive the search. tensor_absmax: for block formats with a tensor scale. threads: for
  /// blocks that come as a stream (0: those the machine has); never changes a result.
  ScaleSearch(const QuantSpec& spec, const CodeGrid& grid, float tensor_absmax = 0, int threads = 0);

  /// NVFP4's tensor scale g; 1 for the others.
  float tensor_scale() const { return tensor_scale_; }

  BlockFit fit(const BlockValues& block) const;

  /// How scales follow from largest magnitudes, where nothing else is asked of a block (absmax without a zero
  /// point, no learned codebook): Loops::block_scales() then gives what fit() does, many blocks at a time.
  std::optional<ScaleRule> absmax_rule() const;

  /// Returns the effective scale that a stored pattern stands for.
  float effective(uint32_t scale_pattern) const {
    return decode_scale(spec_.scale, scale_pattern) * multiplier_ * tensor_scale_;
  }

 private:
  struct Extent {
    float low = 0, high = 0;  ///< with a zero point: the range that the codes must reach, 0 included
    float most = 0;           ///< without: the magnitude that they must reach
  };
  void set_factors(float tensor_absmax);
  Extent extent(const BlockValues& block, float absmax) const;
  float ideal_scale(const Extent& extent) const;
  BlockFit store(float ideal, const Extent& extent) const;
  void set_zero(BlockFit& fit, float ideal_zero) const;
  float mse_candidate(float ideal, size_t i) const;
  double error(const BlockValues& block, const BlockFit& fit, float unit) const;
  double stream_error(const BlockValues& block, const BlockFit& fit, float unit) const;
  struct Candidates;
  void find_candidates(const Extent& extent, float most, float unit, Candidates& found) const;
  size_t best_of(const Candidates& candidates, const BlockValues& block, std::span<const float> extremes,
                 float unit) const;
  BlockFit search_mse(const BlockValues& block, const Extent& extent, float unit) const;
  BlockFit search_mse_with_minimum(const BlockValues& block, const Extent& extent, float unit) const;
  BlockFit search_mse_in_stream(const BlockValues& block, const Extent& extent, float unit) const;
  BlockFit search_lsq(const BlockValues& block, const BlockFit& start, float unit) const;
  BlockFit search_hqo_scale(const BlockValues& block, const BlockFit& start) const;
  BlockFit search_hqo_zero(const BlockValues& block, const BlockFit& start) const;
  BlockFit with_scale(float scale, const BlockFit& zero_of) const;

  const QuantSpec& spec_;
  const CodeGrid& grid_;
  float multiplier_ = 1;  ///< effective scale = stored scale * multiplier * tensor scale
  float tensor_scale_ = 1;
  float largest_;
  ScaleRule rule_;  ///< how ideals are stored
  int threads_;
};

}  // namespace crumb
