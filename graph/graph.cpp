#include "graph/graph.h"

#include <algorithm>
#include <set>

#include "base/files/text.h"
#include "graph/choose.h"
#include "graph/operator_traits.h"

namespace crumb::graph {
namespace {

const char* kind_of(const Attribute& attribute) {
  constexpr const char* kKinds[] = {
      "an integer",         "a number",          "a text",          "a tensor",
      "a list of integers", "a list of numbers", "a list of texts", "of a kind that is not held"};
  return kKinds[attribute.index()];
}

template <class T>
T attribute_or(const Node& node, const std::string& name, T otherwise) {
  const auto found = node.attributes.find(name);
  if (found == node.attributes.end()) return otherwise;
  if (const T* value = std::get_if<T>(&found->second)) return *value;
  throw Error(text_of(node) + ": attribute '" + name + "' is " + kind_of(found->second) + ", expected " +
              kind_of(Attribute(std::move(otherwise))));
}

/// Returns the attribute where the node has it with that type, else null.
template <class T>
const T* held(const Node& node, const char* name) {
  const auto found = node.attributes.find(name);
  return found == node.attributes.end() ? nullptr : std::get_if<T>(&found->second);
}

template <class Taken>
std::string first_free(const std::string& requested, const Taken& taken) {
  std::string name = requested;
  for (int i = 1; taken(name); ++i) name = requested + "_" + std::to_string(i);
  return name;
}

}  // namespace

std::string text_of(const Shape& shape) {
  std::string text = "[";
  for (const Dim& dim : shape) {
    if (text.size() > 1) text += ", ";
    text += dim.known() ? std::to_string(dim.size) : dim.symbol.empty() ? "?" : dim.symbol;
  }
  return text + "]";
}

bool Value::is_static() const { return shape && std::ranges::all_of(*shape, &Dim::known); }

std::int64_t Node::int_or(const std::string& a, std::int64_t o) const { return attribute_or(*this, a, o); }
float Node::float_or(const std::string& a, float o) const { return attribute_or(*this, a, o); }
std::string Node::text_or(const std::string& a, const std::string& o) const {
  return attribute_or(*this, a, o);
}
std::vector<std::int64_t> Node::ints_or(const std::string& a, std::vector<std::int64_t> o) const {
  return attribute_or(*this, a, std::move(o));
}
std::vector<float> Node::floats_or(const std::string& a, std::vector<float> o) const {
  return attribute_or(*this, a, std::move(o));
}
std::vector<std::string> Node::texts_or(const std::string& a, std::vector<std::string> o) const {
  return attribute_or(*this, a, std::move(o));
}

std::string text_of(const Node& node) {
  const std::string op = is_choose(node)       ? "If"  // as people wrote it
                         : node.domain.empty() ? node.op
                                               : node.domain + "::" + node.op;
  return "node " + quote_text(node.name) + " (" + op + ")";
}

bool is_opaque(const Node& node) {
  return std::ranges::any_of(node.attributes,
                             [](const auto& entry) { return std::holds_alternative<Opaque>(entry.second); });
}

bool is_random(const Node& node) {
  return node.op.starts_with("Random") || node.op == "Bernoulli" || node.op == "Multinomial";
}

bool is_quantizer(const Node& node) { return is_any(node, trait::kQuantizer); }

std::optional<Tensor> constant_of(const Node& node) {
  if (!node.is("Constant")) return {};
  if (const auto* tensor = held<Tensor>(node, "value")) return *tensor;
  if (const auto* number = held<float>(node, "value_float")) return Tensor::scalar(*number);
  if (const auto* integer = held<std::int64_t>(node, "value_int")) return Tensor::scalar(*integer);
  if (const auto* floats = held<std::vector<float>>(node, "value_floats")) {
    return Tensor::floats({static_cast<std::int64_t>(floats->size())}, *floats);
  }
  if (const auto* ints = held<std::vector<std::int64_t>>(node, "value_ints")) {
    return Tensor::ints({static_cast<std::int64_t>(ints->size())}, *ints);
  }
  return {};
}

Value value_of(const Tensor& constant) {
  return {.type = constant.type(), .shape = Shape(constant.shape().begin(), constant.shape().end())};
}

const Tensor* Graph::constant(const std::string& value) const {
  const auto found = initializers.find(value);
  return found == initializers.end() ? nullptr : &found->second;
}

const Value* Graph::find(const std::string& value) const {
  const auto found = values.find(value);
  return found == values.end() ? nullptr : &found->second;
}

std::optional<Shape> Graph::shape_of(const std::string& value) const {
  if (const Tensor* tensor = constant(value)) return value_of(*tensor).shape;
  const Value* known = find(value);
  return known ? known->shape : std::nullopt;
}

std::optional<std::size_t> Graph::rank_of(const std::string& value) const {
  const auto shape = shape_of(value);
  return shape ? std::optional(shape->size()) : std::nullopt;
}

std::int64_t Graph::opset(std::string_view domain) const {
  const auto found = opsets.find(std::string(domain));
  return found == opsets.end() ? 1 : found->second;
}

std::string Graph::unused_value_name(const std::string& requested) const {
  return first_free(requested, [&](const std::string& value) {
    if (initializers.contains(value) || quantized.contains(value) || values.contains(value)) return true;
    if (std::ranges::find(inputs, value) != inputs.end()) return true;
    return std::ranges::any_of(nodes, [&](const Node& node) {
      return std::ranges::find(node.outputs, value) != node.outputs.end();
    });
  });
}

std::string Graph::unused_node_name(const std::string& requested) const {
  return first_free(requested, [&](const std::string& taken) {
    return std::ranges::find(nodes, taken, &Node::name) != nodes.end();
  });
}

Links::Links(const Graph& graph) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const std::string& value : graph.nodes[i].outputs) {
      if (!value.empty()) producers_[value] = i;
    }
    for (const std::string& value : graph.nodes[i].inputs) {
      if (!value.empty()) consumers_[value].push_back(i);
    }
  }
  for (const std::string& value : graph.outputs) outputs_[value] = true;
}

