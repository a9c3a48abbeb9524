#include "graph/quantized_constant.h"

#include <algorithm>
#include <numeric>

#include "base/files/text.h"
#include "base/threads/parallel.h"
#include "graph/held_floats.h"
#include "graph/output_first.h"
#include "graph/strided_index.h"
#include "quant/slice_quantizer.h"

namespace crumb::graph {
namespace {

constexpr std::uint64_t kSlice = std::uint64_t{1} << 22;  // elements that lie in the order of codes at a time
constexpr std::size_t kPiece = std::size_t{1} << 16;      // that a thread decodes at a time

std::vector<std::int64_t> signed_shape(const QuantizedTensor& tensor) {
  return {tensor.shape.begin(), tensor.shape.end()};
}

}  // namespace

std::vector<std::int64_t> QuantizedConstant::shape() const {
  return permuted_shape(signed_shape(*tensor), axes);
}

Tensor QuantizedConstant::value() const {
  const std::vector<std::int64_t> sizes = shape();
  const std::optional<std::size_t> axis = output_axis_of(axes);
  if (!axis) return Tensor::floats(sizes, values_of(*this));
  const OutputOrder order(sizes, *axis);
  const RowDecoder decoder(tensor->view());
  std::vector<std::byte> bytes(order.size() * sizeof(float));
  const std::span values(reinterpret_cast<float*>(bytes.data()), order.size());
  parallel_for(order.size(), kPiece, 0, [&](std::size_t begin, std::size_t end) {
    std::vector<float> piece(std::min<std::size_t>(kPiece, end - begin));
    for (std::size_t first = begin; first < end; first += piece.size()) {
      piece.resize(std::min<std::size_t>(piece.size(), end - first));
      decoder.flat_values(first, piece);
      order.put(piece, first, values);
    }
  });
  return {ElementType::kFloat, sizes, std::move(bytes)};
}

std::vector<float> values_of(const QuantizedConstant& constant) {
  const QuantizedTensor& tensor = *constant.tensor;
  std::vector<float> values(tensor.layout.matrix.size());
  dequantize(tensor.view(), values);
  if (std::ranges::is_sorted(constant.axes)) return values;
  return permuted(values, signed_shape(tensor), constant.axes);
}

std::vector<float> levels_of(const QuantizedConstant& constant) {
  const QuantizedTensor& tensor = *constant.tensor;
  const RowDecoder decoder(tensor.view());
  const MatrixShape& matrix = tensor.layout.matrix;
  std::vector<float> levels(matrix.size());
  std::vector<std::uint8_t> codes(matrix.cols);
  for (std::uint64_t row = 0; row < matrix.rows; ++row) {
    decoder.codes(row, 0, codes);
    for (std::uint64_t column = 0; column < matrix.cols; ++column) {
      const std::uint64_t block = row / tensor.encoding.block_rows * tensor.layout.blocks_per_row +
                                  column / tensor.encoding.block_cols;
      levels[row * matrix.cols + column] = decoder.grid().values[codes[column]] - decoder.zero_point(block);
    }
  }
  if (std::ranges::is_sorted(constant.axes)) return levels;
  return permuted(levels, signed_shape(tensor), constant.axes);
}

std::optional<std::size_t> output_axis_of(const std::vector<std::int64_t>& axes) {
  for (std::size_t axis = 0; axis < axes.size(); ++axis)
    if (axes == axes_with_output(axes.size(), axis)) return axis;
  return std::nullopt;
}

std::vector<std::int64_t> axes_with_output(std::size_t rank, std::size_t output_axis) {
  std::vector<std::int64_t> order(rank);  // of the value's axes in the tensor
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(output_axis),
              order.begin() + static_cast<std::ptrdiff_t>(output_axis) + 1);
  return inverse(order);
}

QuantizedConstant quantize_constant(const QuantSpec& spec, const Tensor& value, std::size_t output_axis,
                                    const std::string& name, int threads) {
  if (spec.zero == ZeroPoint::kMinimum)
    throw Error("constant " + quote_text(name) +
                ": minima (zero=min) are for tensors of a checkpoint that are rounded as they are, and for "
                "gptq; where a network "
                "is made they are no constant, which is (q - z) * s: say zero=float");
  QuantizedConstant result{.tensor = {}, .axes = axes_with_output(value.shape().size(), output_axis)};
  const std::vector<std::int64_t> shape = permuted_shape(value.shape(), inverse(result.axes));
  const std::vector<std::uint64_t> sizes(shape.begin(), shape.end());
  const HeldFloats values(value);
  OutputFirst stream(values.span(), {value.shape(), output_axis});
  CodeBytes codes;
  QuantizedTensor made = quantize_slices(spec, sizes, stream, slice_size(spec, sizes, kSlice).values,
                                         [&](std::span<const float>, const QuantizedView& slice) {
                                           codes.insert(codes.end(), slice.codes.begin(), slice.codes.end());
                                         },
                                         {.threads = threads, .name = name});
  made.codes = std::move(codes);
  result.tensor = std::make_shared<const QuantizedTensor>(std::move(made));
  return result;
}

}  // namespace crumb::graph
