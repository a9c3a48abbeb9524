#include "libtorch/execute/packed_kernels.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "graph/weighted_product.h"
#include "quant/quantized_tensor.h"

namespace crumb::libtorch {
namespace {

using graph::Graph;
using graph::Node;
using graph::QuantizedConstant;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kMostDecoded = std::int64_t{4} << 20;  ///< values at a time, where rows are fewer

/// The codes of a matrix on another device than the CPU, a byte each, and what they mean.
class FarCodes {
 public:
  FarCodes(const RowDecoder& decoder, const Encoding& encoding, const EncodedLayout& layout,
           at::Device device) {
    const auto rows = decoder.rows(), columns = decoder.cols();
    const auto sizes = [](std::uint64_t a, std::uint64_t b) {
      return std::vector<std::int64_t>{static_cast<std::int64_t>(a), static_cast<std::int64_t>(b)};
    };
    at::Tensor codes = at::empty(sizes(rows, columns), at::kByte);
    const std::span<std::uint8_t> patterns{codes.data_ptr<std::uint8_t>(), rows * columns};
    for (std::uint64_t row = 0; row < rows; ++row)
      decoder.codes(row, 0, patterns.subspan(row * columns, columns));
    at::Tensor scales = at::empty(sizes(layout.block_rows, layout.blocks_per_row), at::kFloat);
    at::Tensor zeros = at::empty_like(scales);
    for (std::uint64_t block = 0; block < layout.blocks(); ++block) {
      scales.data_ptr<float>()[block] = decoder.scale(block);
      zeros.data_ptr<float>()[block] = decoder.zero_point(block);
    }
    codes_ = codes.to(device);
    scales_ = scales.to(device);
    if (encoding.zero != ZeroPoint::kNone) zeros_ = zeros.to(device);
    std::vector<float> meanings;  // of one palette after the other
    for (std::uint64_t i = 0; i < (encoding.number->learned ? layout.matrices : 1); ++i)
      std::ranges::copy(decoder.grid(i * layout.matrix_rows).values, std::back_inserter(meanings));
    meanings_ = at::tensor(meanings).to(device);
    const std::size_t codes_each = decoder.grid().values.size();
    std::vector<std::int64_t> bands(rows), palettes(rows);
    for (std::uint64_t row = 0; row < rows; ++row) {
      bands[row] = static_cast<std::int64_t>(layout.first_block(row) / layout.blocks_per_row);
      if (encoding.number->learned)
        palettes[row] = static_cast<std::int64_t>(layout.matrix_of_row(row) * codes_each);
    }
    palette_of_row_ = at::tensor(palettes, at::kInt).to(device);
    block_of_row_ = at::tensor(bands, at::kLong).to(device);
    block_of_column_ = at::floor_divide(at::arange(codes.size(1), at::kLong),
                                        static_cast<std::int64_t>(std::min(encoding.block_cols, columns)))
                           .to(device);
  }

  at::Device device() const { return codes_.device(); }

  /// Rows, [count, columns]: what RowDecoder gives.
  at::Tensor decoded(std::int64_t first, std::int64_t count) const {
    return decoded(codes_.narrow(0, first, count), block_of_row_.narrow(0, first, count),
                   palette_of_row_.narrow(0, first, count));
  }
  at::Tensor picked(const at::Tensor& rows) const {
    return decoded(codes_.index_select(0, rows), block_of_row_.index_select(0, rows),
                   palette_of_row_.index_select(0, rows));
  }

 private:
  at::Tensor decoded(const at::Tensor& codes, const at::Tensor& blocks, const at::Tensor& palettes) const {
    const auto of_each = [&](const at::Tensor& numbers) {
      return numbers.index_select(0, blocks).index_select(1, block_of_column_);
    };
    const at::Tensor entries = codes.to(at::kInt) + palettes.unsqueeze(1);
    const at::Tensor values = meanings_.index_select(0, entries.flatten()).view(codes.sizes());
    return (zeros_.defined() ? values - of_each(zeros_) : values) * of_each(scales_);
  }

  at::Tensor codes_, scales_, zeros_, meanings_, palette_of_row_, block_of_row_, block_of_column_;
};

/// A matrix of codes, [rows, columns] as it is packed.
class PackedMatrix : public torch::CustomClassHolder {
 public:
  explicit PackedMatrix(const QuantizedConstant& constant)
      : tensor_(constant.tensor), decoder_(tensor_->unchecked_view()) {}

  std::int64_t rows() const { return static_cast<std::int64_t>(decoder_.rows()); }
  std::int64_t columns() const { return static_cast<std::int64_t>(decoder_.cols()); }
  std::int64_t rows_at_once() const { return std::max<std::int64_t>(1, kMostDecoded / columns()); }

