#include "graph/quantized_constant.h"

#include <algorithm>
#include <numeric>

#include "base/files/text.h"
#include "graph/strided_index.h"
#include "quant/quantizer.h"

namespace crumb::graph {
namespace {

std::vector<std::int64_t> signed_shape(const QuantizedTensor& tensor) {
  return {tensor.shape.begin(), tensor.shape.end()};
}

}  // namespace

std::vector<std::int64_t> QuantizedConstant::shape() const {
  return permuted_shape(signed_shape(*tensor), axes);
}

Tensor QuantizedConstant::value() const { return Tensor::floats(shape(), values_of(*this)); }

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
  const std::vector<std::int64_t> order = inverse(result.axes);
  std::vector<float> values = value.to_floats();
  if (output_axis != 0) values = permuted(values, value.shape(), order);
  const std::vector<std::int64_t> shape = permuted_shape(value.shape(), order);
  const std::vector<std::uint64_t> sizes(shape.begin(), shape.end());
  result.tensor = std::make_shared<const QuantizedTensor>(
      quantize(spec, values, sizes, {.threads = threads, .name = name}));
  return result;
}

}  // namespace crumb::graph
