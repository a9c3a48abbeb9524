// Graphs put together node by node, for tests of what counts their integers.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

struct NodeBuilder {
  Graph graph{.inputs = {}, .outputs = {}, .opsets = {{"", 13}, {std::string(kQonnxDomain), 1}}};

  std::string constant(const std::string& name, Tensor tensor) {
    graph.values[name] = value_of(tensor);
    graph.initializers[name] = std::move(tensor);
    return name;
  }
  std::string input(const std::string& name, const std::vector<std::int64_t>& shape) {
    graph.inputs.push_back(name);
    graph.values[name] = {.type = ElementType::kFloat, .shape = Shape(shape.begin(), shape.end())};
    return name;
  }
  /// Its output's name: the node's, "_out" behind it.
  std::string node(const std::string& op, std::vector<std::string> inputs,
                   std::map<std::string, Attribute> attributes = {}, std::string_view domain = kOnnxDomain) {
    const std::string name = op + std::to_string(graph.nodes.size());
    graph.nodes.push_back({.name = name,
                           .op = op,
                           .domain = std::string(domain),
                           .version = domain.empty() ? 13 : 1,
                           .inputs = std::move(inputs),
                           .outputs = {name + "_out"},
                           .attributes = std::move(attributes)});
    return name + "_out";
  }
  std::string quant(const std::string& x, const Tensor& scale, float zero, float bits, bool is_signed = true,
                    bool narrow = false) {
    const std::string n = std::to_string(graph.nodes.size());
    return node("Quant",
                {x, constant("s" + n, scale), constant("z" + n, Tensor::scalar(zero)),
                 constant("b" + n, Tensor::scalar(bits))},
                {{"signed", std::int64_t{is_signed}},
                 {"narrow", std::int64_t{narrow}},
                 {"rounding_mode", std::string("ROUND")}},
                kQonnxDomain);
  }
};

}  // namespace crumb::graph
