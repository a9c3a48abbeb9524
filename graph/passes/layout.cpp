#include "graph/passes/layout.h"

#include <algorithm>
#include <numeric>

#include "graph/edit.h"
#include "graph/operator_traits.h"
#include "graph/strided_index.h"

namespace crumb::graph {
namespace {

using Ints = std::vector<std::int64_t>;

bool has_only_first_output(const Node& node) {
  for (std::size_t i = 1; i < node.outputs.size(); ++i) {
    if (node.has_output(i)) return false;
  }
  return node.has_output(0);
}

bool is_qonnx_elementwise(const Node& node) { return is_quantizer(node) || node.is("Trunc", kQonnxDomain); }

bool is_linear(const Node& node) { return node.is("QuantizeLinear") || node.is("DequantizeLinear"); }

bool is_one_number(const Graph& graph, const Node& node, std::size_t i) {
  const Tensor* constant = constant_input(graph, node, i);
  return constant && constant->size() == 1;
}

bool is_pad(const Graph& graph, const Node& node, std::size_t rank) {
  const Tensor* pads = constant_input(graph, node, 1);
  return node.is("Pad") && node.version >= 11 && pads && pads->type() == ElementType::kInt64 &&
         pads->size() == static_cast<std::int64_t>(2 * rank) && !node.has_input(3);
}

bool is_resize(const Graph& graph, const Node& node, std::size_t rank) {
  if (!node.is("Resize") || node.version < 11 || node.has("axes")) return false;
  if (const Tensor* roi = constant_input(graph, node, 1); node.has_input(1) && (!roi || roi->size() > 0)) {
    return false;
  }
  const std::string mode = node.text_or("mode", "nearest");
  if (mode != "nearest" && (mode != "linear" || rank != 4)) return false;
  std::size_t given = 0;
  for (const std::size_t i : {2, 3}) {
    if (!node.has_input(i)) continue;
    const Tensor* sizes = constant_input(graph, node, i);
    if (!sizes || (sizes->size() != 0 && sizes->size() != static_cast<std::int64_t>(rank))) return false;
    given += sizes->size() != 0 ? 1 : 0;
  }
  return given == 1;
}

/// Reorders a constant with one number for each axis, or (Pad) two.
void move_numbers(Graph& graph, Node& node, std::size_t i, std::size_t rank) {
  const Tensor* constant = constant_input(graph, node, i);
  if (!constant || constant->size() == 0) return;
  const std::size_t size = info(constant->type()).bits / 8;
  std::vector<std::byte> bytes;
  for (std::size_t first = 0; first < constant->bytes().size(); first += rank * size) {
    for (const std::int64_t axis : to_channels_last(rank)) {
      const auto number = constant->bytes().subspan(first + static_cast<std::size_t>(axis) * size, size);
      bytes.insert(bytes.end(), number.begin(), number.end());
    }
  }
  Tensor moved(constant->type(), constant->shape(), std::move(bytes));
  node.inputs[i] = add_constant(graph, node.inputs[i] + "_last", std::move(moved));
}

}  // namespace

Ints to_channels_last(std::size_t rank) {
  Ints perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  std::rotate(perm.begin() + 1, perm.begin() + 2, perm.end());
  return perm;
}

Ints to_channels_first(std::size_t rank) {
  Ints perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  std::rotate(perm.begin() + 1, perm.end() - 1, perm.end());
  return perm;
}

std::int64_t axis_channels_last(std::int64_t axis, std::size_t rank) {
  const auto count = static_cast<std::int64_t>(rank);
  if (axis < 0) axis += count;
  return axis == 0 ? 0 : axis == 1 ? count - 1 : axis - 1;
}

Shape channels_last_shape(const Shape& shape) {
  Shape made = shape;
  if (made.size() < 3) return made;
  std::rotate(made.begin() + 1, made.begin() + 2, made.end());
  return made;
}

std::size_t layout_rank(const Graph& graph, const Node& node) {
  const auto rank = node.has_output(0) ? graph.rank_of(node.outputs[0]) : std::nullopt;
  return rank && (*rank == 3 || *rank == 4) ? *rank : 0;
}

bool has_channels_last_form(const Graph& graph, const Node& node) {
  const std::size_t rank = layout_rank(graph, node);
  if (rank == 0 || node.domain != kOnnxDomain || !node.has_input(0) || !has_only_first_output(node))
    return false;
  if (graph.rank_of(node.inputs[0]) != rank) return false;
  if (node.op == "Conv") return node.has_input(1) && graph.rank_of(node.inputs[1]) == rank;
  if (node.op == "MaxPool") return node.int_or("storage_order", 0) == 0 && node.has("kernel_shape");
  if (node.op == "BatchNormalization") {
    return node.version >= 9 && node.inputs.size() == 5 && node.int_or("training_mode", 0) == 0;
  }
  if (node.op != "GlobalMaxPool") return false;
  const auto shape = graph.shape_of(node.inputs[0]);
  return std::all_of(shape->begin() + 2, shape->end(), [](const Dim& dim) { return dim.size > 0; });
}

bool moves_with_layout(const Node& node, std::size_t i) {
  if (is_any(node, trait::kOneDataInput)) return i == 0;
  if (node.domain != kQonnxDomain) return true;
  if (node.op == "FloatQuant" || node.op == "BipolarQuant") return i < 2;
  return i < 3;  // data, scale, zero point; Trunc's output scale is one number
}

bool follows_layout(const Graph& graph, const Node& node) {
  const std::size_t rank = layout_rank(graph, node);
  if (rank == 0 || !node.has_input(0) || is_opaque(node)) return false;
  if (node.op != "Split" && !has_only_first_output(node)) return false;
  if (is_qonnx_elementwise(node)) {
    for (std::size_t i = 1; i < node.inputs.size(); ++i) {
      if (!moves_with_layout(node, i) && !is_one_number(graph, node, i)) return false;
    }
    return graph.rank_of(node.inputs[0]) == rank;
  }
  if (node.domain != kOnnxDomain || node.version < 7) return false;
  if (is_any(node, trait::kOfSeveral)) return true;
  if (node.op == "Split") {
    return std::ranges::all_of(node.outputs,
                               [&](const std::string& value) { return graph.rank_of(value) == rank; });
  }
  if (node.op == "Concat") {
    return std::ranges::all_of(node.inputs,
                               [&](const std::string& value) { return graph.rank_of(value) == rank; });
  }
  if (graph.rank_of(node.inputs[0]) != rank) return false;
  if (is_linear(node)) {
    const auto scale = node.has_input(1) ? graph.rank_of(node.inputs[1]) : std::nullopt;
    return scale && *scale <= 1 && node.int_or("block_size", 0) == 0;
  }
  return is_any(node, trait::kOfOne) || is_pad(graph, node, rank) || is_resize(graph, node, rank);
}

Node with_axes_channels_last(Graph& graph, Node node, std::size_t rank) {
  if (is_any(node, trait::kHasAxis)) {
    const std::int64_t otherwise = is_linear(node) ? 1 : 0;
    const bool has_axis = !is_linear(node) || node.version >= 13;
    if (has_axis) node.attributes["axis"] = axis_channels_last(node.int_or("axis", otherwise), rank);
  }
  if (node.op == "Pad") move_numbers(graph, node, 1, rank);
  if (node.op == "Resize") {
    for (const std::size_t i : {2, 3}) move_numbers(graph, node, i, rank);
  }
  return node;
}

bool ignores_order(const Graph& graph, const Node& node) {
  if (!node.has_input(0) || !has_only_first_output(node) || is_opaque(node)) return false;
  const bool is_known =
      is_qonnx_elementwise(node) || (node.domain == kOnnxDomain && node.version >= 7 &&
                                     (is_any(node, trait::kOfOne | trait::kOfSeveral) || is_linear(node)));
  if (!is_known) return false;
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.has_input(i) && !is_one_number(graph, node, i)) return false;
  }
  return graph.rank_of(node.inputs[0]) == graph.rank_of(node.outputs[0]);
}

}  // namespace crumb::graph