std::size_t Links::producer(const std::string& value) const {
  const auto found = producers_.find(value);
  return found == producers_.end() ? kNone : found->second;
}

std::span<const std::size_t> Links::consumers(const std::string& value) const {
  const auto found = consumers_.find(value);
  if (found == consumers_.end()) return {};
  return found->second;
}

bool Links::is_output(const std::string& value) const { return outputs_.contains(value); }

namespace {

/// The node that makes each value, or the number of nodes for what is there already. Throws where two make
/// one.
std::map<std::string, std::size_t> producers_of(const Graph& graph) {
  std::map<std::string, std::size_t> producers;
  const std::size_t there = graph.nodes.size();
  const auto make = [&](const std::string& value, std::size_t by) {
    if (value.empty()) return;
    const auto [known, fresh] = producers.emplace(value, by);
    if (fresh) return;
    const auto who = [&](std::size_t i) {
      return i == there ? "an input or initializer" : text_of(graph.nodes[i]);
    };
    throw Error("value " + quote_text(value) + " has two producers: " + who(known->second) + " and " +
                who(by));
  };
  for (const std::string& value : graph.inputs) make(value, there);
  for (const auto& [value, tensor] : graph.initializers) make(value, there);
  for (const auto& [value, constant] : graph.quantized) make(value, there);
  for (std::size_t i = 0; i < there; ++i) {
    for (const std::string& value : graph.nodes[i].outputs) make(value, i);
  }
  return producers;
}

/// Between nodes: how many inputs each waits for, and which wait for it.
struct Dependencies {
  std::vector<std::size_t> waits;
  std::vector<std::vector<std::size_t>> next;
};

/// Throws where nothing makes an input of a node or an output of the graph.
Dependencies dependencies_of(const Graph& graph) {
  const std::map<std::string, std::size_t> producers = producers_of(graph);
  const std::size_t there = graph.nodes.size();
  Dependencies made{std::vector<std::size_t>(there, 0), std::vector<std::vector<std::size_t>>(there)};
  for (std::size_t i = 0; i < there; ++i) {
    for (const std::string& value : graph.nodes[i].inputs) {
      if (value.empty()) continue;
      const auto found = producers.find(value);
      if (found == producers.end()) {
        throw Error(text_of(graph.nodes[i]) + " takes the value " + quote_text(value) +
                    ", which no node, input or initializer makes");
      }
      if (found->second == there) continue;
      ++made.waits[i];
      made.next[found->second].push_back(i);
    }
  }
  for (const std::string& value : graph.outputs) {
    if (!producers.contains(value)) {
      throw Error("the output " + quote_text(value) + " is made by no node, input or initializer");
    }
  }
  return made;
}

/// Takes the nodes in an order in which each comes behind those that it waits for.
std::vector<Node> in_order(Graph& graph, Dependencies dependencies) {
  auto& [waits, next] = dependencies;
  // The least index first, so that an order that is good already stays.
  std::set<std::size_t> ready;
  for (std::size_t i = 0; i < waits.size(); ++i) {
    if (waits[i] == 0) ready.insert(i);
  }
  std::vector<Node> nodes;
  nodes.reserve(waits.size());
  while (!ready.empty()) {
    const std::size_t i = *ready.begin();
    ready.erase(ready.begin());
    for (const std::size_t follower : next[i]) {
      if (--waits[follower] == 0) ready.insert(follower);
    }
    nodes.push_back(std::move(graph.nodes[i]));
  }
  if (nodes.size() < waits.size()) {
    const auto stuck = std::ranges::find_if(waits, [](std::size_t count) { return count > 0; });
    throw Error("the graph has a cycle through " +
                text_of(graph.nodes[static_cast<std::size_t>(stuck - waits.begin())]));
  }
  return nodes;
}

/// Makes the nodes on the sides of a Choose wait for its condition, too, in a sorted graph. A condition never
/// waits for what waits for it: what it takes is wanted by it as well, and so lies on neither side.
void wait_for_conditions(const Graph& graph, Dependencies& dependencies) {
  const Links links(graph);
  const Sides sides(graph, graph.outputs);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const std::size_t own = sides.of(i);
    if (own == Sides::kOutside || own == Sides::kNowhere) continue;
    for (std::size_t at = own; at != Sides::kOutside; at = sides.side(at).around) {
      const std::size_t maker = links.producer(graph.nodes[sides.side(at).choose].inputs[0]);
      if (maker == Links::kNone) continue;
      ++dependencies.waits[i];
      dependencies.next[maker].push_back(i);
    }
  }
}

}  // namespace

Graph sorted(Graph graph) {
  graph.nodes = in_order(graph, dependencies_of(graph));
  if (!has_choose(graph)) return graph;
  Dependencies dependencies = dependencies_of(graph);
  wait_for_conditions(graph, dependencies);
  graph.nodes = in_order(graph, std::move(dependencies));
  return graph;
}

}  // namespace crumb::graph
