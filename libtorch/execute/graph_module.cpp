#include "libtorch/execute/graph_module.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <set>

#include "base/files/text.h"
#include "graph/buffers.h"
#include "graph/choose.h"
#include "graph/loop_parts.h"
#include "graph/operator_traits.h"
#include "graph/qonnx/quantized_constants.h"
#include "graph/symbol_sizes.h"
#include "libtorch/execute/packed_kernels.h"

namespace crumb::libtorch {
namespace {

using graph::Graph;
using graph::Node;

/// Constants that say how a quantizer or a shape works: everything but the data of those operators. And those
/// that the graph calls buffers.
std::set<std::string> steering_constants(const Graph& graph) {
  std::set<std::string> found;
  for (const Node& node : graph.nodes) {
    if (!is_any(node, graph::trait::kSteered)) continue;
    for (std::size_t i = 1; i < node.inputs.size(); ++i) found.insert(node.inputs[i]);
  }
  for (const Node& node : graph.nodes) {
    if (!node.is("BatchNormalization")) continue;  // its running statistics
    for (std::size_t i = 3; i < node.inputs.size(); ++i) found.insert(node.inputs[i]);
  }
  found.merge(graph::buffers(graph));
  return found;
}

/// Nodes that a pass put on a side of a Choose must come behind its condition.
Graph in_order(Graph graph) { return graph::has_choose(graph) ? sorted(std::move(graph)) : graph; }

Graph with_codes(Graph graph, Codes codes) {
  if (codes == Codes::kDecoded) return graph::fold_quantized(std::move(graph));
  const std::set<std::string> kept = packed_constants(graph);
  auto quantized = graph.quantized;
  std::erase_if(quantized, [&](const auto& constant) { return !kept.contains(constant.first); });
  for (const std::string& name : kept) graph.quantized.erase(name);
  graph = graph::fold_quantized(std::move(graph));
  graph.quantized = std::move(quantized);
  return graph;
}

/// The child module of that name, which is made where there is none yet.
torch::nn::Module& child_of(torch::nn::Module& module, const std::string& name) {
  for (const auto& child : module.named_children()) {
    if (child.key() == name) return *child.value();
  }
  return *module.register_module(name, std::make_shared<torch::nn::Module>(name));
}

}  // namespace

std::string unsupported_nodes(const Graph& graph) {
  std::string text;
  const auto knows = [](const Node& node) { return find_operator(node.op, node.domain) != nullptr; };
  for (const Node& node : graph.nodes)
    for (const std::string& name : graph::unknown_nodes(node, knows))
      text += (text.empty() ? "" : ", ") + name;
  return text;
}

Graph graph_of_now(const GraphModule& module) {
  Graph graph = module.graph();
  for (auto& [name, constant] : graph.initializers) {
    if (graph::is_float(constant.type()))
      constant = to_constant({module.constant(name).detach(), constant.type()});
  }
  return graph;
}

GraphModule::GraphModule(Graph graph, const GraphModuleOptions& options)
    : torch::nn::Module("graph"), graph_(in_order(with_codes(std::move(graph), options.codes))) {
  if (const std::string nodes = unsupported_nodes(graph_); !nodes.empty()) {
    throw Error("operators that are not supported: " + nodes);
  }
  const std::set<std::string> steering = steering_constants(graph_);
  for (const auto& [name, constant] : graph_.initializers) {
    if (options.given.contains(name)) {
      constants_[name] = to_typed(constant);
      continue;
    }
    add_constant(name, options.borrows ? borrowed(constant) : to_typed(constant),
                 graph::is_float(constant.type()) && constant.rank() > 0 && !steering.contains(name));
  }
  for (const Node& node : graph_.nodes) {
    const std::optional<graph::Tensor> made = graph::constant_of(node);
    if (made && made->type() != graph::ElementType::kString)
      add_constant(node.outputs[0], to_typed(*made), false);
  }
  plan_.emplace(graph_, constants_);
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
    if (auto kernel = packed_kernel(graph_, graph_.nodes[i])) plan_->replace(i, std::move(*kernel));
}

void GraphModule::add_constant(const std::string& name, const TypedTensor& value, bool trains) {
  const bool own = value.tensor.is_floating_point() && graph::info(value.type).bits >= 32;
  torch::nn::Module* owner = this;
  std::string key = name;
  for (std::size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.')) {
    if (dot == 0 || dot + 1 == key.size()) break;
    owner = &child_of(*owner, key.substr(0, dot));
    key.erase(0, dot + 1);
  }
  for (char& c : key) {
    if (c == '.') c = '_';
  }
  while (owner->named_parameters(false).contains(key) || owner->named_buffers(false).contains(key))
    key += '_';
  at::Tensor& registered = trains && own ? owner->register_parameter(key, value.tensor)
                                         : owner->register_buffer(key, value.tensor);
  constants_[name] = {registered, value.type};
}

namespace {

/// Symbols by themselves, or (`are_sums`) sums of them.
void check_input(const graph::Graph& graph, const std::string& name, const TypedTensor& input, bool are_sums,
                 graph::SymbolSizes& symbols) {
  const graph::Value* value = graph.find(name);
  if (!input.defined()) throw Error("input " + quote_text(name) + " is missing");
  if (!value) return;
  const auto refuse = [&](const std::string& why) {
    throw Error("input " + quote_text(name) + ": expected " + std::string(graph::name_of(value->type)) + " " +
                (value->shape ? graph::text_of(*value->shape) : "") + ", found " + text_of(input) + why);
  };
  if (value->type != graph::ElementType::kUnknown && value->type != input.type) refuse("");
  if (!value->shape) return;
  const at::IntArrayRef sizes = input.tensor.sizes();
  if (sizes.size() != value->shape->size()) refuse("");
  if (const auto axis = graph::misfit(*value->shape, {sizes.data(), sizes.size()}, are_sums, symbols)) {
    const graph::Dim& dim = (*value->shape)[*axis];
    refuse(dim.known()
               ? ""
               : ", where " + quote_text(dim.symbol) + " is " + std::to_string(*symbols.find(dim.symbol)));
  }
}

}  // namespace

void GraphModule::check_inputs(const std::vector<TypedTensor>& inputs) const {
  if (inputs.size() != graph_.inputs.size()) {
    throw Error("the graph takes " + std::to_string(graph_.inputs.size()) + " inputs, found " +
                std::to_string(inputs.size()));
  }
  graph::SymbolSizes symbols;
  // Sums of symbols behind these, of which other inputs may say them.
  for (const bool are_sums : {false, true})
    for (std::size_t i = 0; i < inputs.size(); ++i)
      check_input(graph_, graph_.inputs[i], inputs[i], are_sums, symbols);
}

std::vector<TypedTensor> GraphModule::run(std::vector<TypedTensor> inputs, const Watch& watch,
                                          const Plan::Constants& instead) const {
  check_inputs(inputs);
  const bool folded = frozen_ && !watch && instead.empty();
  return (folded ? *frozen_ : *plan_).run(graph_, std::move(inputs), watch, instead);
}

void GraphModule::replace_maker(const std::string& value, Plan::Replacement replacement) {
  const auto makes = [&](const Node& node) {
    return std::ranges::find(node.outputs, value) != node.outputs.end();
  };
  const auto maker = std::ranges::find_if(graph_.nodes, makes);
  if (maker == graph_.nodes.end()) throw Error("no node makes " + quote_text(value));
  plan_->replace(static_cast<std::size_t>(maker - graph_.nodes.begin()), std::move(replacement));
  if (frozen_) freeze();
}

void GraphModule::freeze() { frozen_ = plan_->folded(graph_); }

}  // namespace crumb::libtorch
