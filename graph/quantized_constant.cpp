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
constexpr std::size_t kPiece = std::size_t{1} << 16;  // elements that a thread decodes at a time, at least
constexpr std::size_t kOutputs = 16;                  // that a thread puts in order at a time

std::vector<std::int64_t> signed_shape(const QuantizedTensor& tensor) {
  return {tensor.shape.begin(), tensor.shape.end()};
}

/// Codes less zero points [first, first + out.size()) of the tensor's row-major flattening.
void flat_levels(const RowDecoder& decoder, const QuantizedTensor& tensor, std::uint64_t first,
                 std::span<float> out) {
  std::vector<std::uint8_t> codes(std::min<std::uint64_t>(decoder.cols(), out.size()));
  while (!out.empty()) {
    const std::uint64_t row = first / decoder.cols(), column = first % decoder.cols(),
                        run = std::min<std::uint64_t>(out.size(), decoder.cols() - column);
    decoder.codes(row, column, std::span(codes).first(run));
    const std::uint64_t block = row / tensor.encoding.block_rows * tensor.layout.blocks_per_row;
    for (std::uint64_t i = 0; i < run; ++i)
      out[i] = decoder.grid().values[codes[i]] -
               decoder.zero_point(block + (column + i) / tensor.encoding.block_cols);
    out = out.subspan(run);
    first += run;
  }
}

/// Elements [first, first + to.size()) of a constant. decode(first, out) gives those of its tensor, whose
/// outputs come first; it is called from several threads.
template <class Decode>
void read_in_order(const QuantizedConstant& constant, std::uint64_t first, std::span<float> to,
                   const Decode& decode) {
  if (to.empty()) return;
  const std::vector<std::int64_t> shape = constant.shape();
  const std::optional<std::size_t> axis = output_axis_of(constant.axes);
  if (!axis) {  // an order that no operator has
    std::vector<float> all(constant.tensor->layout.matrix.size());
    decode(0, all);
    all = permuted(all, signed_shape(*constant.tensor), constant.axes);
    std::copy_n(all.data() + first, to.size(), to.data());
    return;
  }
  const OutputOrder whole(shape, *axis);
  if (whole.before == 1) {  // the order that the tensor has
    parallel_for(to.size(), kPiece, 0, [&](std::size_t begin, std::size_t end) {
      decode(first + begin, to.subspan(begin, end - begin));
    });
    return;
  }
  const std::uint64_t step = whole.outputs * whole.behind, begin = first / step,
                      end = (first + to.size() + step - 1) / step;
  if (begin * step != first || end * step != first + to.size()) {
    std::vector<float> around((end - begin) * step);
    read_in_order(constant, begin * step, around, decode);
    std::copy_n(around.data() + (first - begin * step), to.size(), to.data());
    return;
  }
  OutputOrder part = whole;
  part.before = end - begin;
  parallel_for(part.outputs, kOutputs, 0, [&](std::size_t from, std::size_t until) {
    std::vector<float> piece;
    for (std::size_t output = from; output < until; output += kOutputs) {
      const std::size_t several = std::min(kOutputs, until - output);
      piece.resize(several * part.row());
      for (std::size_t i = 0; i < several; ++i)
        decode((output + i) * whole.row() + begin * whole.behind,
               std::span(piece).subspan(i * part.row(), part.row()));
      part.put(piece, output * part.row(), to);
    }
  });
}

}  // namespace

std::vector<std::int64_t> QuantizedConstant::shape() const {
  return permuted_shape(signed_shape(*tensor), axes);
}

Tensor QuantizedConstant::value() const {
  std::vector<std::byte> bytes(tensor->layout.matrix.size() * sizeof(float));
  read_values(*this, 0, {reinterpret_cast<float*>(bytes.data()), tensor->layout.matrix.size()});
  return {ElementType::kFloat, shape(), std::move(bytes)};
}

void read_values(const QuantizedConstant& constant, std::uint64_t first, std::span<float> to) {
  const RowDecoder decoder(constant.tensor->view());
  read_in_order(constant, first, to,
                [&](std::uint64_t from, std::span<float> piece) { decoder.flat_values(from, piece); });
}

void read_levels(const QuantizedConstant& constant, std::uint64_t first, std::span<float> to) {
  const RowDecoder decoder(constant.tensor->view());
  read_in_order(constant, first, to, [&](std::uint64_t from, std::span<float> piece) {
    flat_levels(decoder, *constant.tensor, from, piece);
  });
}

std::vector<float> levels_of(const QuantizedConstant& constant) {
  std::vector<float> levels(constant.tensor->layout.matrix.size());
  read_levels(constant, 0, levels);
  return levels;
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
