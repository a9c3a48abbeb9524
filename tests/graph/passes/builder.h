// A network of one input x and one output y, for tests of passes: opset 13, all values float32.
#pragma once

#include "graph/graph.h"

namespace crumb::graph {

inline Value float_value(const std::vector<std::int64_t>& shape) {
  return {.type = ElementType::kFloat, .shape = Shape(shape.begin(), shape.end())};
}

struct Builder {
  Graph graph{.inputs = {"x"}, .outputs = {"y"}, .opsets = {{"", 13}, {std::string(kQonnxDomain), 1}}};

  explicit Builder(const std::vector<std::int64_t>& in) { graph.values["x"] = float_value(in); }
  void constant(const std::string& name, const std::vector<std::int64_t>& shape,
                const std::vector<float>& values) {
    graph.values[name] = float_value(shape);
    graph.initializers[name] = Tensor::floats(shape, values);
  }
  /// first, first + 1, ...
  void counting(const std::string& name, const std::vector<std::int64_t>& shape, float first = 1) {
    std::vector<float> values(static_cast<std::size_t>(count_elements(shape).value()));
    for (float& value : values) value = first++;
    constant(name, shape, values);
  }
  void node(const std::string& op, std::vector<std::string> in, std::vector<std::string> out,
            std::map<std::string, Attribute> attributes = {}, std::string_view domain = kOnnxDomain) {
    graph.nodes.push_back({.name = op + "_" + out[0],
                           .op = op,
                           .domain = std::string(domain),
                           .version = domain.empty() ? 13 : 1,
                           .inputs = std::move(in),
                           .outputs = std::move(out),
                           .attributes = std::move(attributes)});
  }
  static std::string ops(const Graph& made) {
    std::string text;
    for (const Node& n : made.nodes) text += (text.empty() ? "" : " ") + n.op;
    return text;
  }
};

}  // namespace crumb::graph