  /// [count, columns].
  at::Tensor decoded(std::int64_t first, std::int64_t count, at::Device device) const {
    tensor_->check_codes();
    if (!device.is_cpu()) return codes_on(device).decoded(first, count);
    at::Tensor values = at::empty({count, columns()}, at::kFloat);
    decode_rows(decoder_, static_cast<std::uint64_t>(first), floats_of(values), at::get_num_threads());
    return values;
  }

  /// [indices..., columns]; indices as ONNX's Gather has them, from the end where they are negative.
  at::Tensor picked(const at::Tensor& indices) const {
    tensor_->check_codes();
    const at::Tensor flat = indices.to(at::kLong).contiguous().flatten();
    std::vector<std::int64_t> sizes = indices.sizes().vec();
    sizes.push_back(columns());
    if (!indices.is_cpu()) {
      const at::Tensor own = at::where(flat < 0, flat + rows(), flat);
      return codes_on(indices.device()).picked(own).view(sizes);
    }
    at::Tensor values = at::empty({flat.numel(), columns()}, at::kFloat);
    const std::span<float> out = floats_of(values);
    const auto width = static_cast<std::size_t>(columns());
    for (std::int64_t i = 0; i < flat.numel(); ++i) {
      const std::int64_t index = flat.const_data_ptr<std::int64_t>()[i];
      const std::int64_t row = index < 0 ? index + rows() : index;
      if (row < 0 || row >= rows())
        throw Error("the index " + std::to_string(index) + " is none of " + std::to_string(rows()) + " rows");
      decoder_.values(static_cast<std::uint64_t>(row), 0,
                      out.subspan(static_cast<std::size_t>(i) * width, width));
    }
    return values.view(sizes);
  }

 private:
  /// Made where they are first asked for.
  const FarCodes& codes_on(at::Device device) const {
    if (!far_ || far_->device() != device)
      far_ = std::make_shared<const FarCodes>(decoder_, tensor_->encoding, tensor_->layout, device);
    return *far_;
  }

  static std::span<float> floats_of(at::Tensor& values) {
    return {values.data_ptr<float>(), static_cast<std::size_t>(values.numel())};
  }

  std::shared_ptr<const QuantizedTensor> tensor_;
  RowDecoder decoder_;
  mutable std::shared_ptr<const FarCodes> far_;
};

using Packed = c10::intrusive_ptr<PackedMatrix>;

/// One argument, so that autograd takes none of it for an input.
struct Factor {
  Packed matrix;
  bool rows_are_outputs = true;  ///< x M^T, else x M
};

at::Tensor product(const at::Tensor& x, const Factor& by) {
  const PackedMatrix& matrix = *by.matrix;
  if (!by.rows_are_outputs) return at::matmul(x, matrix.decoded(0, matrix.rows(), x.device()));
  std::vector<at::Tensor> parts;
  for (std::int64_t first = 0; first < matrix.rows(); first += matrix.rows_at_once()) {
    const std::int64_t count = std::min(matrix.rows_at_once(), matrix.rows() - first);
    parts.push_back(at::linear(x, matrix.decoded(first, count, x.device())));
  }
  return parts.size() == 1 ? parts[0] : at::cat(parts, -1);
}

at::Tensor product_back(const at::Tensor& gradient, const Factor& by) {
  const PackedMatrix& matrix = *by.matrix;
  if (!by.rows_are_outputs) return at::linear(gradient, matrix.decoded(0, matrix.rows(), gradient.device()));
  at::Tensor sum;
  for (std::int64_t first = 0; first < matrix.rows(); first += matrix.rows_at_once()) {
    const std::int64_t count = std::min(matrix.rows_at_once(), matrix.rows() - first);
    const at::Tensor part =
        at::matmul(gradient.narrow(-1, first, count), matrix.decoded(first, count, gradient.device()));
    sum = sum.defined() ? sum.add_(part) : part;
  }
  return sum;
}

struct PackedProduct : torch::autograd::Function<PackedProduct> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Factor& by) {
    context->saved_data["matrix"] = c10::IValue::make_capsule(by.matrix);
    context->saved_data["rows_are_outputs"] = by.rows_are_outputs;
    return product(x, by);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    if (!gradients[0].defined()) return {at::Tensor(), at::Tensor()};
    const c10::intrusive_ptr<torch::CustomClassHolder> held = context->saved_data["matrix"].toCapsule();
    const Factor by{c10::static_intrusive_pointer_cast<PackedMatrix>(held),
                    context->saved_data["rows_are_outputs"].toBool()};
    return {product_back(gradients[0], by), at::Tensor()};
  }
};

