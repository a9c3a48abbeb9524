#include "export/qcdq/block_products.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "graph/certificate.h"
#include "graph/edit.h"
#include "graph/onnx/block_operators.h"

namespace crumb::exporting {

using graph::Graph;
using graph::Node;
using graph::QuantizedConstant;
using graph::Tensor;

namespace {

constexpr std::int64_t kFloatSums = 1;  // accuracy_level: the input stays float32
constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;

/// Whether the constant is the second operand of a MatMul, a matrix whose outputs are the rows of codes.
bool is_weight_of(const Node& node, const Graph& graph) {
  if (!node.is("MatMul") || !node.has_input(1) || !node.has_output(0)) return false;
  const auto found = graph.quantized.find(node.inputs[1]);
  return found != graph.quantized.end() && found->second.axes == std::vector<std::int64_t>{1, 0} &&
         found->second.tensor->encoding.stack_axes == 0 && found->second.tensor->layout.matrix.size() > 0;
}

Tensor values_of(const QuantizedConstant& constant) {
  return Tensor::in_parts(
      graph::ElementType::kFloat, constant.shape(), [constant](std::uint64_t first, std::span<std::byte> to) {
        graph::read_values(constant, first / sizeof(float),
                           {reinterpret_cast<float*>(to.data()), to.size() / sizeof(float)});
      });
}

/// Whether nothing but these products takes the constant.
bool is_only_for(const Graph& graph, const std::string& constant, std::size_t products) {
  std::size_t uses = static_cast<std::size_t>(std::ranges::count(graph.outputs, constant));
  for (const Node& node : graph.nodes)
    uses += static_cast<std::size_t>(std::ranges::count(node.inputs, constant));
  return uses == products;
}

/// "element 5 is 3, expected 2"; empty where all are the same.
std::string first_difference(std::span<const float> meant, std::span<const float> found,
                             std::uint64_t first) {
  for (std::size_t i = 0; i < meant.size(); ++i)
    if (meant[i] != found[i])
      return "element " + std::to_string(first + i) + " is " + number_text(found[i]) + ", expected " +
             number_text(meant[i]);
  return "";
}

std::string difference(const BlockProduct& meant, const QuantizedConstant& found) {
  if (meant.constant.shape() != found.shape()) return "its weight has another shape";
  const std::uint64_t size = meant.constant.tensor->layout.matrix.size();
  const bool has_levels = meant.constant.tensor->encoding.zero != ZeroPoint::kMinimum;
  std::vector<float> a, b;
  for (std::uint64_t at = 0; at < size; at += kPiece) {
    a.resize(std::min(kPiece, size - at));
    b.resize(a.size());
    graph::read_values(meant.constant, at, a);
    graph::read_values(found, at, b);
    if (auto text = first_difference(a, b, at); !text.empty()) return "values: " + text;
    if (!has_levels) continue;
    graph::read_levels(meant.constant, at, a);
    graph::read_levels(found, at, b);
    for (float& level : a) level = std::ldexp(level, meant.weight.doublings);
    if (auto text = first_difference(a, b, at); !text.empty()) return "codes: " + text;
  }
  return "";
}

}  // namespace

BlockProducts take_block_products(Graph& graph) {
  std::map<std::string, std::vector<std::size_t>> nodes;  // by their weights
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (is_weight_of(graph.nodes[i], graph)) nodes[graph.nodes[i].inputs[1]].push_back(i);
  if (nodes.empty())
    throw Error("no MatMul of the network has packed weights, which " + std::string(kMatMulNBits) +
                " takes: quantize it first (crumb quantize), or leave out --weights-as");
  BlockProducts products;
  std::string misfits;
  for (const auto& [name, users] : nodes) {
    const QuantizedConstant constant = graph.quantized.at(name);
    const Result<BlockWeight> weight = find_block_weight(constant);
    if (!weight.ok()) {
      misfits += (misfits.empty() ? "" : "; ") + quote_text(name) + " " + weight.failure().message;
      continue;
    }
    std::string own = name;
    if (is_only_for(graph, name, users.size())) {
      graph.quantized.erase(name);
      graph.initializers.insert_or_assign(name, values_of(constant));
    } else {
      own = graph::add_constant(graph, name + "_blocks", values_of(constant));
    }
    for (const std::size_t user : users) {
      graph.nodes[user].inputs[1] = own;
      graph.nodes[user].metadata.erase(graph::kAccumulatorKey);  // it speaks of sums of integers
    }
    products.emplace(own, BlockProduct{constant, weight.value()});
  }
  if (!misfits.empty())
    throw Error("weights that " + std::string(kMatMulNBits) + " does not hold: " + misfits);
  return products;
}

Graph put_block_products(Graph graph, const BlockProducts& products) {
  std::map<std::string, std::vector<std::string>> inputs;  // behind the first, by weight
  for (const auto& [name, product] : products) {
    BlockTensors tensors = tensors_of(product.constant, product.weight);
    graph.values[name] = graph::value_of(tensors.codes);
    graph.initializers.insert_or_assign(name, std::move(tensors.codes));
    std::vector<std::string>& of_weight = inputs[name];
    of_weight = {name, graph::add_constant(graph, name + "_scales", std::move(tensors.scales))};
    if (tensors.zeros)
      of_weight.push_back(graph::add_constant(graph, name + "_zero_points", std::move(*tensors.zeros)));
  }
  const std::string domain(graph::kOnnxruntimeDomain);
  for (Node& node : graph.nodes) {
    const auto found =
        node.is("MatMul") && node.has_input(1) ? products.find(node.inputs[1]) : products.end();
    if (found == products.end()) continue;
    const auto& [name, product] = *found;
    const auto& shape = product.constant.tensor->shape;
    node.op = kMatMulNBits;
    node.domain = domain;
    node.version = 1;
    node.inputs.resize(1);
    node.inputs.insert(node.inputs.end(), inputs.at(name).begin(), inputs.at(name).end());
    node.attributes = {{"K", static_cast<std::int64_t>(shape[1])},
                       {"N", static_cast<std::int64_t>(shape[0])},
                       {"bits", std::int64_t{product.weight.bits}},
                       {"block_size", product.weight.block},
                       {"accuracy_level", kFloatSums}};
    graph.opsets[domain] = 1;
  }
  return graph;
}

void expect_same_products(const Graph& meant, const BlockProducts& products, const Graph& found) {
  std::map<std::string, const Node*> makers;
  for (const Node& node : found.nodes)
    if (node.is("MatMul")) makers[node.outputs[0]] = &node;
  for (const Node& node : meant.nodes) {
    const auto product =
        node.is("MatMul") && node.has_input(1) ? products.find(node.inputs[1]) : products.end();
    if (product == products.end()) continue;
    const auto maker = makers.find(node.outputs[0]);
    const auto weight =
        maker == makers.end() ? found.quantized.end() : found.quantized.find(maker->second->inputs[1]);
    const std::string text = weight == found.quantized.end() ? "it is no product with packed weights"
                                                             : difference(product->second, weight->second);
    if (!text.empty()) throw Error(text_of(node) + " does not mean in the file what was meant: " + text);
  }
}

}  // namespace crumb::exporting
