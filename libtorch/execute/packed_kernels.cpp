#include "libtorch/execute/packed_kernels.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <span>

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
    meanings_ =
        at::tensor(std::vector<float>(decoder.grid().values.begin(), decoder.grid().values.end())).to(device);
    const auto block_of = [&](std::int64_t count, std::uint64_t size, std::uint64_t blocks) {
      return at::floor_divide(at::arange(count, at::kLong), static_cast<std::int64_t>(size))
          .clamp_max(static_cast<std::int64_t>(blocks) - 1)
          .to(device);
    };
    block_of_row_ = block_of(codes.size(0), encoding.block_rows, layout.block_rows);
    block_of_column_ = block_of(codes.size(1), encoding.block_cols, layout.blocks_per_row);
  }

  at::Device device() const { return codes_.device(); }

  /// Rows, [count, columns]: what RowDecoder gives.
  at::Tensor decoded(std::int64_t first, std::int64_t count) const {
    return decoded(codes_.narrow(0, first, count), block_of_row_.narrow(0, first, count));
  }
  at::Tensor picked(const at::Tensor& rows) const {
    return decoded(codes_.index_select(0, rows), block_of_row_.index_select(0, rows));
  }

 private:
  at::Tensor decoded(const at::Tensor& codes, const at::Tensor& blocks) const {
    const auto of_each = [&](const at::Tensor& numbers) {
      return numbers.index_select(0, blocks).index_select(1, block_of_column_);
    };
    const at::Tensor values = meanings_.index_select(0, codes.flatten().to(at::kInt)).view(codes.sizes());
    return (zeros_.defined() ? values - of_each(zeros_) : values) * of_each(scales_);
  }

  at::Tensor codes_, scales_, zeros_, meanings_, block_of_row_, block_of_column_;
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

bool is_plain_gemm(const Node& node) {
  return node.int_or("transA", 0) == 0 && node.float_or("alpha", 1) == 1 &&
         (!node.has_input(2) || node.float_or("beta", 1) == 1);
}

}  // namespace

std::optional<Plan::Replacement> packed_kernel(const Graph& graph, const Node& node) {
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