/// Products with the matrices of a stack, NumPy's: axes of x before its last two broadcast to those of the
/// stack.
class Stack : public torch::CustomClassHolder {
 public:
  Stack(Packed matrices, std::vector<std::int64_t> axes, bool rows_are_outputs)
      : matrices_(std::move(matrices)), axes_(std::move(axes)), rows_are_outputs_(rows_are_outputs) {}

  std::int64_t inputs() const { return rows_are_outputs_ ? matrices_->columns() : rows(); }
  std::int64_t outputs() const { return rows_are_outputs_ ? rows() : matrices_->columns(); }

  /// x is [..., rows, inputs], with as many axes as the stack at least.
  at::Tensor product(const at::Tensor& x) const {
    std::vector<std::int64_t> sizes = x.sizes().vec();
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      std::int64_t& size = sizes[sizes.size() - 2 - axes_.size() + i];
      if (size == 1) size = axes_[i];
    }
    sizes.back() = outputs();
    at::Tensor made = at::empty(sizes, x.options());
    for (std::int64_t at = 0; at < count(); ++at)
      part_of(made, at).copy_(at::matmul(part_of(x, at), matrix(at, x.device(), false)));
    return made;
  }

  /// Of x, whose sizes these are.
  at::Tensor product_back(const at::Tensor& gradient, at::IntArrayRef sizes) const {
    at::Tensor made = at::zeros(sizes, gradient.options());
    for (std::int64_t at = 0; at < count(); ++at) {
      const at::Tensor part = at::matmul(part_of(gradient, at), matrix(at, gradient.device(), true));
      at::Tensor to = part_of(made, at);
      to.add_(part.sum_to_size(to.sizes()));
    }
    return made;
  }

  void expect(const Node& node, const TypedTensor& x) const {
    const at::Tensor& of = x.tensor;
    const auto stack = static_cast<std::int64_t>(axes_.size());
    bool fits = of.dim() >= 1 && of.size(-1) == inputs();
    for (std::int64_t i = 0; fits && i < stack; ++i) {
      const std::int64_t axis = of.dim() - 2 - stack + i, size = axes_[static_cast<std::size_t>(i)];
      fits = axis < 0 || of.size(axis) == 1 || size == 1 || of.size(axis) == size;
    }
    if (!fits)
      throw Error(graph::text_of(node) + " multiplies by a stack of matrices for " +
                  std::to_string(inputs()) + " numbers, found " + text_of(x));
  }

  std::size_t axes() const { return axes_.size(); }

 private:
  std::int64_t count() const {
    std::int64_t all = 1;
    for (const std::int64_t size : axes_) all *= size;
    return all;
  }
  std::int64_t rows() const { return matrices_->rows() / count(); }

  /// [inputs, outputs], or for gradients the other way.
  at::Tensor matrix(std::int64_t at, at::Device device, bool is_back) const {
    const at::Tensor lying = matrices_->decoded(at * rows(), rows(), device);
    return rows_are_outputs_ != is_back ? lying.transpose(0, 1) : lying;
  }

  /// What of a tensor goes with a matrix of the stack.
  at::Tensor part_of(const at::Tensor& x, std::int64_t at) const {
    at::Tensor part = x;
    for (std::size_t i = axes_.size(); i-- > 0; at /= axes_[i]) {
      const std::int64_t axis = x.dim() - 2 - static_cast<std::int64_t>(axes_.size() - i);
      if (axes_[i] > 1 && x.size(axis) > 1) part = part.narrow(axis, at % axes_[i], 1);
    }
    return part;
  }

  Packed matrices_;
  std::vector<std::int64_t> axes_;  ///< sizes
  bool rows_are_outputs_;
};

struct StackedProduct : torch::autograd::Function<StackedProduct> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const c10::intrusive_ptr<Stack>& by) {
    context->saved_data["stack"] = c10::IValue::make_capsule(by);
    context->saved_data["sizes"] = x.sizes().vec();
    return by->product(x);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    if (!gradients[0].defined()) return {at::Tensor(), at::Tensor()};
    const auto stack = c10::static_intrusive_pointer_cast<Stack>(context->saved_data["stack"].toCapsule());
    return {stack->product_back(gradients[0], context->saved_data["sizes"].toIntVector()), at::Tensor()};
  }
};

/// The constant of codes that is input i of a node, where it is a matrix.
const QuantizedConstant* matrix_input(const Graph& graph, const Node& node, std::size_t i) {
  if (!node.has_input(i)) return nullptr;
  const auto found = graph.quantized.find(node.inputs[i]);
  if (found == graph.quantized.end() || found->second.axes.size() != 2) return nullptr;
  const EncodedLayout& layout = found->second.tensor->layout;
  const auto& shape = found->second.tensor->shape;
  return layout.matrix.rows == shape[0] && layout.matrix.cols == shape[1] ? &found->second : nullptr;
}

