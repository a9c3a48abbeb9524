#include "jobs/engines/graph_inputs.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/files/counted.h"
#include "base/files/text.h"
#include "base/text/nearest_name.h"
#include "graph/facts/bind_shapes.h"
#include "graph/facts/lift_quantized.h"
#include "graph/onnx/array_files.h"
#include "graph/onnx/channels_last_operators.h"
#include "graph/onnx/expand_functions.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/onnx/integer_operators.h"
#include "graph/qonnx/quantized_constants.h"
#include "runtime/array.h"
#include "runtime/engine.h"

namespace crumb::jobs {

using graph::Graph;
using graph::Tensor;

namespace {

/// Precondition: a type of integers or booleans.
Tensor ones(graph::ElementType type, const std::vector<std::int64_t>& shape) {
  runtime::Array made(type, shape);
  runtime::with_carrier(made.carrier(), [&]<class T>() { std::ranges::fill(made.writable<T>(), T{1}); });
  return made.tensor();
}

}  // namespace

std::vector<Tensor> read_inputs(const Graph& graph, const std::vector<std::string>& requests,
                                const std::string& field) {
  std::map<std::string, Tensor> found;
  std::vector<std::string> unnamed;
  for (const std::string& requested : requests) {
    const std::size_t equals = requested.find('=');
    const std::string name = requested.substr(0, equals);
    const bool is_name =
        equals != std::string::npos && std::ranges::find(graph.inputs, name) != graph.inputs.end();
    if (is_name) {
      if (!found.emplace(name, graph::read_array(requested.substr(equals + 1))).second) {
        throw usage_error(field + " gives " + quote_text(name) + " twice");
      }
    } else if (std::filesystem::exists(requested) || equals == std::string::npos) {
      unnamed.push_back(requested);
    } else {
      throw usage_error(field + " " + quote_text(requested) + ": " +
                        unknown_name("input", name, graph.inputs));
    }
  }
  std::vector<Tensor> inputs;
  std::size_t next = 0;
  for (const std::string& name : graph.inputs) {
    if (const auto given = found.find(name); given != found.end()) {
      inputs.push_back(given->second);
    } else if (next < unnamed.size()) {
      inputs.push_back(graph::read_array(unnamed[next++]));
    } else {
      throw usage_error("input " + quote_text(name) + " is missing: give " + field + " " + name +
                        "=FILE.npy");
    }
  }
  if (next < unnamed.size()) {
    throw usage_error(field + " " + quote_text(unnamed[next]) + ": the graph takes " +
                      count_text(graph.inputs.size(), "input") + ", and all are given");
  }
  return inputs;
}

Tensor drawn_input(const Graph& graph, const std::string& name, const std::vector<std::int64_t>& shape,
                   const std::string& field) {
  const graph::Value* value = graph.find(name);
  const graph::ElementType type = value ? value->type : graph::ElementType::kUnknown;
  const auto count = static_cast<std::size_t>(graph::count_elements(shape).take("input " + quote_text(name)));
  if (graph::is_integer(type) || type == graph::ElementType::kBool) return ones(type, shape);
  if (type != graph::ElementType::kFloat)
    throw usage_error("input " + quote_text(name) + " holds " + std::string(graph::name_of(type)) +
                      "; give " + field + " " + name + "=FILE.npy");
  std::vector<float> numbers(count);
  for (std::size_t i = 0; i < count; ++i)
    numbers[i] = (static_cast<float>(i * 2654435761u % 33) - 16) / (i % 2 == 0 ? 2.0F : 3.0F);
  return Tensor::floats(shape, numbers);
}

Graph for_registers(Graph graph) {
  graph = graph::expand_functions(std::move(graph), runtime::Engine());
  return graph::resolve_shapes(graph::lift_quantized(std::move(graph)));
}

Graph for_runtime(Graph graph) {
  const runtime::Engine runtime;
  const auto is_unknown = [&](const graph::Node& node) { return !runtime.knows(node); };
  graph = graph::dequantize_operators(std::move(graph), is_unknown);
  return for_registers(graph::channels_first_operators(std::move(graph), is_unknown));
}

Graph for_libtorch(Graph graph) { return graph::infer_shapes(graph::fold_quantized(std::move(graph))); }

}  // namespace crumb::jobs
