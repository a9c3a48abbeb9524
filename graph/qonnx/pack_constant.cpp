#include "graph/qonnx/pack_constant.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>

#include "formats/number/minifloat.h"
#include "formats/number/packing.h"
#include "formats/number/scale_format.h"
#include "graph/strided_index.h"

namespace crumb::graph {
namespace {

using Ints = std::vector<std::int64_t>;

/// The elements in the tensor's own order, and the blocks that share a scale and a zero point.
struct Arranged {
  Ints axes;                     ///< of QuantizedConstant
  std::uint64_t stack_axes = 0;  ///< of `shape`
  std::vector<std::uint64_t> shape;
  MatrixShape matrix;                    ///< one matrix of a stack
  std::uint64_t matrices = 1;            ///< of a stack
  std::vector<float> scale, zero;        ///< one for each element, or one for all
  std::uint64_t block_rows, block_cols;  ///< set by find_blocks()

  std::uint64_t rows() const { return matrices * matrix.rows; }
  std::uint64_t across() const { return (matrix.cols + block_cols - 1) / block_cols; }
  std::uint64_t blocks_each() const { return (matrix.rows + block_rows - 1) / block_rows * across(); }
  std::uint64_t blocks() const { return matrices * blocks_each(); }
  bool is_tensor() const { return block_rows == matrix.rows && block_cols == matrix.cols; }
  bool is_channel() const { return block_rows == 1 && block_cols == matrix.cols; }
  bool is_group() const { return block_rows == 1; }
  /// Whether QONNX needs a scale for each element.
  bool is_spread() const {
    return !is_tensor() && !is_channel() && (!is_group() || matrix.cols % block_cols != 0);
  }
  /// Returns the index of a block's first element.
  std::size_t first_of(std::uint64_t block) const {
    const std::uint64_t own = block % blocks_each();
    return block / blocks_each() * matrix.size() + own / across() * block_rows * matrix.cols +
           own % across() * block_cols;
  }
};

float at(const std::vector<float>& numbers, std::size_t i) {
  return numbers.size() == 1 ? numbers[0] : numbers[i];
}

std::vector<float> in_order(const std::vector<float>& numbers, const Ints& shape, const Ints& order) {
  return numbers.size() == 1 ? numbers : permuted(numbers, shape, order);
}

/// Finds the largest blocks of one scale and zero point, split at multiples of their size.
void find_blocks(Arranged& arranged) {
  const auto [rows, cols] = arranged.matrix;
  const std::uint64_t all_rows = arranged.rows();
  std::uint64_t step_rows = 0, step_cols = 0;
  const auto differ = [&](std::size_t a, std::size_t b) {
    return at(arranged.scale, a) != at(arranged.scale, b) || at(arranged.zero, a) != at(arranged.zero, b);
  };
  if (arranged.scale.size() > 1 || arranged.zero.size() > 1) {
    for (std::uint64_t at = 0; at < all_rows; ++at) {
      const std::uint64_t row = at % rows;
      for (std::uint64_t col = 0; col < cols; ++col) {
        const std::size_t i = at * cols + col;
        if (col > 0 && differ(i, i - 1)) step_cols = std::gcd(step_cols, col);
        if (row > 0 && differ(i, i - cols)) step_rows = std::gcd(step_rows, row);
      }
    }
  }
  arranged.block_rows = step_rows == 0 ? rows : step_rows;
  arranged.block_cols = step_cols == 0 ? cols : step_cols;
  // Channels with equal scales by chance are still channels.
  if (step_rows != 0 && step_cols == 0) arranged.block_rows = 1;
}

Arranged arrange(const QuantizedElements& elements, MatrixAxes axes) {
  Arranged arranged{.axes = elements.shape.empty() ? Ints{} : tensor_axes(elements.shape.size(), axes),
                    .stack_axes = axes.stack,
                    .shape = tensor_shape(elements.shape, axes)};
  const Ints order = inverse(arranged.axes);
  arranged.matrix = matrix_shape(std::span(arranged.shape).subspan(axes.stack)).take();
  arranged.matrices = elements.values.size() / std::max<std::uint64_t>(arranged.matrix.size(), 1);
  arranged.scale = in_order(elements.scale, elements.shape, order);
  arranged.zero = in_order(elements.zero, elements.shape, order);
  find_blocks(arranged);
  return arranged;
}

/// Returns the axes along which the scale or the zero point changes.
std::vector<std::size_t> varying_axes(const QuantizedElements& elements) {
  std::vector<std::size_t> axes;
  std::size_t step = elements.values.size();
  for (std::size_t axis = 0; axis < elements.shape.size(); ++axis) {
    const auto size = static_cast<std::size_t>(elements.shape[axis]), outer = step;
    step /= size;
    const auto varies = [&](const std::vector<float>& numbers) {
      if (numbers.size() == 1) return false;
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        if (i % outer >= step && numbers[i] != numbers[i - step]) return true;
      }
      return false;
    };
    if (varies(elements.scale) || varies(elements.zero)) axes.push_back(axis);
  }
  return axes;
}

Arranged best_arrangement(const QuantizedElements& elements, MatrixAxes wanted) {
  std::vector<std::size_t> axes = varying_axes(elements);
  std::erase(axes, wanted.output);
  Arranged best = arrange(elements, wanted.output);
  if (best.is_tensor() || best.is_channel()) return best;
  if (wanted.stack > 0) {
    Arranged stack = arrange(elements, wanted);
    if (stack.blocks() < best.blocks() || (stack.blocks() == best.blocks() && !stack.is_spread()))
      return stack;
  }
  for (const std::size_t axis : axes) {
    Arranged other = arrange(elements, axis);
    const bool is_fewer = other.blocks() < best.blocks();
    if (is_fewer || (other.blocks() == best.blocks() && best.is_spread() && !other.is_spread())) {
      best = std::move(other);
    }
  }
  return best;
}

bool is_exact(ScaleFormat format, float scale) {
  return decode_scale(format, encode_scale(format, scale).pattern) == scale;
}

/// Chooses formats that hold scales and zero points exactly; false where there are none.
bool choose_formats(const Arranged& arranged, QuantSpec& spec) {
  const NumberFormat& number = *spec.number;
  bool none = true, whole = true;
  for (const float zero : arranged.zero) {
    none = none && zero == 0;
    whole = whole && std::trunc(zero) == zero && zero >= static_cast<float>(number.least_code(spec.range)) &&
            zero <= static_cast<float>(number.greatest_code(spec.range));
  }
  if (!none && !number.has_zero_point()) return false;
  spec.zero = none ? ZeroPoint::kNone : whole ? ZeroPoint::kInteger : ZeroPoint::kFloat;
  const auto holds = [&](ScaleFormat format) {
    const ScaleFormat of_zero = zero_point_format(format);
    return std::ranges::all_of(arranged.scale, [&](float scale) { return is_exact(format, scale); }) &&
           (spec.zero != ZeroPoint::kFloat || std::ranges::all_of(arranged.zero, [&](float zero) {
              return decode_scale(of_zero, encode_float(of_zero, zero)) == zero;
            }));
  };
  spec.scale = ScaleFormat::kF32;
  if (spec.block_cols == 0) return true;
  for (const ScaleFormat format : {ScaleFormat::kF16, ScaleFormat::kBF16}) {
    if (!holds(format)) continue;
    spec.scale = format;
    break;
  }
  return true;
}

std::optional<QuantSpec> spec_of(const Arranged& arranged, const CodeFormat& format) {
  QuantSpec spec{.number = format.number, .range = format.range};
  spec.granularity = arranged.is_tensor()    ? Granularity::kTensor
                     : arranged.is_channel() ? Granularity::kChannel
                     : arranged.is_group()   ? Granularity::kGroup
                                             : Granularity::kBlock;
  if (spec.granularity == Granularity::kGroup || spec.granularity == Granularity::kBlock) {
    spec.block_rows = arranged.block_rows;
    spec.block_cols = arranged.block_cols;
    spec.pad = arranged.matrix.cols % spec.block_cols != 0 || arranged.matrix.rows % spec.block_rows != 0;
  }
  if (!choose_formats(arranged, spec)) return {};
  return spec;
}

void append_pattern(std::uint32_t pattern, ScaleFormat format, std::vector<std::byte>& bytes) {
  const auto* first = reinterpret_cast<const std::byte*>(&pattern);
  bytes.insert(bytes.end(), first, first + scale_format_row(format).bytes);
}

void pack_parameters(const Arranged& arranged, QuantizedTensor& tensor) {
  const Encoding& encoding = tensor.encoding;
  std::vector<std::uint8_t> zeros;
  for (std::uint64_t block = 0; block < arranged.blocks(); ++block) {
    const std::size_t first = arranged.first_of(block);
    append_pattern(encode_scale(encoding.scale, at(arranged.scale, first)).pattern, encoding.scale,
                   tensor.scales);
    const float zero = at(arranged.zero, first);
    if (encoding.zero == ZeroPoint::kInteger) {
      zeros.push_back(encoding.number->bits_of(static_cast<int>(zero)));
    } else if (encoding.zero == ZeroPoint::kFloat) {
      const ScaleFormat format = zero_point_format(encoding.scale);
      append_pattern(encode_float(format, zero), format, tensor.zeros);
    }
  }
  if (zeros.empty()) return;
  tensor.zeros.resize(tensor.layout.zeros_bytes);
  for (std::uint64_t matrix = 0; matrix < arranged.matrices; ++matrix)
    pack_codes(std::span(zeros).subspan(matrix * arranged.blocks_each(), arranged.blocks_each()),
               encoding.number->bits,
               reinterpret_cast<std::uint8_t*>(tensor.zeros.data()) + matrix * tensor.layout.zeros_each);
}

/// `numbers`: integers, or the values of minifloats, in the tensor's order.
void pack_elements(const Arranged& arranged, const std::vector<float>& numbers, QuantizedTensor& tensor) {
  const NumberFormat& number = *tensor.encoding.number;
  const std::uint64_t cols = arranged.matrix.cols;
  tensor.codes.resize(tensor.layout.codes_bytes);
  std::vector<std::uint8_t> patterns(cols);
  for (std::uint64_t row = 0; row < arranged.rows(); ++row) {
    for (std::uint64_t col = 0; col < cols; ++col) {
      const std::size_t i = row * cols + col;
      switch (number.grid) {
        case Grid::kBinary: patterns[col] = numbers[i] > 0 ? 1 : 0; break;
        case Grid::kMinifloat:
          patterns[col] = encode_minifloat(number, numbers[i] / at(arranged.scale, i));
          break;
        default: patterns[col] = number.bits_of(static_cast<int>(numbers[i]));
      }
    }
    pack_codes(patterns, number.bits,
               reinterpret_cast<std::uint8_t*>(tensor.codes.data()) + row * tensor.layout.row_bytes);
  }
}

bool are_finite(const std::vector<float>& numbers) {
  return std::ranges::all_of(numbers, [](float number) { return std::isfinite(number); });
}

bool are_codes(const std::vector<float>& integers, const CodeFormat& format) {
  if (format.number->grid != Grid::kInteger && format.number->grid != Grid::kHalfInteger) return true;
  const auto least = static_cast<float>(format.number->least_code(format.range));
  const auto greatest = static_cast<float>(format.number->greatest_code(format.range));
  return std::ranges::all_of(integers,
                             [&](float q) { return std::trunc(q) == q && q >= least && q <= greatest; });
}

}  // namespace

