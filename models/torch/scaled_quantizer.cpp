#include "models/torch/scaled_quantizer.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>

#include "formats/dtype.h"
#include "quant/codebook_search.h"
#include "quant/loops/loops.h"
#include "quant/parallel.h"

namespace crumb {
namespace {

constexpr uint64_t kRun = 1024;             // columns at a time, in buffers on the stack
constexpr uint64_t kPieceValues = 1 << 15;  // values a thread takes at a time

std::vector<float> codebook_or_zeros(const NumberFormat& number, std::span<const float> codebook) {
  if (!number.learned || !codebook.empty()) return {codebook.begin(), codebook.end()};
  return std::vector<float>(size_t{1} << number.bits, 0.0f);
}

std::string number_text(float number) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", static_cast<double>(number));
  return text;
}

EncodedLayout layout_of(const QuantSpec& spec, std::span<const uint64_t> shape) {
  if (const auto misfit = spec.misfit(shape)) {
    throw Error("fake_quantize: " + *misfit + "; choose another size or add ':pad'");
  }
  return encoded_layout(spec.encoding(shape), shape).take("fake_quantize");
}

void check_numbers(const char* what, std::span<const float> numbers, uint64_t blocks, bool positive,
                   const QuantSpec& spec, std::span<const uint64_t> shape) {
  if (numbers.size() != blocks) {
    throw Error("fake_quantize: " + spec.to_string() + " cuts " + shape_text(shape) + " into " +
                std::to_string(blocks) + " blocks and needs one " + what + " for each, found " +
                std::to_string(numbers.size()));
  }
  const auto bad = std::ranges::find_if(
      numbers, [&](float number) { return !std::isfinite(number) || (positive && number < 0); });
  if (bad != numbers.end()) {
    throw Error(
        "fake_quantize: the " + std::string(what) + " of block " + std::to_string(bad - numbers.begin()) +
        " is " + number_text(*bad) + ", expected a finite number" +
        (positive ? " that is not negative; keep learned scales positive after each optimizer step" : ""));
  }
}

}  // namespace

ScaledQuantizer::ScaledQuantizer(const QuantSpec& spec, std::span<const uint64_t> shape,
                                 const BlockScales& scales, std::span<const float> codebook)
    : spec_(spec),
      encoding_(spec.encoding(shape)),
      layout_(layout_of(spec, shape)),
      scales_(scales),
      grid_(make_code_grid(*spec.number, spec.range, spec.round, codebook_or_zeros(*spec.number, codebook))),
      band_(grid_) {
  check_numbers("scale", scales.scales, layout_.blocks(), true, spec, shape);
  if (spec.zero != ZeroPoint::kNone) {
    check_numbers("zero point", scales.zeros, layout_.blocks(), false, spec, shape);
  } else if (!scales.zeros.empty()) {
    throw Error("fake_quantize: zero points are given, but " + spec.to_string() +
                " has none; say zero=float or zero=int, or leave them out");
  }
}

uint64_t ScaledQuantizer::blocks(const QuantSpec& spec, std::span<const uint64_t> shape) {
  return layout_of(spec, shape).blocks();
}

/// Calls visit(first value, count, block, row) for runs of at most kRun values within a row and a block. Rows
/// are spread over threads; the runs of a row come in order.
template <class Visit>
void ScaledQuantizer::for_runs(int threads, const Visit& visit) const {
  const auto [rows, cols] = layout_.matrix;
  if (rows == 0 || cols == 0) return;
  parallel_for(rows, std::max<uint64_t>(1, kPieceValues / cols), threads,
               [&, columns = cols](size_t begin, size_t end) {
                 for (uint64_t row = begin; row < end; ++row) {
                   uint64_t block = row / encoding_.block_rows * layout_.blocks_per_row;
                   for (uint64_t col = 0; col < columns; col += encoding_.block_cols, ++block) {
                     const uint64_t stop = std::min(columns, col + encoding_.block_cols);
                     for (uint64_t i = col; i < stop; i += kRun) {
                       visit(row * columns + i, std::min(kRun, stop - i), block, row);
                     }
                   }
                 }
               });
}

std::vector<float> ScaledQuantizer::learn(std::span<const float> x, int threads) {
  std::vector<float> scaled(x.size());
  for_runs(threads, [&](uint64_t first, uint64_t count, uint64_t block, uint64_t) {
    const float s = scales_.scales[block];
    for (uint64_t i = first; i < first + count; ++i) scaled[i] = s > 0 ? x[i] / s : 0.0f;
  });
  std::vector<float> codebook = learn_codebook(scaled, spec_.number->bits);
  grid_ = make_code_grid(*spec_.number, spec_.range, spec_.round, codebook);
  band_ = PassBand(grid_);
  return codebook;
}

