#include "libtorch/scaled_quantizer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <string>

#include "base/files/counted.h"
#include "formats/dtype.h"
#include "libtorch/parallel.h"
#include "quant/loops/loops.h"
#include "quant/search/codebook_search.h"

namespace crumb {
namespace {

constexpr uint64_t kRun = kErrorRun;        // values at a time
constexpr uint64_t kPieceValues = 1 << 15;  // values a thread takes at a time

std::vector<float> codebook_or_zeros(const NumberFormat& number, std::span<const float> codebook) {
  if (!number.learned || !codebook.empty()) return {codebook.begin(), codebook.end()};
  return std::vector<float>(size_t{1} << number.bits, 0.0F);
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
      band_(grid_),
      fused_(has_fused_loops(grid_)) {
  if (spec.zero == ZeroPoint::kMinimum)
    throw Error("fake_quantize: " + spec.to_string() +
                " has a minimum, which is not learned; say zero=float");
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

/// Rows; pieces of a tensor that is one block, which lies without gaps.
ScaledQuantizer::Strips ScaledQuantizer::strips() const {
  const auto [rows, columns] = layout_.matrix;
  if (layout_.blocks() != 1) return {rows, columns};
  return {(rows * columns + kPieceValues - 1) / kPieceValues, kPieceValues};
}

/// Strips are spread over threads; the runs of a strip come in order.
template <class Visit>
void ScaledQuantizer::for_runs(const Visit& visit) const {
  const uint64_t values = layout_.matrix.size();
  if (values == 0) return;
  const Strips all = strips();
  const uint64_t count = all.count, length = all.length;
  const bool one = layout_.blocks() == 1;
  const uint64_t block_cols = one ? length : encoding_.block_cols;
  const uint64_t at_once = std::max<uint64_t>(1, kPieceValues / length);
  torch_parallel_for(static_cast<int64_t>((count + at_once - 1) / at_once), [&](int64_t begin, int64_t end) {
    const uint64_t stop = std::min(count, static_cast<uint64_t>(end) * at_once);
    for (uint64_t strip = static_cast<uint64_t>(begin) * at_once; strip < stop; ++strip) {
      const uint64_t start = strip * length, columns = std::min(length, values - start);
      uint64_t block = one ? 0 : strip / encoding_.block_rows * layout_.blocks_per_row;
      for (uint64_t col = 0; col < columns; col += block_cols, ++block) {
        const uint64_t past = std::min(columns, col + block_cols);
        for (uint64_t i = col; i < past; i += kRun) {
          visit(Run{start + i, std::min(kRun, past - i), block, strip});
        }
      }
    }
  });
}

std::vector<float> ScaledQuantizer::learn(std::span<const float> x) {
  std::vector<float> scaled(x.size());
  for_runs([&](const Run& run) {
    const float s = scales_.scales[run.block];
    for (uint64_t i = run.first; i < run.first + run.count; ++i) scaled[i] = s > 0 ? x[i] / s : 0.0F;
  });
  std::vector<float> codebook = learn_codebook(scaled, spec_.number->bits);
  grid_ = make_code_grid(*spec_.number, spec_.range, spec_.round, codebook);
  band_ = PassBand(grid_);
  fused_ = has_fused_loops(grid_);
  return codebook;
}

void ScaledQuantizer::values(std::span<const float> x, std::span<float> out) const {
  std::atomic<bool> finite{true};
  const bool has_zeros = !scales_.zeros.empty();
  for_runs([&](const Run& run) {
    const auto [first, count, block, strip] = run;
    const float s = scales_.scales[block], z = has_zeros ? scales_.zeros[block] : 0.0F;
    uint32_t most = 0;
    if (fused_ && s > 0) {
      most = loops().fake(grid_, x.data() + first, count, s, z, out.data() + first);
    } else {
      uint8_t codes[kRun];
      most = loops().absmax_bits(x.data() + first, count);
      if (s > 0) {
        loops().encode(grid_, x.data() + first, count, s, z, first, codes);
      } else {
        std::memset(codes, grid_.zero_pattern(z), count);
      }
      loops().decode(grid_, codes, count, s, z, out.data() + first);
    }
    if (most >= kInfinityBits) finite = false;
  });
  if (!finite) throw Error("fake_quantize: the tensor holds inf or NaN; only finite values can be quantized");
}

void ScaledQuantizer::pass(std::span<const float> x, std::span<bool> inside) const {
  const bool has_zeros = !scales_.zeros.empty();
  for_runs([&](const Run& run) {
    const float s = scales_.scales[run.block], z = has_zeros ? scales_.zeros[run.block] : 0.0F;
    band_.inside(x.data() + run.first, run.count, s, z, run.first, inside.data() + run.first);
  });
}

namespace {

/// The sum of a[i] * b[i] in 16 float32 lanes, then in double. Precondition: n is at most kRun.
double sum_of_products(const float* a, const float* b, uint64_t n) {
  constexpr uint64_t kLanes = kErrorLanes;
  float lanes[kLanes] = {};
  for (uint64_t i = 0; i < n; ++i) lanes[i % kLanes] += a[i] * b[i];
  std::array<double, kLanes> sums;
  std::ranges::copy(lanes, sums.begin());
  return fold_lanes(sums);
}

/// Where x / s lies as s goes to 0: far beyond the grid on its side, or at 0.
float limit_ratio(float x) { return x == 0 ? 0.0F : std::copysign(0x1p126F, x); }

}  // namespace

/// Step by step, for what the fused loops do not take, and scales of 0.
FakeSums ScaledQuantizer::run_gradients(const Run& run, const float* x, const float* grad, float* dx) const {
  const uint64_t count = run.count;
  const float s = scales_.scales[run.block], z = scales_.zeros.empty() ? 0.0F : scales_.zeros[run.block];
  if (fused_ && s > 0) {
    return loops().fake_gradients(grid_, {band_.lo(), band_.hi()}, x, grad, count, s, z, dx);
  }
  bool inside[kRun];
  band_.inside(x, count, s, z, run.first, inside);
  uint8_t codes[kRun];
  float slope[kRun], cut[kRun], limits[kRun];
  if (!(s > 0)) std::transform(x, x + count, limits, limit_ratio);
  const float* v = s > 0 ? x : limits;
  const float divisor = s > 0 ? s : 1.0F;
  loops().encode(grid_, v, count, divisor, z, run.first, codes);
  loops().decode(grid_, codes, count, 1.0F, z, slope);
  const bool binary = grid_.number->grid == Grid::kBinary;
  for (uint64_t i = 0; i < count; ++i) {
    if (!binary) slope[i] -= inside[i] ? v[i] / divisor : 0.0F;
    cut[i] = inside[i] ? 0.0F : 1.0F;
  }
  const FakeSums sums{sum_of_products(grad, slope, count), sum_of_products(grad, cut, count)};
  for (uint64_t i = 0; dx && i < count; ++i) dx[i] = inside[i] ? grad[i] : 0.0F;
  return sums;
}

void ScaledQuantizer::gradients(std::span<const float> x, std::span<const float> grad,
                                const Gradients& out) const {
  // What each strip adds to its blocks, so that the sums do not depend on who computes which strip.
  const uint64_t blocks_per_row = layout_.blocks_per_row;
  std::vector<FakeSums> parts(layout_.matrix.size() == 0 ? 0 : strips().count * blocks_per_row);
  for_runs([&](const Run& run) {
    const FakeSums sums = run_gradients(run, x.data() + run.first, grad.data() + run.first,
                                        out.x.empty() ? nullptr : out.x.data() + run.first);
    FakeSums& part = parts[run.strip * blocks_per_row + run.block % blocks_per_row];
    part.scale += sums.scale;
    part.outside += sums.outside;
  });
  std::vector<FakeSums> totals(layout_.blocks());
  const bool one = totals.size() == 1;
  for (uint64_t part = 0; part < parts.size(); ++part) {
    const uint64_t row = part / blocks_per_row;
    FakeSums& total = totals[one ? 0 : row / encoding_.block_rows * blocks_per_row + part % blocks_per_row];
    total.scale += parts[part].scale;
    total.outside += parts[part].outside;
  }
  for (uint64_t block = 0; block < out.scales.size(); ++block) {
    out.scales[block] = static_cast<float>(totals[block].scale);
  }
  for (uint64_t block = 0; block < out.zeros.size(); ++block) {
    out.zeros[block] =
        static_cast<float>(totals[block].outside * -static_cast<double>(scales_.scales[block]));
  }
}

}  // namespace crumb
