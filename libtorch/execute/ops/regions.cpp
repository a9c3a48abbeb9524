// RoiAlign and MaxRoiPool: regions of feature maps brought to one size.
#include <ATen/ATen.h>

#include <cmath>

#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/shapes.h"

namespace crumb::libtorch {
namespace {

constexpr std::int64_t kMostBins = 1 << 16;
constexpr std::int64_t kMostSamples = 1 << 12;

std::int64_t bins_of(const Call& call, std::int64_t bins) {
  if (bins < 1 || bins > kMostBins) {
    call.fail("expected output sizes from 1 to " + std::to_string(kMostBins) + ", found " +
              std::to_string(bins));
  }
  return bins;
}

/// The samples of one region along one axis that fall on the map; the others are zeros.
struct Samples {
  std::int64_t bins = 0, each = 0;  ///< samples in each bin, those off the map too
  std::vector<std::int64_t> bin, low, high;
  std::vector<double> weight_low, weight_high;
  std::vector<std::uint8_t> misses;  ///< bins with samples off the map, or without samples
};

Samples samples_of(double start, double length, std::int64_t bins, std::int64_t ratio, std::int64_t size) {
  Samples samples{.bins = bins, .each = ratio};
  const double width = length / static_cast<double>(bins);
  const double wanted = ratio > 0 ? static_cast<double>(ratio) : std::max(std::ceil(width), 0.0);
  samples.each = static_cast<std::int64_t>(std::min(wanted, 0x1p53));
  samples.misses.assign(static_cast<std::size_t>(bins), 0);
  const double step = width / wanted;
  for (std::int64_t b = 0; b < bins; ++b) {
    const double first = start + static_cast<double>(b) * width + step / 2;
    std::int64_t from = 0, to = samples.each, taken = 0;
    if (step > 0) {  // only those that can fall on the map
      const auto many = static_cast<double>(samples.each);
      from = static_cast<std::int64_t>(std::clamp(std::floor((-1 - first) / step) - 1, 0.0, many));
      to = static_cast<std::int64_t>(
          std::clamp(std::ceil((static_cast<double>(size) - first) / step) + 2, 0.0, many));
    }
    for (std::int64_t i = from; i < to; ++i) {
      const double at = first + static_cast<double>(i) * step;
      if (at < -1 || at > static_cast<double>(size)) continue;
      const double inside = std::clamp(at, 0.0, static_cast<double>(size - 1));
      const auto low = static_cast<std::int64_t>(inside);
      samples.bin.push_back(b);
      samples.low.push_back(low);
      samples.high.push_back(std::min(low + 1, size - 1));
      samples.weight_high.push_back(inside - static_cast<double>(low));
      samples.weight_low.push_back(1 - samples.weight_high.back());
      ++taken;
    }
    samples.misses[static_cast<std::size_t>(b)] = taken < samples.each || samples.each == 0;
  }
  return samples;
}

/// The mean over each bin's samples as a matrix [bins, size].
at::Tensor mean_matrix(const Samples& samples, std::int64_t size, const at::Tensor& like) {
  at::Tensor matrix = at::zeros({samples.bins, size}, at::TensorOptions().dtype(at::kDouble));
  auto* cells = matrix.data_ptr<double>();
  for (std::size_t i = 0; i < samples.bin.size(); ++i) {
    cells[samples.bin[i] * size + samples.low[i]] +=
        samples.weight_low[i] / static_cast<double>(samples.each);
    cells[samples.bin[i] * size + samples.high[i]] +=
        samples.weight_high[i] / static_cast<double>(samples.each);
  }
  return matrix.to(like.options());
}

/// The greatest of the bins' weighted corners, [channels, rows' bins, columns' bins]; 0 counts where samples
/// miss.
at::Tensor greatest(const at::Tensor& map, const Samples& rows, const Samples& columns) {
  const auto whole = [&](const std::vector<std::int64_t>& v) {
    return at::tensor(v, at::kLong).to(map.device());
  };
  const auto real = [&](const std::vector<double>& v) {
    return at::tensor(v, at::kDouble).to(map.options());
  };
  at::Tensor most;
  for (const bool down : {false, true}) {
    const at::Tensor picked = map.index_select(1, whole(down ? rows.high : rows.low));
    const at::Tensor row_weights = real(down ? rows.weight_high : rows.weight_low).unsqueeze(1);
    for (const bool right : {false, true}) {
      const at::Tensor corner = picked.index_select(2, whole(right ? columns.high : columns.low)) *
                                (row_weights * real(right ? columns.weight_high : columns.weight_low));
      most = most.defined() ? at::maximum(most, corner) : corner;
    }
  }
  const double lowest = -std::numeric_limits<double>::infinity();
  const std::int64_t channels = map.size(0), height = most.size(1);
  at::Tensor made = at::full({channels, height, columns.bins}, lowest, map.options());
  made = made.scatter_reduce(2, whole(columns.bin).expand_as(most), most, "amax");
  made = at::full({channels, rows.bins, columns.bins}, lowest, map.options())
             .scatter_reduce(1, whole(rows.bin).unsqueeze(1).expand_as(made), made, "amax");
  const at::Tensor misses = at::logical_or(at::tensor(rows.misses, at::kByte).to(at::kBool).unsqueeze(1),
                                           at::tensor(columns.misses, at::kByte).to(at::kBool));
  return at::where(misses.to(map.device()), made.clamp_min(0), made);
}

/// The regions as doubles on the CPU, `columns` each; throws Error where one is not finite.
std::vector<double> regions_of(const Call& call, std::size_t i, std::int64_t columns) {
  expect_rank(call, i, 2);
  if (call.tensor(i).size(1) != columns) {
    call.fail("expected regions of " + std::to_string(columns) + " numbers, found " + text_of(call.in(i)));
  }
  const at::Tensor values = call.tensor(i).detach().to(at::kCPU, at::kDouble).contiguous();
  std::vector<double> regions(values.const_data_ptr<double>(),
                              values.const_data_ptr<double>() + values.numel());
  for (const double value : regions) {
    if (!std::isfinite(value)) call.fail("a region is not finite");
  }
  return regions;
}

Outputs roi_align(const Call& call) {
  const at::Tensor& given = call.tensor(0);
  expect_rank(call, 0, 4);
  const std::vector<double> regions = regions_of(call, 1, 4);
  const Ints batches = call.ints(2);
  expect_length(call, "batch_indices", batches.size(), call.tensor(1).size(0));
  const std::string mode = call.text_or("mode", "avg");
  if (mode != "avg" && mode != "max") call.fail("expected mode avg or max, found another");
  const std::int64_t height = given.size(2), width = given.size(3);
  const std::int64_t out_height = bins_of(call, call.int_or("output_height", 1));
  const std::int64_t out_width = bins_of(call, call.int_or("output_width", 1));
  const std::int64_t ratio = call.int_or("sampling_ratio", 0);
  if (ratio > kMostSamples) call.fail("expected a sampling_ratio up to " + std::to_string(kMostSamples));
  const double scale = call.float_or("spatial_scale", 1);
  const bool shifted =
      call.version() >= 16 && call.text_or("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  if (given.size(2) == 0 || given.size(3) == 0) call.fail("expected a map, found " + text_of(call.in(0)));
  const at::Tensor x = given.scalar_type() == at::kDouble ? given : given.to(at::kFloat);
  std::vector<at::Tensor> made;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    if (batches[i] < 0 || batches[i] >= x.size(0)) {
      call.fail("region " + std::to_string(i) + " is of image " + std::to_string(batches[i]) + " of " +
                std::to_string(x.size(0)));
    }
    const at::Tensor map = x[batches[i]];
    const double* region = &regions[i * 4];
    const double shift = shifted ? 0.5 : 0, least = shifted ? std::numeric_limits<double>::lowest() : 1;
    const double left = region[0] * scale - shift, top = region[1] * scale - shift;
    const Samples rows =
        samples_of(top, std::max(region[3] * scale - shift - top, least), out_height, ratio, height);
    const Samples columns =
        samples_of(left, std::max(region[2] * scale - shift - left, least), out_width, ratio, width);
    made.push_back(
        mode == "max"
            ? greatest(map, rows, columns)
            : mean_matrix(rows, height, map).matmul(map).matmul(mean_matrix(columns, width, map).t()));
  }
  if (made.empty()) return moved(call, given.new_empty({0, given.size(1), out_height, out_width}));
  return like_input(call, at::stack(made));
}

/// The pixels of one bin of a MaxRoiPool, [first, second).
std::pair<std::int64_t, std::int64_t> pixels_of(double start, double end, std::int64_t bin, std::int64_t bins,
                                                std::int64_t size) {
  const double width = std::max(end - start + 1, 1.0) / static_cast<double>(bins);
  const double most = static_cast<double>(size);
  const double first = std::clamp(std::floor(static_cast<double>(bin) * width) + start, 0.0, most);
  const double last = std::clamp(std::ceil(static_cast<double>(bin + 1) * width) + start, 0.0, most);
  return {static_cast<std::int64_t>(first), static_cast<std::int64_t>(last)};
}

Outputs max_roi_pool(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  expect_rank(call, 0, 4);
  const std::vector<double> regions = regions_of(call, 1, 5);
  const Ints bins = call.node().ints_or("pooled_shape", {});
  expect_length(call, "pooled_shape", bins.size(), 2);
  const std::int64_t rows = bins_of(call, bins[0]), columns = bins_of(call, bins[1]);
  const double scale = call.float_or("spatial_scale", 1);
  std::vector<at::Tensor> made;
  for (std::size_t i = 0; i < regions.size(); i += 5) {
    if (!(regions[i] >= 0) || !(regions[i] < static_cast<double>(x.size(0)))) {
      call.fail("region " + std::to_string(i / 5) + " is of an image that is not there");
    }
    const at::Tensor map = x[static_cast<std::int64_t>(regions[i])];
    const auto edge = [&](std::size_t k) { return std::round(regions[i + k] * scale); };
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto [top, bottom] = pixels_of(edge(2), edge(4), r, rows, x.size(2));
      for (std::int64_t c = 0; c < columns; ++c) {
        const auto [left, right] = pixels_of(edge(1), edge(3), c, columns, x.size(3));
        const bool none = bottom <= top || right <= left;
        made.push_back(none ? map.new_zeros({x.size(1)})
                            : map.slice(1, top, bottom).slice(2, left, right).amax({1, 2}));
      }
    }
  }
  const auto many = static_cast<std::int64_t>(regions.size() / 5);
  if (made.empty()) return moved(call, x.new_empty({many, x.size(1), rows, columns}));
  return moved(call, at::stack(made).reshape({many, rows, columns, x.size(1)}).permute({0, 3, 1, 2}));
}

constexpr OperatorRow kRegionsRows[] = {
    {"RoiAlign", roi_align},
    {"MaxRoiPool", max_roi_pool},
};

}  // namespace

std::span<const OperatorRow> region_operators() { return kRegionsRows; }

}  // namespace crumb::libtorch
