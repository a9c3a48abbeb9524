#include "graph/sparse_products.h"

#include <algorithm>
#include <limits>
#include <span>

#include "formats/half.h"
#include "graph/branches.h"
#include "graph/buffers.h"
#include "graph/edit.h"

namespace crumb::graph {
namespace {

constexpr std::string_view kGaps = ".outliers.gaps", kNumbers = ".outliers.numbers";
constexpr std::int64_t kMostSide = 1 << 24;  // rows and columns, at most, that are held one by one
constexpr std::int64_t kMostGap = std::numeric_limits<std::uint16_t>::max();

Tensor halves(ElementType type, const std::vector<std::uint16_t>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {type, {static_cast<std::int64_t>(values.size())}, {bytes.begin(), bytes.end()}};
}

/// Returns the constant behind a value, directly or through a Cast to that type, which may have been removed.
const Tensor* cast_constant(const Graph& graph, const Links& links, const std::string& value, ElementType to,
                            std::vector<std::size_t>& nodes) {
  const std::size_t at = links.producer(value);
  if (at == Links::kNone) {
    const Tensor* const constant = graph.constant(value);
    return constant != nullptr && constant->type() == to ? constant : nullptr;
  }
  if (!graph.nodes[at].is("Cast") || graph.nodes[at].int_or("to", 0) != onnx_number(to)) return nullptr;
  nodes.push_back(at);
  return graph.constant(graph.nodes[at].inputs.at(0));
}

/// Returns the node of that operator that produces a value, or null.
const Node* maker(const Graph& graph, const Links& links, const std::string& value, std::string_view op,
                  std::size_t inputs, std::vector<std::size_t>& nodes) {
  const std::size_t at = links.producer(value);
  if (at == Links::kNone || !graph.nodes[at].is(op) || graph.nodes[at].inputs.size() != inputs)
    return nullptr;
  nodes.push_back(at);
  return &graph.nodes[at];
}

bool is_zero(const Node& zeros) {
  const auto value = zeros.attributes.find("value");
  if (value == zeros.attributes.end()) return true;
  const auto* tensor = std::get_if<Tensor>(&value->second);
  return tensor != nullptr && tensor->type() == ElementType::kFloat && tensor->size() == 1 &&
         tensor->to_floats()[0] == 0;
}

}  // namespace

std::vector<float> as_kept(const std::vector<float>& numbers) {
  std::vector<float> kept;
  for (const float number : numbers) kept.push_back(f16_to_float(float_to_f16(number)));
  return kept;
}

std::vector<Branch> add_sparse(Graph& graph, const std::vector<LinearProduct>& products,
                               const SparseMatrix& matrix) {
  const std::string& module = products.at(0).module;
  std::vector<std::uint16_t> gaps, numbers;
  std::int64_t last = 0;
  for (std::size_t i = 0; i < matrix.places.size(); ++i) {
    for (; matrix.places[i] - last > kMostGap; last += kMostGap) {
      gaps.push_back(static_cast<std::uint16_t>(kMostGap));
      numbers.push_back(0);
    }
    gaps.push_back(static_cast<std::uint16_t>(matrix.places[i] - last));
    numbers.push_back(float_to_f16(matrix.numbers[i]));
    last = matrix.places[i];
  }
  const std::string stem = module + ".outliers";
  const auto cast = [&](std::string_view name, const Tensor& tensor, ElementType to,
                        const std::string& requested) {
    return add_node(graph, "Cast", requested, {add_constant(graph, module + std::string(name), tensor)},
                    {{"to", std::int64_t{onnx_number(to)}}});
  };
  const auto sizes = [&](const std::string& requested, const std::vector<std::int64_t>& values) {
    return add_constant(graph, stem + requested,
                        Tensor::ints({static_cast<std::int64_t>(values.size())}, values));
  };
  const std::string steps =
      cast(kGaps, halves(ElementType::kUint16, gaps), ElementType::kInt64, stem + ".steps");
  const std::string places =
      add_node(graph, "CumSum", stem + ".places",
               {steps, add_constant(graph, stem + ".axis", Tensor::scalar(std::int64_t{0}))});
  for (const std::string& value : {steps, places}) graph.values[value].type = ElementType::kInt64;
  add_buffer(graph, module + std::string(kNumbers));
  const std::string kept =
      cast(kNumbers, halves(ElementType::kFloat16, numbers), ElementType::kFloat, stem + ".floats");
  const std::string zeros =
      add_node(graph, "ConstantOfShape", stem + ".zeros", {sizes(".size", {matrix.rows * matrix.columns})});
  const std::string flat =
      add_node(graph, "ScatterElements", stem + ".flat", {zeros, places, kept}, {{"axis", std::int64_t{0}}});
  const std::string whole =
      add_node(graph, "Reshape", stem + ".matrix", {flat, sizes(".shape", {matrix.rows, matrix.columns})});
  graph.values[whole].shape = Shape{matrix.rows, matrix.columns};
  std::vector<Branch> made;
  for (const LinearProduct& product : products) {
    const std::string sum =
        add_node(graph, "MatMul", stem + ".product", {graph.nodes[product.node].inputs[0], whole});
    made.push_back(add_to_output(graph, product.node, sum, sum, "outliers", stem));
  }
  return made;
}

bool has_sparse(const Graph& graph, const LinearProduct& product) {
  return graph.constant(product.module + std::string(kNumbers)) != nullptr;
}

std::optional<SparseMatrix> sparse_matrix(const Graph& graph, const Links& links, const std::string& value,
                                          std::set<std::size_t>* nodes) {
  std::vector<std::size_t> found;
  const Node* const reshape = maker(graph, links, value, "Reshape", 2, found);
  const Node* const scatter =
      reshape ? maker(graph, links, reshape->inputs[0], "ScatterElements", 3, found) : nullptr;
  if (scatter == nullptr || scatter->int_or("axis", 0) != 0 ||
      scatter->text_or("reduction", "none") != "none")
    return std::nullopt;
  const Node* const zeros = maker(graph, links, scatter->inputs[0], "ConstantOfShape", 1, found);
  const Node* const sum = maker(graph, links, scatter->inputs[1], "CumSum", 2, found);
  if (zeros == nullptr || sum == nullptr || !is_zero(*zeros) || sum->int_or("exclusive", 0) != 0 ||
      sum->int_or("reverse", 0) != 0)
    return std::nullopt;
  const Tensor
      *const gaps = cast_constant(graph, links, sum->inputs[0], ElementType::kInt64, found),
             *const numbers = cast_constant(graph, links, scatter->inputs[2], ElementType::kFloat, found),
             *const axis = graph.constant(sum->inputs[1]), *const sizes = graph.constant(reshape->inputs[1]),
             *const size = graph.constant(zeros->inputs[0]);
  if (gaps == nullptr || numbers == nullptr || axis == nullptr || sizes == nullptr || size == nullptr ||
      axis->size() != 1 || !is_integer(axis->type()) || axis->to_ints()[0] != 0 || sizes->size() != 2 ||
      size->size() != 1 || gaps->rank() != 1 || gaps->shape() != numbers->shape() ||
      !is_integer(gaps->type()) ||
      (numbers->type() != ElementType::kFloat16 && numbers->type() != ElementType::kFloat))
    return std::nullopt;
  const std::vector<std::int64_t> shape = sizes->to_ints(), steps = gaps->to_ints();
  SparseMatrix made{.rows = shape[0], .columns = shape[1]};
  const Result<std::int64_t> count = count_elements(shape);
  if (!count.ok() || count.value() != size->to_ints()[0] || std::max(shape[0], shape[1]) > kMostSide)
    return std::nullopt;
  const std::vector<float> floats = numbers->to_floats();
  std::int64_t place = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i] < (i > 0 ? 1 : 0) || steps[i] >= count.value() - place) return std::nullopt;
    place += steps[i];
    if (floats[i] == 0) continue;
    made.places.push_back(place);
    made.numbers.push_back(floats[i]);
  }
  if (nodes != nullptr) nodes->insert(found.begin(), found.end());
  return made;
}

std::optional<SparseMatrix> sparse_beside(const Graph& graph, const Links& links,
                                          const LinearProduct& product) {
  if (!has_sparse(graph, product)) return std::nullopt;
  const std::string& x = graph.nodes[product.node].inputs[0];
  for (const std::size_t i : links.consumers(x)) {
    const Node& node = graph.nodes[i];
    if (!node.is("MatMul") || node.inputs[0] != x) continue;
    std::set<std::size_t> makers;
    std::optional<SparseMatrix> found = sparse_matrix(graph, links, node.inputs[1], &makers);
    if (found && std::ranges::any_of(makers, [&](std::size_t maker) {
          return graph.nodes[maker].has_input(0) &&
                 graph.nodes[maker].inputs[0] == product.module + std::string(kNumbers);
        }))
      return found;
  }
  return std::nullopt;
}

std::set<std::size_t> sparse_makers(const Graph& graph) {
  const Links links(graph);
  std::set<std::size_t> makers;
  for (const Node& node : graph.nodes)
    if (node.is("MatMul") && node.has_input(1)) sparse_matrix(graph, links, node.inputs[1], &makers);
  return makers;
}

}  // namespace crumb::graph
