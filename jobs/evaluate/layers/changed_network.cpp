#include "jobs/evaluate/layers/changed_network.h"

#include <algorithm>
#include <map>

#include "graph/edit.h"
#include "jobs/evaluate/layers/matched_layers.h"

namespace crumb::jobs {
namespace {

using graph::Graph;
using graph::Links;
using graph::Node;
using graph::Tensor;

std::vector<std::size_t> data_inputs(const Node& node) {
  std::vector<std::size_t> inputs{0};
  for (std::size_t i = 1; node.is("Concat") && i < node.inputs.size(); ++i) inputs.push_back(i);
  return inputs;
}

/// Copies of nodes of another network, for one consumer.
class Copier {
 public:
  Copier(Graph& to, const LayeredNetwork& from) : to_(to), from_(from) {}

  /// Adds a copy of a node of either network, which takes `inputs`. Returns what it gives.
  std::string add(Node node, std::vector<std::string> inputs, const std::string& like) {
    node.inputs = std::move(inputs);
    node.name = to_.unused_node_name(node.name);
    const graph::Value* known = to_.find(like);
    node.outputs = {add_value(to_, node.outputs[0], known ? *known : graph::Value())};
    if (!node.domain.empty() && !to_.opsets.contains(node.domain)) to_.opsets[node.domain] = node.version;
    nodes_.push_back(node);
    return node.outputs[0];
  }

  /// The other network's quantizer behind a value of this one.
  std::string quantizer(const Node& quantizer, const std::string& value) {
    std::map<std::string, std::string> copies{{quantizer.inputs[0], value}};
    std::vector<std::string> inputs;
    for (const std::string& input : quantizer.inputs) inputs.push_back(copy(input, copies));
    return add(quantizer, std::move(inputs), value);
  }

  /// Copies in the order in which they run.
  std::vector<Node> take() { return std::move(nodes_); }

 private:
  /// A parameter of a quantizer: a constant, or what nodes compute from the quantizer's input.
  std::string copy(const std::string& value, std::map<std::string, std::string>& copies) {
    if (const auto found = copies.find(value); value.empty() || found != copies.end())
      return value.empty() ? value : found->second;
    const Graph& from = from_.graph();
    const std::size_t maker = from_.links().producer(value);
    if (maker == Links::kNone) {
      if (const Tensor* constant = from.constant(value))
        return copies[value] = add_constant(to_, value, *constant);
      if (const auto values = from_.values_of(value))
        return copies[value] = add_constant(to_, value, *values);
      return value;  // an input of the network
    }
    const Node& node = from.nodes[maker];
    std::vector<std::string> inputs;
    for (const std::string& input : node.inputs) inputs.push_back(copy(input, copies));
    Node made = node;
    made.inputs = std::move(inputs);
    made.name = to_.unused_node_name(node.name);
    for (std::string& output : made.outputs)
      if (!output.empty()) output = copies[output] = add_value(to_, output, graph::Value());
    nodes_.push_back(std::move(made));
    return copies.at(value);
  }

  Graph& to_;
  const LayeredNetwork& from_;
  std::vector<Node> nodes_;
};

class Planter {
 public:
  Planter(Graph& graph, const LayerPair& pair) : pair_(pair), copier_(graph, *pair.model) {}

  /// The baseline's value behind the quantizers that the model's value comes through; itself where there are
  /// none.
  std::string quantized(const std::string& of_model, const std::string& of_baseline) {
    const LayeredNetwork& model = *pair_.model;
    if (model.quantizers_before(of_model).empty()) return of_baseline;
    const Node& node = model.graph().nodes[model.links().producer(of_model)];
    if (graph::is_quantizer(node)) return copier_.quantizer(node, of_baseline);
    const Node* own = same_node(node, of_baseline);
    if (!own) {  // the quantizer's own numbers do not depend on where elements are
      const std::size_t first = model.quantizers_before(of_model).front();
      return copier_.quantizer(model.graph().nodes[first], of_baseline);
    }
    std::vector<std::string> inputs = own->inputs;
    for (const std::size_t i : data_inputs(*own)) inputs[i] = quantized(node.inputs[i], own->inputs[i]);
    return copier_.add(*own, std::move(inputs), of_baseline);
  }

  std::vector<Node> take() { return copier_.take(); }

