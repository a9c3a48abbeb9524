// gemm_to_matmul, matmul_to_gemm and fold_transposes.
#include <algorithm>
#include <numeric>

#include "graph/edit.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/passes/passes.h"
#include "graph/strided_index.h"

namespace crumb::graph {
namespace {

class GemmSplitter {
 public:
  explicit GemmSplitter(Graph& graph) : graph_(graph) {}

  void go() {
    for (Node& node : std::exchange(graph_.nodes, {})) {
      if (node.is("Gemm")) {
        split(node);
      } else {
        nodes_.push_back(std::move(node));
      }
    }
    graph_.nodes = std::move(nodes_);
  }

 private:
  std::string add_node(const Node& gemm, const char* op, std::vector<std::string> inputs,
                       std::string output = {}, std::map<std::string, Attribute> attributes = {}) {
    if (output.empty()) {
      const Value* known = graph_.find(gemm.outputs[0]);
      output = add_value(graph_, gemm.name + "_" + op, {.type = known ? known->type : ElementType::kUnknown});
    }
    std::string name = gemm.name + "_" + op;
    for (int i = 1; std::ranges::find(nodes_, name, &Node::name) != nodes_.end(); ++i) {
      name = gemm.name + "_" + op + "_" + std::to_string(i);
    }
    nodes_.push_back({.name = std::move(name),
                      .op = op,
                      .version = gemm.version,
                      .inputs = std::move(inputs),
                      .outputs = {output},
                      .attributes = std::move(attributes)});
    return output;
  }

  std::string transposed_input(const Node& gemm, std::size_t i, const char* flag) {
    if (gemm.int_or(flag, 0) == 0) return gemm.inputs[i];
    const Tensor* constant = graph_.constant(gemm.inputs[i]);
    if (constant && can_transpose(*constant) && constant->rank() == 2) {
      return add_constant(graph_, gemm.inputs[i] + "_T",
                          transposed(*constant, std::vector<std::int64_t>{1, 0}));
    }
    return add_node(gemm, "Transpose", {gemm.inputs[i]}, {}, {{"perm", std::vector<std::int64_t>{1, 0}}});
  }

  /// Returns x * factor; a float constant absorbs the factor.
  std::string scaled(const Node& gemm, const std::string& value, float factor) {
    if (factor == 1) return value;
    const Tensor* constant = graph_.constant(value);
    if (constant && constant->type() == ElementType::kFloat) {
      std::vector<float> values = constant->to_floats();
      for (float& x : values) x *= factor;
      return add_constant(graph_, value + "_scaled", Tensor::floats(constant->shape(), values));
    }
    return add_node(gemm, "Mul",
                    {value, add_constant(graph_, gemm.name + "_factor", Tensor::scalar(factor))});
  }

  bool is_float(const Node& gemm) const {
    const Value* value = graph_.find(gemm.outputs[0]);
    return value && value->type == ElementType::kFloat;
  }

  void split(Node& gemm) {
    const float alpha = gemm.float_or("alpha", 1), beta = gemm.float_or("beta", 1);
    const bool is_whole = gemm.has_input(0) && gemm.has_input(1) && gemm.has_output(0);
    if (!is_whole || ((alpha != 1 || beta != 1) && !is_float(gemm))) {
      nodes_.push_back(std::move(gemm));
      return;
    }
    const std::string a = transposed_input(gemm, 0, "transA"), b = transposed_input(gemm, 1, "transB");
    const bool adds = gemm.has_input(2), multiplies = alpha != 1;
    std::string product = add_node(gemm, "MatMul", {a, b}, adds || multiplies ? "" : gemm.outputs[0]);
    nodes_.back().metadata = gemm.metadata;
    if (multiplies) {
      product =
          add_node(gemm, "Mul", {product, add_constant(graph_, gemm.name + "_alpha", Tensor::scalar(alpha))},
                   adds ? "" : gemm.outputs[0]);
    }
    if (adds) add_node(gemm, "Add", {product, scaled(gemm, gemm.inputs[2], beta)}, gemm.outputs[0]);
  }