std::optional<QuantizedConstant> pack_constant(const QuantizedElements& elements, const CodeFormat& format,
                                               MatrixAxes axes) {
  if (elements.values.empty() || !are_finite(elements.values) || !are_finite(elements.scale) ||
      !are_finite(elements.zero) || !are_codes(elements.integers, format) ||
      !std::ranges::all_of(elements.scale, [](float scale) { return scale > 0; }))
    return {};
  const Arranged arranged = best_arrangement(elements, axes);
  const auto spec = spec_of(arranged, format);
  if (!spec) return {};
  auto tensor = std::make_shared<QuantizedTensor>();
  tensor->spec = spec->to_string();
  tensor->shape = arranged.shape;
  tensor->encoding = spec->encoding(arranged.shape, arranged.stack_axes);
  tensor->layout = encoded_layout(tensor->encoding, arranged.shape).take();
  const std::vector<float>& numbers = elements.integers.empty() ? elements.values : elements.integers;
  pack_elements(arranged, permuted(numbers, elements.shape, inverse(arranged.axes)), *tensor);
  pack_parameters(arranged, *tensor);
  QuantizedConstant constant{.tensor = std::move(tensor), .axes = arranged.axes};
  if (constant.value().to_floats() != elements.values) return {};
  return constant;
}

}  // namespace crumb::graph