void ScaledQuantizer::values(std::span<const float> x, std::span<float> out, int threads) const {
  std::atomic<bool> finite{true};
  const bool has_zeros = !scales_.zeros.empty();
  for_runs(threads, [&](uint64_t first, uint64_t count, uint64_t block, uint64_t) {
    const float s = scales_.scales[block], z = has_zeros ? scales_.zeros[block] : 0.0f;
    uint8_t codes[kRun];
    if (loops().absmax_bits(x.data() + first, count) >= kInfinityBits) finite = false;
    if (s > 0) {
      loops().encode(grid_, x.data() + first, count, s, z, first, codes);
    } else {
      std::memset(codes, grid_.zero_pattern(z), count);
    }
    loops().decode(grid_, codes, count, s, z, out.data() + first);
  });
  if (!finite) throw Error("fake_quantize: the tensor holds inf or NaN; only finite values can be quantized");
}

void ScaledQuantizer::pass(std::span<const float> x, std::span<bool> inside, int threads) const {
  const bool has_zeros = !scales_.zeros.empty();
  for_runs(threads, [&](uint64_t first, uint64_t count, uint64_t block, uint64_t) {
    const float s = scales_.scales[block], z = has_zeros ? scales_.zeros[block] : 0.0f;
    band_.inside(x.data() + first, count, s, z, first, inside.data() + first);
  });
}

namespace {

/// The sum of a[i] * b[i] in 16 float32 lanes, then in double. Precondition: n is at most kRun.
double sum_of_products(const float* a, const float* b, uint64_t n) {
  constexpr uint64_t kLanes = 16;
  float lanes[kLanes] = {};
  uint64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (uint64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
  }
  for (uint64_t lane = 0; i + lane < n; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
  double sum = 0;
  for (const float lane : lanes) sum += static_cast<double>(lane);
  return sum;
}

/// Where x / s lies as s goes to 0: far beyond the grid on its side, or at 0.
float limit_ratio(float x) { return x == 0 ? 0.0f : std::copysign(0x1p126f, x); }

}  // namespace

void ScaledQuantizer::gradients(std::span<const float> x, std::span<const float> grad, const Gradients& out,
                                int threads) const {
  const bool has_zeros = !scales_.zeros.empty();
  const bool binary = grid_.number->grid == Grid::kBinary;
  const bool sums = !out.scales.empty() || !out.zeros.empty();
  const uint64_t blocks_per_row = layout_.blocks_per_row;
  // What each row adds to its blocks, so that the sums do not depend on who computes which row.
  const uint64_t parts = sums ? layout_.matrix.rows * blocks_per_row : 0;
  std::vector<double> scale_parts(parts), zero_parts(parts);

  for_runs(threads, [&](uint64_t first, uint64_t count, uint64_t block, uint64_t row) {
    const float s = scales_.scales[block], z = has_zeros ? scales_.zeros[block] : 0.0f;
    const float* g = grad.data() + first;
    const float* v = x.data() + first;
    bool inside[kRun];
    band_.inside(v, count, s, z, first, inside);
    if (sums) {
      uint8_t codes[kRun];
      float slope[kRun], cut[kRun];
      float limits[kRun];
      if (!(s > 0)) {
        std::transform(v, v + count, limits, limit_ratio);
        v = limits;
      }
      const float divisor = s > 0 ? s : 1.0f;
      loops().encode(grid_, v, count, divisor, z, first, codes);
      loops().decode(grid_, codes, count, 1.0f, z, slope);
      if (!binary) {
        for (uint64_t i = 0; i < count; ++i) slope[i] -= inside[i] ? v[i] / divisor : 0.0f;
      }
      const uint64_t part = row * blocks_per_row + block % blocks_per_row;
      scale_parts[part] += sum_of_products(g, slope, count);
      if (!out.zeros.empty()) {
        for (uint64_t i = 0; i < count; ++i) cut[i] = inside[i] ? 0.0f : -s;
        zero_parts[part] += sum_of_products(g, cut, count);
      }
    }
    if (!out.x.empty()) {
      for (uint64_t i = 0; i < count; ++i) out.x[first + i] = inside[i] ? g[i] : 0.0f;
    }
  });

  const auto gather = [&](const std::vector<double>& from, std::span<float> to) {
    std::vector<double> totals(to.size());
    for (uint64_t part = 0; part < from.size() && !to.empty(); ++part) {
      const uint64_t row = part / blocks_per_row;
      totals[row / encoding_.block_rows * blocks_per_row + part % blocks_per_row] += from[part];
    }
    std::ranges::transform(totals, to.begin(), [](double total) { return static_cast<float>(total); });
  };
  gather(scale_parts, out.scales);
  gather(zero_parts, out.zeros);
}

}  // namespace crumb