  Graph& graph_;
  std::vector<Node> nodes_;
};

/// Whether an Add of this value to [M, N] keeps that shape: a scalar, a vector, or a row.
bool is_row(const Graph& graph, const std::string& name) {
  const Tensor* constant = graph.constant(name);
  return constant && (constant->rank() <= 1 || (constant->rank() == 2 && constant->shape()[0] == 1));
}

/// The MatMul becomes an empty node, so that links stay valid.
bool join(Graph& graph, const Links& links, std::size_t at) {
  if (!graph.nodes[at].is("MatMul")) return false;
  const Node product = graph.nodes[at];
  if (product.inputs.size() != 2 || product.outputs.size() != 1 || graph.rank_of(product.inputs[0]) != 2 ||
      graph.rank_of(product.inputs[1]) != 2) {
    return false;
  }
  if (const Value* value = graph.find(product.outputs[0]); !value || value->type != ElementType::kFloat)
    return false;
  const auto consumers = links.consumers(product.outputs[0]);
  if (consumers.size() != 1 || links.is_output(product.outputs[0])) return false;
  Node& add = graph.nodes[consumers[0]];
  if (!add.is("Add") || add.version < 7 || add.inputs.size() != 2) return false;
  const std::size_t other = add.inputs[0] == product.outputs[0] ? 1 : 0;
  if (!is_row(graph, add.inputs[other])) return false;
  add = {.name = add.name,
         .op = "Gemm",
         .version = add.version,
         .inputs = {product.inputs[0], product.inputs[1], add.inputs[other]},
         .outputs = add.outputs,
         .metadata = product.metadata};
  graph.nodes[at] = {};
  return true;
}

/// Transposes the parameters of a quantizer that have as many axes as its data; smaller ones must be scalars.
bool move_into_quantizer(Graph& graph, Node& quantizer, const std::vector<std::int64_t>& perm) {
  for (std::size_t i = 0; i < quantizer.inputs.size(); ++i) {
    const Tensor* constant = constant_input(graph, quantizer, i);
    if (!constant || !can_transpose(*constant)) return false;
    if (constant->shape().size() != perm.size() && constant->size() != 1) return false;
  }
  for (std::string& input : quantizer.inputs) {
    const Tensor* constant = graph.constant(input);
    if (constant->shape().size() != perm.size()) continue;
    input = add_constant(graph, input + "_T", transposed(*constant, perm));
  }
  return true;
}

/// Removed nodes become empty ones, so that links stay valid: `now[i]` produces what node i did.
bool fold_transpose(Graph& graph, const Links& links, std::vector<std::size_t>& now, std::size_t at) {
  if (!graph.nodes[at].is("Transpose")) return false;
  const Node node = graph.nodes[at];
  if (!node.has_input(0) || !node.has_output(0)) return false;
  const auto perm_for = [&](std::size_t rank) {
    std::vector<std::int64_t> reversed(rank);
    std::iota(reversed.rbegin(), reversed.rend(), 0);
    return node.ints_or("perm", reversed);
  };
  if (links.is_output(node.outputs[0])) return false;
  if (const Tensor* constant = graph.constant(node.inputs[0])) {
    const auto perm = perm_for(constant->shape().size());
    if (!can_transpose(*constant) || !is_permutation(perm, constant->shape().size())) return false;
    Tensor moved = transposed(*constant, perm);
    Value known = value_of(moved);
    known.annotations = std::exchange(graph.values[node.outputs[0]].annotations, {});
    graph.values[node.outputs[0]] = std::move(known);
    graph.nodes[at] = {};
    graph.initializers.emplace(node.outputs[0], std::move(moved));
    return true;
  }
  const std::size_t made_by = links.producer(node.inputs[0]);
  if (made_by == Links::kNone || links.consumers(node.inputs[0]).size() != 1 ||
      links.is_output(node.inputs[0])) {
    return false;
  }
  Node& quantizer = graph.nodes[now[made_by]];
  if (!is_quantizer(quantizer)) return false;
  const Tensor* data = constant_input(graph, quantizer, 0);
  if (!data) return false;
  const auto perm = perm_for(data->shape().size());
  if (!is_permutation(perm, data->shape().size()) || !move_into_quantizer(graph, quantizer, perm))
    return false;
  quantizer.outputs[0] = node.outputs[0];
  graph.nodes[at] = {};
  now[at] = now[made_by];
  return true;
}

}  // namespace

Graph gemm_to_matmul(Graph graph) {
  graph = infer_shapes(std::move(graph));
  GemmSplitter(graph).go();
  return tidy(infer_shapes(std::move(graph)));
}

Graph matmul_to_gemm(Graph graph) {
  graph = infer_shapes(sorted(std::move(graph)));
  const Links links(graph);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) join(graph, links, i);
  return tidy(std::move(graph));
}

Graph fold_transposes(Graph graph) {
  graph = sorted(std::move(graph));
  const Links links(graph);
  std::vector<std::size_t> now(graph.nodes.size());
  std::iota(now.begin(), now.end(), 0);
  for (std::size_t i = 0; i < now.size(); ++i) fold_transpose(graph, links, now, i);
  return tidy(std::move(graph));
}

}  // namespace crumb::graph
