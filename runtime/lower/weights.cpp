#include "runtime/lower/weights.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/strided_index.h"

namespace crumb::runtime {
namespace {

/// The largest power of two, from 2^-10 to 1, of which all levels are multiples; 0 where none is, or where
/// the integers would not fit.
double unit_of(std::span<const float> levels) {
  for (double unit = 1; unit >= 0x1p-10; unit /= 2) {
    const bool whole = std::ranges::all_of(levels, [&](float level) {
      const double integer = level / unit;
      return std::fabs(integer) <= 32767 && std::trunc(integer) == integer;
    });
    if (whole) return unit;
  }
  return 0;
}

}  // namespace

Result<IntegerWeight> integer_weight(const graph::QuantizedConstant& constant, std::size_t output_axis) {
  const QuantizedTensor& tensor = *constant.tensor;
  if (output_axis >= constant.axes.size()) return Failure{"it has too few axes"};
  const bool by_tensor = tensor.layout.blocks() == 1;
  const bool by_row = tensor.encoding.block_rows == 1 && tensor.layout.blocks_per_row == 1;
  if (!by_tensor && !(by_row && constant.axes[output_axis] == 0))
    return Failure{"its weights (" + tensor.spec + ") have several scales in an output channel"};
  const std::vector<float> levels = levels_of(constant);
  const double unit = unit_of(levels);
  if (unit == 0) return Failure{"its weights (" + tensor.spec + ") are no integers of 16 bits"};
  IntegerWeight weight;
  const std::vector<std::int64_t> order =
      graph::inverse(graph::tensor_axes(constant.axes.size(), output_axis));
  weight.shape = graph::permuted_shape(constant.shape(), order);
  for (const float level : output_axis == 0 ? levels : graph::permuted(levels, constant.shape(), order))
    weight.integers.push_back(static_cast<std::int16_t>(level / unit));
  const RowDecoder decoder(tensor.view());
  for (std::size_t row = 0; row < weight.outputs(); ++row) {
    const float scale = decoder.scale(by_tensor ? 0 : row);
    weight.scales.push_back(scale == 0 ? 1 : unit * scale);
    if (scale != 0) continue;  // all are zeros, whatever their codes
    const auto first = weight.integers.begin() + static_cast<std::ptrdiff_t>(row * weight.terms());
    std::fill_n(first, weight.terms(), std::int16_t{0});
  }
  return weight;
}

Result<IntegerWeight> integer_weight(const graph::Tensor& codes, const graph::Tensor& scales,
                                     const graph::Tensor* zeros, std::size_t output_axis) {
  if (output_axis >= codes.shape().size() || !graph::is_integer(codes.type()) ||
      graph::info(codes.type()).bits > 8 || scales.type() != graph::ElementType::kFloat)
    return Failure{"its weights are no codes of up to eight bits"};
  const std::vector<std::int64_t> order =
      graph::inverse(graph::tensor_axes(codes.shape().size(), output_axis));
  IntegerWeight weight{.shape = graph::permuted_shape(codes.shape(), order)};
  const auto counts = [&](const graph::Tensor& tensor) {
    return tensor.size() == 1 || tensor.shape() == std::vector<std::int64_t>{weight.shape[0]};
  };
  if (!counts(scales) || (zeros && (!counts(*zeros) || zeros->type() != codes.type())))
    return Failure{"its weights have several scales in an output channel"};
  const std::vector<std::int64_t> integers = graph::permuted(codes.to_ints(), codes.shape(), order);
  const std::vector<float> of_scales = scales.to_floats();
  const std::vector<std::int64_t> of_zeros = zeros ? zeros->to_ints() : std::vector<std::int64_t>{0};
  weight.integers.resize(integers.size());
  for (std::size_t row = 0; row < weight.outputs(); ++row) {
    const double scale = of_scales[of_scales.size() == 1 ? 0 : row];
    const std::int64_t zero = of_zeros[of_zeros.size() == 1 ? 0 : row];
    weight.scales.push_back(scale == 0 ? 1 : scale);
    for (std::size_t k = row * weight.terms(); k < (row + 1) * weight.terms(); ++k)
      weight.integers[k] = static_cast<std::int16_t>(scale == 0 ? 0 : integers[k] - zero);
  }
  return weight;
}

bool bound_sums(const IntegerWeight& w, std::int64_t low, std::int64_t high, std::vector<std::int32_t>& least,
                std::vector<std::int32_t>& most) {
  constexpr std::int64_t kMostSum = std::numeric_limits<std::int32_t>::max() - 1;
  low = std::min<std::int64_t>(low, 0);
  high = std::max<std::int64_t>(high, 0);
  for (std::size_t c = 0; c < w.outputs(); ++c) {
    std::int64_t down = 0, up = 0;
    for (std::size_t k = 0; k < w.terms(); ++k) {
      const std::int64_t weight = w.integers[c * w.terms() + k];
      down += std::min(weight * low, weight * high);
      up += std::max(weight * low, weight * high);
      if (down < -kMostSum || up > kMostSum) return false;
    }
    least.push_back(static_cast<std::int32_t>(down));
    most.push_back(static_cast<std::int32_t>(up));
  }
  return true;
}

}  // namespace crumb::runtime