 private:
  const Node* same_node(const Node& node, const std::string& of_baseline) const {
    const std::size_t maker = pair_.baseline->links().producer(of_baseline);
    if (maker == Links::kNone) return nullptr;
    const Node& own = pair_.baseline->graph().nodes[maker];
    return own.op == node.op && own.domain == node.domain && own.inputs.size() == node.inputs.size() &&
                   own.outputs.size() == 1
               ? &own
               : nullptr;
  }

  const LayerPair& pair_;
  Copier copier_;
};

/// The model's value in front of the quantizers that it comes through.
class Remover {
 public:
  Remover(Graph& graph, const LayeredNetwork& model) : model_(model), copier_(graph, model) {}

  std::string in_floats(const std::string& value) {
    if (model_.quantizers_before(value).empty()) return value;
    const Node& node = model_.graph().nodes[model_.links().producer(value)];
    if (graph::is_quantizer(node)) return node.inputs[0];
    std::vector<std::string> inputs = node.inputs;
    for (const std::size_t i : data_inputs(node)) inputs[i] = in_floats(inputs[i]);
    return copier_.add(node, std::move(inputs), value);
  }

  std::vector<Node> take() { return copier_.take(); }

 private:
  const LayeredNetwork& model_;
  Copier copier_;
};

void set_weights(Graph& graph, const LayeredNetwork& network, const NetworkLayer& layer,
                 const std::vector<Tensor>& weights) {
  for (std::size_t i = 0; i < weights.size(); ++i)
    graph.nodes[layer.node].inputs[layer.weights[i].at.input] =
        add_constant(graph, network.node(layer).name + "_weight", weights[i]);
}

void insert_before(Graph& graph, std::size_t node, std::vector<Node> nodes) {
  graph.nodes.insert(graph.nodes.begin() + static_cast<std::ptrdiff_t>(node),
                     std::make_move_iterator(nodes.begin()), std::make_move_iterator(nodes.end()));
}

}  // namespace

std::optional<std::vector<Tensor>> model_weights_of(const LayerPair& pair) {
  std::vector<Tensor> made;
  for (std::size_t i = 0; i < pair.of_model->weights.size(); ++i) {
    const auto values = pair.model->values_of(pair.of_model->weights[i].value);
    if (!values) return {};
    made.push_back(laid_out_for(*pair.baseline, *pair.of_baseline, i, *pair.model, *pair.of_model, *values));
  }
  return made;
}

std::optional<std::vector<Tensor>> baseline_weights_of(const LayerPair& pair) {
  std::vector<Tensor> made;
  for (const LayerWeight& weight : pair.of_baseline->weights) {
    const auto values = pair.baseline->values_of(weight.value);
    if (!values) return {};
    made.push_back(*values);
  }
  return made;
}

Graph with_model_layer(const LayerPair& pair, const std::vector<Tensor>& weights) {
  Graph graph = pair.baseline->graph();
  set_weights(graph, *pair.baseline, *pair.of_baseline, weights);
  if (!pair.of_model->data || !pair.of_baseline->data) return graph;
  Planter planter(graph, pair);
  std::string& input = graph.nodes[pair.of_baseline->node].inputs[*pair.of_baseline->data];
  input = planter.quantized(pair.model->node(*pair.of_model).inputs[*pair.of_model->data], input);
  insert_before(graph, pair.of_baseline->node, planter.take());
  return graph;
}

Graph with_baseline_layers(std::vector<PutBack> layers) {
  Graph graph = layers.at(0).pair.model->graph();
  // From the last one on, so that nodes which are inserted move none that is still to come.
  std::ranges::sort(layers, std::ranges::greater(),
                    [](const PutBack& layer) { return layer.pair.of_model->node; });
  for (const PutBack& layer : layers) {
    const LayerPair& pair = layer.pair;
    std::vector<Tensor> own;
    for (std::size_t i = 0; i < layer.weights.size(); ++i)
      own.push_back(
          laid_out_for(*pair.model, *pair.of_model, i, *pair.baseline, *pair.of_baseline, layer.weights[i]));
    set_weights(graph, *pair.model, *pair.of_model, own);
    if (!layer.input || !pair.of_model->data) continue;
    Remover remover(graph, *pair.model);
    std::string& value = graph.nodes[pair.of_model->node].inputs[*pair.of_model->data];
    value = remover.in_floats(value);
    insert_before(graph, pair.of_model->node, remover.take());
  }
  return graph;
}

}  // namespace crumb::jobs
