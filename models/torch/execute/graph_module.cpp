#include "models/torch/execute/graph_module.h"

#include <torch/torch.h>

#include <set>
#include <sstream>

#include "formats/io/text.h"

namespace crumb::torch_ops {
namespace {

using graph::Graph;
using graph::Node;

/// Constants that say how a quantizer or a shape works: everything but the data of those operators. And those that the
/// graph calls buffers.
std::set<std::string> steering_constants(const Graph& graph) {
  static const std::set<std::string, std::less<>> kSteered = {
      "Quant", "IntQuant",    "BipolarQuant", "Trunc",          "FloatQuant",       "MultiThreshold",
      "Clip",  "Resize",      "Upsample",     "QuantizeLinear", "DequantizeLinear", "Pow",
      "Pad",   "QLinearConv", "QLinearMatMul"};
  std::set<std::string> found;
  for (const Node& node : graph.nodes) {
    if (!kSteered.contains(node.op)) continue;
    for (std::size_t i = 1; i < node.inputs.size(); ++i) found.insert(node.inputs[i]);
  }
  for (const Node& node : graph.nodes) {
    if (!node.is("BatchNormalization")) continue;  // its running statistics
    for (std::size_t i = 3; i < node.inputs.size(); ++i) found.insert(node.inputs[i]);
  }
  if (const auto buffers = graph.metadata.find(kBuffersKey); buffers != graph.metadata.end()) {
    std::istringstream lines(buffers->second);
    for (std::string name; std::getline(lines, name);) found.insert(name);
  }
  return found;
}

/// The child module of that name, made where there is none.
torch::nn::Module& child_of(torch::nn::Module& module, const std::string& name) {
  for (const auto& child : module.named_children()) {
    if (child.key() == name) return *child.value();
  }
  return *module.register_module(name, std::make_shared<torch::nn::Module>(name));
}

std::string input_text(const std::vector<TypedTensor>& inputs) {
  std::string text;
  for (const TypedTensor& input : inputs) text += (text.empty() ? "" : ", ") + text_of(input);
  return text;
}

}  // namespace

std::string unsupported_nodes(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes) {
    if (!find_operator(node.op, node.domain)) text += (text.empty() ? "" : ", ") + graph::text_of(node);
  }
  return text;
}

GraphModule::GraphModule(Graph graph) : torch::nn::Module("graph"), graph_(std::move(graph)) {
  if (const std::string nodes = unsupported_nodes(graph_); !nodes.empty()) {
    throw Error("operators that are not supported: " + nodes);
  }
  const std::set<std::string> steering = steering_constants(graph_);
  for (const auto& [name, constant] : graph_.initializers) {
    add_constant(name, constant,
                 graph::is_float(constant.type()) && constant.rank() > 0 && !steering.contains(name));
  }
  compile();
}

void GraphModule::add_constant(const std::string& name, const graph::Tensor& constant, bool trains) {
  const TypedTensor value = to_typed(constant);
  const bool own = value.tensor.is_floating_point() && graph::info(value.type).bits >= 16;
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
    key += "_";
  at::Tensor& registered = trains && own ? owner->register_parameter(key, value.tensor)
                                         : owner->register_buffer(key, value.tensor);
  constants_[name] = {registered, value.type};
}

void GraphModule::compile() {
  std::map<std::string, std::size_t> slots;
  const auto slot_of = [&](const std::string& value) {
    return value.empty() ? kNoSlot : slots.try_emplace(value, slots.size()).first->second;
  };
  for (const auto& [name, constant] : graph_.initializers) {
    constant_slots_.emplace_back(slot_of(name), constants_.at(name));
  }
  for (const std::string& input : graph_.inputs) input_slots_.push_back(slot_of(input));
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    Step step{.node = i, .kernel = find_operator(node.op, node.domain)};
    for (const std::string& input : node.inputs) step.inputs.push_back(slot_of(input));
    for (const std::string& output : node.outputs) step.outputs.push_back(slot_of(output));
    steps_.push_back(std::move(step));
  }
  for (const std::string& output : graph_.outputs) output_slots_.push_back(slot_of(output));
  slots_ = slots.size();

  std::set<std::size_t> wanted(output_slots_.begin(), output_slots_.end());
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    for (const auto* used : {&step->inputs, &step->outputs}) {
      for (const std::size_t slot : *used) {
        if (slot != kNoSlot && wanted.insert(slot).second) step->last_used.push_back(slot);
      }
    }
  }
}

void GraphModule::check_inputs(const std::vector<TypedTensor>& inputs) const {
  if (inputs.size() != graph_.inputs.size()) {
    throw Error("the graph takes " + std::to_string(graph_.inputs.size()) + " inputs, found " +
                std::to_string(inputs.size()));
  }
  std::map<std::string, std::int64_t> symbols;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = graph_.inputs[i];
    const graph::Value* value = graph_.find(name);
    if (!inputs[i].defined()) throw Error("input " + quote_text(name) + " is missing");
    if (!value) continue;
    const auto refuse = [&](const std::string& why) {
      throw Error("input " + quote_text(name) + ": expected " + std::string(graph::name_of(value->type)) +
                  " " + (value->shape ? graph::text_of(*value->shape) : "") + ", found " +
                  text_of(inputs[i]) + why);
    };
    if (value->type != graph::ElementType::kUnknown && value->type != inputs[i].type) refuse("");
    if (!value->shape) continue;
    const at::IntArrayRef sizes = inputs[i].tensor.sizes();
    if (sizes.size() != value->shape->size()) refuse("");
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
      const graph::Dim& dim = (*value->shape)[axis];
      if (dim.known() && dim.size != sizes[axis]) refuse("");
      if (dim.known() || dim.symbol.empty()) continue;
      const auto [known, fresh] = symbols.emplace(dim.symbol, sizes[axis]);
      if (!fresh && known->second != sizes[axis]) {
        refuse(", where " + quote_text(dim.symbol) + " is " + std::to_string(known->second));
      }
    }
  }
}

std::vector<TypedTensor> GraphModule::run(std::vector<TypedTensor> inputs, const Watch& watch) const {
  check_inputs(inputs);
  std::vector<TypedTensor> values(slots_);
  for (const auto& [slot, constant] : constant_slots_) values[slot] = constant;
  for (std::size_t i = 0; i < inputs.size(); ++i) values[input_slots_[i]] = std::move(inputs[i]);
  inputs.clear();
  std::vector<TypedTensor> arguments;
  for (const Step& step : steps_) {
    const Node& node = graph_.nodes[step.node];
    arguments.clear();
    for (const std::size_t slot : step.inputs)
      arguments.push_back(slot == kNoSlot ? TypedTensor{} : values[slot]);
    Outputs made;
    try {
      made = step.kernel(Call(node, arguments));
    } catch (const c10::Error& error) {
      throw Error(graph::text_of(node) + " cannot take " + input_text(arguments) + ": " +
                  error.what_without_backtrace());
    }
    for (std::size_t i = 0; i < step.outputs.size(); ++i) {
      if (step.outputs[i] == kNoSlot) continue;
      if (i >= made.size() || !made[i].defined()) {
        throw Error(graph::text_of(node) + " does not make its output " + std::to_string(i));
      }
      values[step.outputs[i]] = watch ? watch(node.outputs[i], std::move(made[i])) : std::move(made[i]);
    }
    for (const std::size_t slot : step.last_used) values[slot] = {};
  }
  std::vector<TypedTensor> outputs;
  for (const std::size_t slot : output_slots_) outputs.push_back(values[slot]);
  return outputs;
}

}  // namespace crumb::torch_ops
