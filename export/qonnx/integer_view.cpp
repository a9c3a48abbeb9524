#include "export/qonnx/integer_view.h"

#include "export/lint/subject.h"
#include "graph/facts/constant_values.h"

namespace crumb::exporting {
namespace {

Node arithmetic(const Graph& graph, const std::string& op, const std::string& name,
                std::vector<std::string> inputs, std::string output) {
  return {.name = graph.unused_node_name(name),
          .op = op,
          .version = graph.opset(),
          .inputs = std::move(inputs),
          .outputs = {std::move(output)}};
}

Value plain(Value known) {
  known.annotations.clear();
  return known;
}

void split(Graph& graph, std::size_t at) {
  const std::string name = graph.nodes[at].name, scale = graph.nodes[at].inputs[kScale];
  const std::string data = graph.nodes[at].inputs[kData], output = graph.nodes[at].outputs[0];
  const Value known = plain(graph.values[output]);
  if (constant_input(graph, graph.nodes[at], kData)) {
    const auto made = graph::ConstantValues(graph).find(output);
    if (!made || made->levels.empty()) throw Error(text_of(graph.nodes[at]) + ": its integers are not known");
    const std::vector<float> levels(made->levels.begin(), made->levels.end());
    give_constant(graph, graph.nodes[at], kData, Tensor::floats(made->shape, levels));
  } else {
    const std::string divided = graph::add_value(graph, data + "_divided", plain(graph.values[data]));
    graph.nodes.push_back(arithmetic(graph, "Div", name + "_div", {data, scale}, divided));
    graph.nodes[at].inputs[kData] = divided;
  }
  give_constant(graph, graph.nodes[at], kScale, Tensor::scalar(1.0F));
  const std::string integers = graph::add_value(graph, output + "_integers", known);
  graph.nodes[at].outputs[0] = integers;
  graph.nodes.push_back(arithmetic(graph, "Mul", name + "_mul", {integers, scale}, output));
}

}  // namespace

Graph integer_view(Graph graph) {
  std::string refused;
  for (const Node& node : graph.nodes) {
    if (!is_qonnx_quantizer(node)) continue;
    if (is_integer_quantizer(node) && constant_input(graph, node, kScale)) continue;
    refused += (refused.empty() ? "" : ", ") + text_of(node);
  }
  if (!refused.empty()) {
    throw Error("an integer view needs Quant and BipolarQuant with constant scales; found " + refused);
  }
  return for_each_node(std::move(graph), [](Graph& all, std::size_t i) {
    const Tensor* scale =
        is_integer_quantizer(all.nodes[i]) ? constant_input(all, all.nodes[i], kScale) : nullptr;
    if (scale && uniform(scale) != 1.0F) split(all, i);
  });
}

}  // namespace crumb::exporting
