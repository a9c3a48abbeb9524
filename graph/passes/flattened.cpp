#include "graph/passes/flattened.h"

#include <algorithm>

#include "graph/edit.h"
#include "graph/passes/layout.h"
#include "graph/strided_index.h"
#include "graph/weighted_product.h"

namespace crumb::graph {
namespace {

using Ints = std::vector<std::int64_t>;

/// Returns the axis of the second input that is summed with the first input's columns; nothing for other
/// nodes.
std::optional<std::size_t> rows_axis(const Node& node) {
  const auto product = weighted_product(node, 2);
  if (!product || product->is_convolution() || product->transposes_data) return {};
  return product->input_axis;
}

/// Whether the tensor is a matrix with rows to reorder, or broadcasts over them.
bool can_move(const Tensor* tensor, std::size_t axis, std::int64_t rows) {
  if (!tensor || !can_transpose(*tensor)) return false;
  if (tensor->size() == 1) return true;
  if (tensor->rank() == 1) return axis == 0;
  return tensor->rank() == 2 && (tensor->shape()[axis] == rows || tensor->shape()[axis] == 1);
}

Tensor moved(const Tensor& tensor, std::size_t axis, FlatOrder order) {
  if (tensor.rank() != 2 || tensor.shape()[axis] == 1) return tensor;
  const std::int64_t others = tensor.shape()[1 - axis];
  const Tensor table = axis == 0 ? tensor.reshaped({order.channels, order.positions, others})
                                 : tensor.reshaped({others, order.channels, order.positions});
  return transposed(table, axis == 0 ? Ints{1, 0, 2} : Ints{0, 2, 1}).reshaped(tensor.shape());
}

bool takes_rows(const Graph& graph, const Links& links, const Node& node, const std::string& value,
                FlatOrder order) {
  const auto axis = rows_axis(node);
  if (!axis || node.inputs.at(0) != value || std::ranges::count(node.inputs, value) != 1) return false;
  const std::int64_t rows = order.channels * order.positions;
  const std::string& weight = node.inputs.at(1);
  if (const Tensor* tensor = graph.constant(weight)) {
    return tensor->rank() == 2 && tensor->shape()[*axis] == rows && can_move(tensor, *axis, rows);
  }
  const std::size_t source = links.producer(weight);
  if (source == Links::kNone || links.consumers(weight).size() != 1 || links.is_output(weight)) return false;
  const Node& quantizer = graph.nodes[source];
  if (!is_quantizer(quantizer)) return false;
  const Tensor* data = constant_input(graph, quantizer, 0);
  if (!data || data->rank() != 2 || data->shape()[*axis] != rows) return false;
  for (std::size_t i = 0; i < quantizer.inputs.size(); ++i) {
    if (!can_move(constant_input(graph, quantizer, i), *axis, rows)) return false;
  }
  return true;
}

}  // namespace

std::optional<FlatOrder> flattened_order(const Graph& graph, const Node& node) {
  if ((!node.is("Flatten") && !node.is("Reshape")) || !node.has_input(0) || !node.has_output(0)) return {};
  const auto from = graph.shape_of(node.inputs[0]), to = graph.shape_of(node.outputs[0]);
  if (!from || !to || from->size() < 3 || to->size() != 2) return {};
  Ints sizes;
  for (std::size_t i = 1; i < from->size(); ++i) {
    if (!(*from)[i].known()) return {};
    sizes.push_back((*from)[i].size);
  }
  const auto count = count_elements(sizes);
  if (!count.ok() || count.value() == 0 || (*to)[1] != Dim(count.value())) return {};
  if (node.op == "Flatten" && node.int_or("axis", 1) != 1) return {};
  return FlatOrder{.channels = sizes[0], .positions = count.value() / sizes[0]};
}

bool FlattenedRows::begin(const Graph& graph, const Links& links, const std::string& value, FlatOrder order) {
  std::vector<std::string> open{value}, found;
  while (!open.empty()) {
    const std::string next = std::move(open.back());
    open.pop_back();
    if (links.is_output(next)) return false;
    found.push_back(next);
    for (const std::size_t at : links.consumers(next)) {
      const Node& node = graph.nodes[at];
      if (takes_rows(graph, links, node, next, order)) continue;
      if (!ignores_order(graph, node) || node.inputs[0] != next) return false;
      open.push_back(node.outputs[0]);
    }
  }
  for (const std::string& name : found) values_[name] = order;
  return true;
}

void FlattenedRows::follow(Graph& graph, const Node& node, Node& kept, std::vector<Node>& made) {
  const auto found = node.has_input(0) ? values_.find(node.inputs[0]) : values_.end();
  const auto axis = rows_axis(node);
  if (found == values_.end() || !axis) return;
  const FlatOrder order = found->second;
  const auto move_input = [&](Node& holder, std::size_t i) {
    const Tensor* tensor = constant_input(graph, holder, i);
    if (tensor->rank() != 2) return;
    holder.inputs[i] = add_constant(graph, holder.inputs[i] + "_rows", moved(*tensor, *axis, order));
  };
  if (graph.constant(node.inputs[1])) return move_input(kept, 1);
  const auto quantizer = std::ranges::find_if(
      made, [&](const Node& one) { return one.has_output(0) && one.outputs[0] == node.inputs[1]; });
  for (std::size_t i = 0; i < quantizer->inputs.size(); ++i) move_input(*quantizer, i);
}

}  // namespace crumb::graph
