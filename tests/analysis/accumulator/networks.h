// Networks whose accumulators tests count.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "analysis/accumulator/check.h"
#include "graph/onnx/infer_shapes.h"
#include "tests/graph/node_builder.h"

namespace crumb::analysis {

/// Graphs out of quantizers and layers; every number is drawn from one engine.
struct Net : graph::NodeBuilder {
  std::mt19937 engine{9};

  /// Codes times a scale behind a quantizer.
  std::string weight(const std::vector<std::int64_t>& shape, float scale, int bits = 4) {
    const int most = (1 << (bits - 1)) - 1;
    std::uniform_int_distribution<int> code(-most, most);
    std::vector<float> values(static_cast<std::size_t>(graph::count_elements(shape).take()));
    for (float& value : values) value = scale * static_cast<float>(code(engine));
    const std::string n = std::to_string(graph.nodes.size());
    return quant(constant("w" + n, graph::Tensor::floats(shape, values)), graph::Tensor::scalar(scale), 0,
                 static_cast<float>(bits), true, true);
  }
  std::string bias(const std::vector<std::int64_t>& shape, float scale) {
    std::uniform_int_distribution<int> code(-9, 9);
    std::vector<float> values(static_cast<std::size_t>(graph::count_elements(shape).take()));
    for (float& value : values) value = scale * static_cast<float>(code(engine));
    const std::string n = std::to_string(graph.nodes.size());
    return quant(constant("c" + n, graph::Tensor::floats(shape, values)), graph::Tensor::scalar(scale), 0,
                 32);
  }
};

/// A convolution with a bias inside, pooled, flattened, and two dense layers: quantized everywhere.
inline graph::Graph sample_network() {
  Net net;
  std::string x = net.quant(net.input("x", {1, 3, 6, 6}), graph::Tensor::scalar(0.5F), 0, 4, false);
  std::string w = net.weight({4, 3, 3, 3}, 0.25F);
  x = net.node("Conv", {x, w, net.bias({4}, 0.125F)}, {{"kernel_shape", std::vector<std::int64_t>{3, 3}}});
  net.graph.nodes.back().name = "conv";
  x = net.quant(net.node("Relu", {x}), graph::Tensor::scalar(0.25F), 0, 4, false);
  x = net.node(
      "MaxPool", {x},
      {{"kernel_shape", std::vector<std::int64_t>{2, 2}}, {"strides", std::vector<std::int64_t>{2, 2}}});
  x = net.node("Flatten", {x});
  w = net.weight({5, 16}, 0.5F);
  x = net.node("Gemm", {x, w, net.bias({5}, 0.125F)}, {{"transB", std::int64_t{1}}});
  net.graph.nodes.back().name = "dense";
  x = net.quant(x, graph::Tensor::scalar(0.5F), 0, 5);
  x = net.node("MatMul", {x, net.weight({5, 2}, 0.125F)});
  net.graph.nodes.back().name = "out";
  net.graph.outputs = {
      net.node("Add", {x, net.constant("free", graph::Tensor::floats({2}, std::vector<float>{0.3F, 1}))})};
  return graph::infer_shapes(net.graph);
}

inline graph::Graph certified_sample(std::size_t tile = 0) {
  return with_certificates(sample_network(),
                           {{"conv", {.method = graph::AccumulatorMethod::kA2q, .bits = 14, .tile = tile}},
                            {"dense", {.method = graph::AccumulatorMethod::kA2qPlus, .bits = 12}},
                            {"out", {.bits = 16, .constrained = false}}});
}

}  // namespace crumb::analysis