Plan::Replacement multiplied(Packed matrix, bool rows_are_outputs) {
  return [by = Factor{std::move(matrix), rows_are_outputs}](const Node& node,
                                                            const std::vector<TypedTensor>& arguments) {
    const at::Tensor& x = arguments[0].tensor;
    const std::int64_t width = by.rows_are_outputs ? by.matrix->columns() : by.matrix->rows();
    if (x.dim() < 1 || x.size(-1) != width)
      throw Error(graph::text_of(node) + " multiplies by a matrix for " + std::to_string(width) +
                  " numbers, found " + text_of(arguments[0]));
    const bool is_bare = x.dim() == 1;
    at::Tensor made = PackedProduct::apply(is_bare ? x.unsqueeze(0) : x, by);
    if (is_bare) made = made.squeeze(0);
    if (arguments.size() > 2 && arguments[2].defined()) made = made + arguments[2].tensor;  // of a Gemm
    return one(made, arguments[0].type);
  };
}

Plan::Replacement multiplied(c10::intrusive_ptr<Stack> stack) {
  return [stack = std::move(stack)](const Node& node, const std::vector<TypedTensor>& arguments) {
    stack->expect(node, arguments[0]);
    at::Tensor x = arguments[0].tensor;
    const bool is_bare = x.dim() == 1;
    while (x.dim() < static_cast<std::int64_t>(stack->axes()) + 2) x = x.unsqueeze(0);
    const at::Tensor made = StackedProduct::apply(x, stack);
    return one(is_bare ? made.squeeze(-2) : made, arguments[0].type);
  };
}

/// The stack of codes that is a MatMul's second input; null where it is none.
const QuantizedConstant* stack_input(const Graph& graph, const Node& node) {
  if (!graph::is_matrix_product(node) || !node.has_input(1)) return nullptr;
  const auto found = graph.quantized.find(node.inputs[1]);
  if (found == graph.quantized.end()) return nullptr;
  const QuantizedConstant& constant = found->second;
  const std::size_t stack = constant.tensor->encoding.stack_axes;
  const bool is_stack = stack > 0 && constant.axes.size() == stack + 2 &&
                        constant.tensor->layout.matrix.size() > 0 &&
                        graph::output_axis_of(constant.axes, stack);
  return is_stack ? &constant : nullptr;
}

bool is_plain_gemm(const Node& node) {
  return node.int_or("transA", 0) == 0 && node.float_or("alpha", 1) == 1 &&
         (!node.has_input(2) || node.float_or("beta", 1) == 1);
}

}  // namespace

std::optional<Plan::Replacement> packed_kernel(const Graph& graph, const Node& node) {
  if (const QuantizedConstant* stack = stack_input(graph, node);
      stack && !graph.quantized.contains(node.inputs[0])) {
    const auto& shape = stack->tensor->shape;
    const std::size_t axes = stack->tensor->encoding.stack_axes;
    return multiplied(c10::make_intrusive<Stack>(
        c10::make_intrusive<PackedMatrix>(*stack),
        std::vector<std::int64_t>(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axes)),
        *graph::output_axis_of(stack->axes, axes) == axes + 1));
  }
  if (node.is("MatMul") || (node.is("Gemm") && is_plain_gemm(node))) {
    const QuantizedConstant* constant = matrix_input(graph, node, 1);
    if (!constant || graph.quantized.contains(node.inputs[0]) ||
        (node.has_input(2) && graph.quantized.contains(node.inputs[2])))
      return std::nullopt;
    const bool is_transposed = constant->axes[0] == 1,
               wants_transposed = node.is("Gemm") && node.int_or("transB", 0) != 0;
    return multiplied(c10::make_intrusive<PackedMatrix>(*constant), is_transposed != wants_transposed);
  }
  if (node.is("Gather") && node.int_or("axis", 0) == 0) {
    const QuantizedConstant* constant = matrix_input(graph, node, 0);
    if (!constant || constant->axes[0] != 0) return std::nullopt;
    return [matrix = c10::make_intrusive<PackedMatrix>(*constant)](
               const Node&, const std::vector<TypedTensor>& arguments) {
      return one(matrix->picked(arguments[1].tensor), graph::ElementType::kFloat);
    };
  }
  return std::nullopt;
}

std::set<std::string> packed_constants(const Graph& graph) {
  std::set<std::string> packed, decoded(graph.outputs.begin(), graph.outputs.end());
  for (const Node& node : graph.nodes) {
    const bool takes_packed = packed_kernel(graph, node).has_value();
    for (const std::string& input : node.inputs)
      if (graph.quantized.contains(input)) (takes_packed ? packed : decoded).insert(input);
  }
  std::erase_if(packed, [&](const std::string& name) { return decoded.contains(name); });
  return packed;
}

}  // namespace crumb::libtorch
