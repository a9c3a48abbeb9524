// Small graphs with constants that are kept as codes.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "tests/support/samples.h"

namespace crumb::testing {

inline std::vector<float> normal_floats(std::size_t count, std::uint64_t seed, bool positive = false) {
  std::vector<float> values = normal_values(count, seed);
  if (!positive) return values;
  for (float& value : values) value = std::abs(value) + 0.01F;
  return values;
}

inline bool same_tensor(const QuantizedTensor& a, const QuantizedTensor& b) {
  return a.shape == b.shape && a.encoding == b.encoding && a.codes == b.codes && a.scales == b.scales &&
         a.zeros == b.zeros && a.codebook == b.codebook && a.tensor_scales == b.tensor_scales;
}

/// One layer with a weight of this shape.
struct Layer {
  std::string op;
  std::vector<std::int64_t> shape;
  std::size_t output_axis = 0;
  std::map<std::string, graph::Attribute> attributes = {};
};

/// x -> layer(x, w) -> y, with the weight "w" quantized on its output axis, of MatMul matrix by matrix.
inline graph::Graph layer_graph(const Layer& layer, const std::string& spec, std::uint64_t seed) {
  using graph::Dim;
  graph::Graph graph{.name = "layer", .inputs = {"x"}, .outputs = {"y"}, .opsets = {{"", 13}}};
  std::size_t size = 1;
  for (const std::int64_t axis : layer.shape) size *= static_cast<std::size_t>(axis);
  const auto weight = graph::Tensor::floats(layer.shape, normal_floats(size, seed));
  const std::size_t stack = layer.op == "MatMul" ? layer.shape.size() - 2 : 0;
  graph.quantized["w"] =
      graph::quantize_constant(QuantSpec::parse(spec), weight, {layer.output_axis, stack}, "w", 1);
  graph::Shape input{Dim("n")};
  const bool is_convolution = layer.op.starts_with("Conv");
  if (is_convolution) {
    input.emplace_back(layer.op == "Conv" ? layer.shape[1] : layer.shape[0]);
    for (std::size_t i = 2; i < layer.shape.size(); ++i) input.emplace_back(std::int64_t{9});
  } else {
    if (layer.shape.size() == 3) input.insert(input.begin(), Dim(layer.shape[0]));
    input.emplace_back(layer.shape[layer.output_axis == 0 ? 1 : layer.output_axis - 1]);
  }
  graph.values["x"] = {.type = graph::ElementType::kFloat, .shape = input};
  graph.values["y"] = {.type = graph::ElementType::kFloat};
  graph.nodes = {{.name = "layer",
                  .op = layer.op,
                  .version = 13,
                  .inputs = {"x", "w"},
                  .outputs = {"y"},
                  .attributes = layer.attributes}};
  return graph;
}

}  // namespace crumb::testing
