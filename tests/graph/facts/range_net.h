// One value of a small graph, and what the exact rules know of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/facts/infer_datatypes.h"
#include "graph/onnx/infer_shapes.h"
#include "tests/graph/node_builder.h"

namespace crumb::graph {

struct RangeNet : NodeBuilder {
  using Ints = std::vector<std::int64_t>;

  std::string number(float value) { return floats({}, {value}); }
  std::string floats(const Ints& shape, const std::vector<float>& values) {
    return constant("k" + std::to_string(graph.initializers.size()), Tensor::floats(shape, values));
  }
  std::string ints(const Ints& values) {
    return constant("k" + std::to_string(graph.initializers.size()),
                    Tensor::ints({static_cast<std::int64_t>(values.size())}, values));
  }
  /// Levels of so many bits less the zero point, times the scale, behind an input.
  std::string quantized(const Ints& shape, float scale, float zero, float bits, bool is_signed) {
    return quant(input("x" + std::to_string(graph.inputs.size()), shape), Tensor::scalar(scale), zero, bits,
                 is_signed);
  }
  /// Levels 2..9 times 0.5 (unsigned codes of 3 bits and the zero point -2), so that zero is none of them.
  std::string above_zero(const Ints& shape = {1, 2, 4, 6}) { return quantized(shape, 0.5F, -2, 3, false); }
  std::string at_version(std::int64_t version, const std::string& op, std::vector<std::string> inputs,
                         std::map<std::string, Attribute> attributes = {},
                         std::string_view domain = kOnnxDomain) {
    const std::string made = node(op, std::move(inputs), std::move(attributes), domain);
    graph.nodes.back().version = version;
    return made;
  }

  ValueType known(const std::string& value) const {
    Graph one = graph;
    one.outputs = {value};
    one = infer_shapes(without_claims(one));
    return infer_data_types(one, ConstantValues(one), TypeRules::kExact).at(value);
  }
};

inline ValueType known_of(const std::function<std::string(RangeNet&)>& make) {
  RangeNet net;
  const std::string value = make(net);
  return net.known(value);
}

}  // namespace crumb::graph
