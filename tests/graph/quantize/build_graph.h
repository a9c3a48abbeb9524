// Small graphs for tests of quantizers.
#pragma once

#include <map>
#include <random>
#include <string>
#include <vector>

#include "graph/facts/bind_shapes.h"
#include "graph/graph.h"

namespace crumb::graph::testing {

struct GraphBuilder {
  Graph graph{.inputs = {"x"}, .outputs = {"y"}, .opsets = {{"", 13}}};
  std::mt19937 random{7};

  explicit GraphBuilder(std::vector<std::int64_t> in) { graph.values["x"] = floats(in); }

  static Value floats(const std::vector<std::int64_t>& shape) {
    return {.type = ElementType::kFloat, .shape = Shape(shape.begin(), shape.end())};
  }
  GraphBuilder& constant(const std::string& name, std::vector<std::int64_t> shape,
                         std::vector<float> values) {
    graph.initializers[name] = Tensor::floats(std::move(shape), values);
    return *this;
  }
  /// Normal numbers.
  GraphBuilder& weight(const std::string& name, const std::vector<std::int64_t>& shape) {
    std::size_t size = 1;
    for (const std::int64_t axis : shape) size *= static_cast<std::size_t>(axis);
    std::normal_distribution<float> normal;
    std::vector<float> values(size);
    for (float& value : values) value = normal(random);
    return constant(name, shape, values);
  }
  GraphBuilder& node(const std::string& op, std::vector<std::string> in, const std::string& out,
                     std::map<std::string, Attribute> attributes = {},
                     std::string_view domain = kOnnxDomain) {
    graph.nodes.push_back({.name = op + "_" + out,
                           .op = op,
                           .domain = std::string(domain),
                           .version = domain.empty() ? 13 : 1,
                           .inputs = std::move(in),
                           .outputs = {out},
                           .attributes = std::move(attributes)});
    return *this;
  }
  /// Shapes inferred.
  Graph done() const { return resolve_shapes(graph); }
};

}  // namespace crumb::graph::testing
