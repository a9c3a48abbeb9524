#include "graph/quantized_constant.h"

#include <algorithm>
#include <numeric>

#include "base/files/text.h"
#include "base/threads/parallel.h"
#include "graph/held_floats.h"
#include "graph/output_first.h"
#include "graph/strided_index.h"
#include "quant/slices/slice_quantizer.h"

namespace crumb::graph {
namespace {

constexpr std::uint64_t kSlice = std::uint64_t{1} << 22;  // elements decoded in the order of codes at a time
constexpr std::size_t kPiece = std::size_t{1} << 16;  // elements that a thread decodes at a time, at least
constexpr std::size_t kOutputs = 16;                  // outputs that a thread reorders at a time

std::vector<std::int64_t> signed_shape(const QuantizedTensor& tensor) {
  return {tensor.shape.begin(), tensor.shape.end()};
}

/// Reads codes minus zero points [first, first + out.size()) of the tensor in row-major order.
void flat_levels(const RowDecoder& decoder, const QuantizedTensor& tensor, std::uint64_t first,
                 std::span<float> out) {
  std::vector<std::uint8_t> codes(std::min<std::uint64_t>(decoder.cols(), out.size()));
  while (!out.empty()) {
    const std::uint64_t row = first / decoder.cols(), column = first % decoder.cols(),
                        run = std::min<std::uint64_t>(out.size(), decoder.cols() - column);
    decoder.codes(row, column, std::span(codes).first(run));
    const std::uint64_t block = tensor.layout.first_block(row);
    for (std::uint64_t i = 0; i < run; ++i)
      out[i] = decoder.grid(row).values[codes[i]] -
               decoder.zero_point(block + (column + i) / tensor.encoding.block_cols);
    out = out.subspan(run);
    first += run;
  }
}

/// Reads elements [first, first + to.size()) of a constant. decode(first, out) reads those of its tensor,
/// whose outputs come first; several threads call it.
template <class Decode>
void read_in_order(const QuantizedConstant& constant, std::uint64_t first, std::span<float> to,
                   const Decode& decode) {
  if (to.empty()) return;
  const std::vector<std::int64_t> shape = constant.shape();
  const std::size_t stack = constant.tensor->encoding.stack_axes;
  const std::optional<std::size_t> axis = output_axis_of(constant.axes, stack);
  if (!axis) {  // an order of axes that no operator has
    std::vector<float> all(constant.tensor->layout.matrix.size());
    decode(0, all);
    all = permuted(all, signed_shape(*constant.tensor), constant.axes);
    std::copy_n(all.data() + first, to.size(), to.data());
    return;
  }
  const OutputOrder whole(shape, {*axis, stack});
  if (whole.before == 1) {  // the tensor has this order already
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
  for (std::uint64_t at = begin; at < end;) {  // matrix by matrix
    const std::uint64_t matrix = at / whole.before, inside = at % whole.before;
    OutputOrder part = whole;
    part.matrices = 1;
    part.before = std::min(end - at, whole.before - inside);
    const std::span<float> of_part = to.subspan((at - begin) * step, part.size());
    parallel_for(part.outputs, kOutputs, 0, [&](std::size_t from, std::size_t until) {
      std::vector<float> piece;
      for (std::size_t output = from; output < until; output += kOutputs) {
        const std::size_t several = std::min(kOutputs, until - output);
        piece.resize(several * part.row());
        for (std::size_t i = 0; i < several; ++i)
          decode(matrix * whole.matrix() + (output + i) * whole.row() + inside * whole.behind,
                 std::span(piece).subspan(i * part.row(), part.row()));
        part.put(piece, output * part.row(), of_part);
      }
    });
    at += part.before;
  }
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

Result<EncodedLayout> code_layout_of(const QuantSpec& spec, const std::vector<std::int64_t>& shape,
                                     MatrixAxes axes) {
  const std::vector<std::uint64_t> sizes = tensor_shape(shape, axes);
  return encoded_layout(spec.encoding(sizes, axes.stack), sizes);
}

std::optional<std::string> misfit_of(const QuantSpec& spec, const std::vector<std::int64_t>& shape,
                                     MatrixAxes axes) {
  return spec.misfit(tensor_shape(shape, axes), axes.stack);
}

QuantizedConstant quantize_constant(const QuantSpec& spec, const Tensor& value, MatrixAxes axes,
                                    const std::string& name, int threads) {
  if (spec.zero == ZeroPoint::kMinimum)
    throw Error("constant " + quote_text(name) +
                ": minima (zero=min) are for tensors of a checkpoint that are rounded as they are, and for "
                "gptq; where a network "
                "is made they are no constant, which is (q - z) * s: say zero=float");
  QuantizedConstant result{.tensor = {}, .axes = tensor_axes(value.shape().size(), axes)};
  const std::vector<std::uint64_t> sizes = tensor_shape(value.shape(), axes);
  const std::optional<Tensor> rows = transposed_as_stored(value, inverse(result.axes));
  const HeldFloats values(rows ? *rows : value);
  OutputFirst stream(values.span(), rows ? OutputOrder(rows->shape(), {axes.stack, axes.stack})
                                         : OutputOrder(value.shape(), axes));
  CodeBytes codes;
  const SliceSize size = slice_size(spec, sizes, kSlice, CodeLayout::kRows, axes.stack);
  QuantizedTensor made = quantize_slices(spec, sizes, stream, size.values,
                                         [&](std::span<const float>, const QuantizedView& slice) {
                                           codes.insert(codes.end(), slice.codes.begin(), slice.codes.end());
                                         },
                                         {.threads = threads, .name = name, .stack_axes = axes.stack});
  made.codes = std::move(codes);
  result.tensor = std::make_shared<const QuantizedTensor>(std::move(made));
  return result;
}

}  // namespace crumb::graph
