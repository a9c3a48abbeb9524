#include "graph/onnx/node_writer.h"

#include <algorithm>

namespace crumb::graph {

void NodeWriter::put(const std::string& output, const std::string& op, std::vector<std::string> inputs,
                     Attributes attributes, std::int64_t version) {
  std::string name = base() + "_" + op;
  for (int i = 1; !names_.insert(name).second; ++i) name = base() + "_" + op + "_" + std::to_string(i);
  while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
  made_.push_back({.name = std::move(name),
                   .op = op,
                   .version = std::max(version, graph_.opset()),
                   .inputs = std::move(inputs),
                   .outputs = {output},
                   .attributes = std::move(attributes),
                   .metadata = node_.metadata});
}

std::string NodeWriter::add(const std::string& op, std::vector<std::string> inputs, Attributes attributes,
                            std::int64_t version) {
  const std::string output = add_value(graph_, base() + "_" + op + "_out", {});
  put(output, op, std::move(inputs), std::move(attributes), version);
  return output;
}

std::vector<std::string> NodeWriter::add_of_several(const std::string& op, std::vector<std::string> inputs,
                                                    std::size_t outputs, Attributes attributes,
                                                    std::int64_t version) {
  add(op, std::move(inputs), std::move(attributes), version);
  std::vector<std::string>& made = made_.back().outputs;
  while (made.size() < outputs) made.push_back(add_value(graph_, base() + "_" + op + "_out", {}));
  return made;
}

std::string NodeWriter::rename(const std::string& value, const std::string& output) {
  graph_.values.erase(value);
  for (Node& node : made_) {
    std::ranges::replace(node.outputs, value, output);
    std::ranges::replace(node.inputs, value, output);
  }
  for (auto& [key, made] : made_once_)
    if (made == value) made = output;
  return output;
}

/// One number that has an axis loses it.
std::string NodeWriter::single(const std::string& name) {
  const Tensor* held = name.empty() ? nullptr : graph_.constant(name);
  return held && held->size() == 1 && held->rank() > 0 ? add_constant(graph_, name, held->reshaped({}))
                                                       : name;
}

std::string NodeWriter::as_long_as(const std::string& name, const std::string& other) {
  const Tensor *held = name.empty() ? nullptr : graph_.constant(name),
               *list = other.empty() ? nullptr : graph_.constant(other);
  if (!held || !list || held->size() != 1 || list->size() == 1) return name;
  std::vector<std::byte> bytes;
  for (std::int64_t i = 0; i < list->size(); ++i)
    bytes.insert(bytes.end(), held->bytes().begin(), held->bytes().end());
  return add_constant(graph_, name, Tensor(held->type(), list->shape(), std::move(bytes)));
}

std::string NodeWriter::dequantized(const std::string& value, const std::string& scale,
                                    const std::string& zero, std::optional<std::int64_t> axis) {
  const Tensor *scales = graph_.constant(scale), *zeros = zero.empty() ? nullptr : graph_.constant(zero);
  const bool is_single = scales ? scales->size() == 1 && (!zeros || zeros->size() == 1) : !axis;
  if (is_single) return add("DequantizeLinear", {value, single(scale), single(zero)});
  return add("DequantizeLinear", {value, as_long_as(scale, zero), as_long_as(zero, scale)},
             {{"axis", axis.value_or(1)}}, 13);
}

std::string NodeWriter::dequantized(std::size_t first, std::optional<std::int64_t> axis) {
  return dequantized(input(first), input(first + 1), input(first + 2), axis);
}

std::string NodeWriter::quantized(const std::string& value, std::size_t first, std::size_t like) {
  std::string zero = single(input(first + 1));
  if (zero.empty()) {
    const Value* typed = graph_.find(input(like));
    const ElementType type = typed ? typed->type : ElementType::kUnknown;
    if (is_integer(type)) {
      const std::int64_t none = 0;
      zero = constant("zero", Tensor::ints(type, {}, {&none, 1}));
    }
  }
  return add("QuantizeLinear", {value, single(input(first)), zero});
}

std::vector<Node> NodeWriter::finish(Shared& shared) {
  const auto makes_it = [&](const Node& node) {
    return std::ranges::count(node.outputs, node_.outputs[0]) > 0;
  };
  if (std::ranges::none_of(made_, makes_it)) rename(made_.back().outputs[0], node_.outputs[0]);
  shared.merge(made_once_);
  return std::move(made_);
}

}  // namespace crumb::graph
