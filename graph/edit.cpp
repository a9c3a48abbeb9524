#include "graph/edit.h"

#include <algorithm>
#include <set>
#include <type_traits>

namespace crumb::graph {

void replace_uses(Graph& graph, const std::string& from, const std::string& to) {
  for (Node& node : graph.nodes) std::ranges::replace(node.inputs, from, to);
  std::ranges::replace(graph.outputs, from, to);
}

void rename_values(Graph& graph, const std::map<std::string, std::string>& names) {
  if (names.empty()) return;
  const auto rename = [&](std::string& value) {
    if (const auto found = names.find(value); found != names.end()) value = found->second;
  };
  for (Node& node : graph.nodes) {
    std::ranges::for_each(node.inputs, rename);
    std::ranges::for_each(node.outputs, rename);
  }
  std::ranges::for_each(graph.inputs, rename);
  std::ranges::for_each(graph.outputs, rename);
  const auto rename_keys = [&](auto& entries) {
    std::remove_reference_t<decltype(entries)> renamed;
    for (auto& [name, entry] : entries) {
      std::string key = name;
      rename(key);
      renamed[key] = std::move(entry);
    }
    entries = std::move(renamed);
  };
  rename_keys(graph.initializers);
  rename_keys(graph.quantized);
  rename_keys(graph.values);
}

std::string add_constant(Graph& graph, const std::string& requested, Tensor tensor) {
  const std::string name = add_value(graph, requested, value_of(tensor));
  graph.initializers.emplace(name, std::move(tensor));
  return name;
}

void set_codes(Graph& graph, const std::string& name, QuantizedConstant codes) {
  const std::vector<std::int64_t> shape = codes.shape();
  Value& known = graph.values[name];
  known.type = ElementType::kFloat;
  known.shape = Shape(shape.begin(), shape.end());
  graph.initializers.erase(name);
  graph.quantized.insert_or_assign(name, std::move(codes));
}

std::string add_value(Graph& graph, const std::string& requested, const Value& known) {
  std::string name = graph.unused_value_name(requested);
  graph.values[name] = known;
  return name;
}

bool bypass(Graph& graph, std::size_t index, std::size_t kept) {
  const std::string before = graph.nodes[index].inputs[kept], after = graph.nodes[index].outputs[0];
  const auto is_in = [](const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  };
  if (!is_in(graph.outputs, after)) {
    replace_uses(graph, after, before);
  } else {
    if (is_in(graph.outputs, before) || is_in(graph.inputs, before) || graph.constant(before)) return false;
    for (Node& node : graph.nodes) {
      std::ranges::replace(node.inputs, before, after);
      std::ranges::replace(node.outputs, before, after);
    }
    // The node itself still produces the name until it is erased.
  }
  graph.nodes.erase(graph.nodes.begin() + static_cast<std::ptrdiff_t>(index));
  return true;
}

void drop_unused(Graph& graph) {
  std::set<std::string> wanted(graph.outputs.begin(), graph.outputs.end());
  std::vector<Node> kept;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (std::ranges::none_of(node->outputs, [&](const std::string& value) { return wanted.contains(value); }))
      continue;
    wanted.insert(node->inputs.begin(), node->inputs.end());
    kept.push_back(std::move(*node));
  }
  std::ranges::reverse(kept);
  graph.nodes = std::move(kept);
  for (const Node& node : graph.nodes) wanted.insert(node.outputs.begin(), node.outputs.end());
  wanted.insert(graph.inputs.begin(), graph.inputs.end());
  std::erase_if(graph.initializers, [&](const auto& entry) { return !wanted.contains(entry.first); });
  std::erase_if(graph.quantized, [&](const auto& entry) { return !wanted.contains(entry.first); });
  std::erase_if(graph.values, [&](const auto& entry) { return !wanted.contains(entry.first); });
}

const Tensor* constant_input(const Graph& graph, const Node& node, std::size_t i) {
  return node.has_input(i) ? graph.constant(node.inputs[i]) : nullptr;
}

std::optional<Tensor> shape_made_by(const Graph& graph, const Node& node) {
  if ((!node.is("Shape") && !node.is("Size")) || !node.has_input(0)) return {};
  const auto shape = graph.shape_of(node.inputs[0]);
  if (!shape || !std::ranges::all_of(*shape, &Dim::known)) return {};
  std::vector<std::int64_t> sizes;
  for (const Dim& dim : *shape) sizes.push_back(dim.size);
  if (node.op == "Size") {
    const auto count = count_elements(sizes);
    return count.ok() ? std::optional(Tensor::scalar(count.value())) : std::nullopt;
  }
  const auto rank = static_cast<std::int64_t>(sizes.size());
  const auto place = [&](const char* name, std::int64_t otherwise) {
    const std::int64_t at = node.int_or(name, otherwise);
    return std::clamp(at < 0 ? at + rank : at, std::int64_t{0}, rank);
  };
  const std::int64_t begin = place("start", 0), end = std::max(begin, place("end", rank));
  return Tensor::ints({end - begin},
                      std::span<const std::int64_t>(sizes).subspan(static_cast<std::size_t>(begin),
                                                                   static_cast<std::size_t>(end - begin)));
}

}  // namespace crumb::graph
