#include "ptq/samples/sample_bytes.h"

#include <algorithm>
#include <map>
#include <string>

#include "base/error.h"
#include "graph/facts/bind_shapes.h"

namespace crumb::ptq {
namespace {

using graph::BatchAxes;
using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::Tensor;
using graph::Value;

/// Returns the graph for that many samples; nothing where it does not take them.
std::optional<Graph> with_samples(const Graph& graph, const std::vector<Tensor>& inputs, std::int64_t count,
                                  const BatchAxes& axes) {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    std::vector<std::int64_t> shape = inputs[i].shape();
    const auto axis = static_cast<std::size_t>(graph::batch_axis_of(axes, graph.inputs[i]));
    if (axis >= shape.size()) return std::nullopt;
    shape[axis] = count;
    shapes.emplace(graph.inputs[i], std::move(shape));
  }
  try {
    return graph::bind_shapes(graph, shapes);
  } catch (const Error&) {  // its axis does not count samples
    return std::nullopt;
  }
}

bool follows(const Graph& one, const Graph& two, const std::string& output, std::size_t axis) {
  const auto first = one.shape_of(output), second = two.shape_of(output);
  return first && second && first->size() > axis && second->size() > axis && (*first)[axis] == Dim(1) &&
         (*second)[axis] == Dim(2);
}

/// Returns nothing where the size is unknown.
std::optional<std::uint64_t> bytes_of(const Graph& graph, const std::string& name) {
  const Value* value = graph.find(name);
  if (!value || !value->is_static()) return std::nullopt;
  std::vector<std::int64_t> sizes;
  for (const Dim& dim : *value->shape) sizes.push_back(dim.size);
  const auto count = graph::count_elements(sizes);
  if (!count.ok()) return std::nullopt;
  const auto bytes = graph::packed_bytes(
      value->type == graph::ElementType::kUnknown ? graph::ElementType::kFloat : value->type, count.value());
  return bytes.ok() ? std::optional(bytes.value()) : std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> bytes_of_sample(const Graph& graph, const std::vector<Tensor>& inputs,
                                             const graph::BatchAxes& axes) {
  const std::optional<Graph> one = with_samples(graph, inputs, 1, axes),
                             two = with_samples(graph, inputs, 2, axes);
  if (!one || !two) return std::nullopt;
  for (const std::string& output : graph.outputs)
    if (!follows(*one, *two, output, static_cast<std::size_t>(graph::batch_axis_of(axes, output))))
      return std::nullopt;
  std::map<std::string, std::size_t> last_use;
  for (std::size_t i = 0; i < one->nodes.size(); ++i)
    for (const std::string& input : one->nodes[i].inputs) last_use[input] = i;
  std::map<std::string, std::uint64_t> alive;
  std::uint64_t now = 0, most = 0;
  const auto begin = [&](const std::string& name, std::uint64_t bytes) {
    alive[name] = bytes;
    now += bytes;
    most = std::max(most, now);
  };
  for (const std::string& input : one->inputs) begin(input, bytes_of(*one, input).value_or(0));
  for (std::size_t i = 0; i < one->nodes.size(); ++i) {
    const Node& node = one->nodes[i];
    std::uint64_t largest = 0;
    for (const std::string& input : node.inputs)
      if (const auto found = alive.find(input); found != alive.end())
        largest = std::max(largest, found->second);
    for (const std::string& output : node.outputs)
      if (!output.empty()) begin(output, bytes_of(*one, output).value_or(largest));
    for (const std::string& input : node.inputs) {
      const auto found = alive.find(input);
      if (found == alive.end() || last_use.at(input) != i) continue;
      now -= found->second;
      alive.erase(found);
    }
  }
  return most;
}

}  // namespace crumb::ptq
