// What every test of capture asks: the graph gives what the module gives, for the example and other batches.
#pragma once

#include "tests/support/torch_doctest.h"
//
#include <torch/nn.h>

#include <functional>
#include <string>
#include <vector>

#include "libtorch/capture/capture.h"
#include "libtorch/execute/graph_module.h"

namespace crumb::testing {

using libtorch::CaptureOptions;
using libtorch::Forward;
using libtorch::Tensors;

/// Inputs with so many samples.
using Inputs = std::function<Tensors(std::int64_t batch)>;

inline double largest(const at::Tensor& tensor) {
  return tensor.numel() == 0 ? 0 : tensor.to(at::kDouble).abs().max().item<double>();
}

inline Tensors run_graph(const libtorch::GraphModule& graph, const Tensors& inputs) {
  std::vector<libtorch::TypedTensor> values;
  for (const at::Tensor& input : inputs) values.push_back(libtorch::typed(input));
  Tensors outputs;
  for (const auto& output : graph.run(values)) outputs.push_back(output.tensor);
  return outputs;
}

inline void check_same(const Tensors& found, const Tensors& expected, double tolerance = 1e-5) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    REQUIRE(found[i].sizes() == expected[i].sizes());
    const bool same_type = found[i].scalar_type() == expected[i].scalar_type();
    REQUIRE(same_type);
    const at::Tensor a = found[i].to(at::kDouble), b = expected[i].to(at::kDouble);
    const at::Tensor same = a.eq(b).logical_or(a.isnan().logical_and(b.isnan()));
    const double off = largest(at::where(same, at::zeros_like(a), a - b));
    CHECK(off <= tolerance * std::max(largest(b.nan_to_num(0, 0, 0)), 1e-30));
  }
}

/// Captures with 3 samples and compares for 3, 1, 5 and 2.
inline graph::Graph check_capture(torch::nn::Module& module, const Inputs& inputs, const Forward& forward,
                                  const CaptureOptions& options = {}) {
  const graph::Graph graph = libtorch::capture(module, inputs(3), forward, options);
  const libtorch::GraphModule network(graph);
  module.eval();
  const torch::NoGradGuard no_gradients;
  for (const std::int64_t batch : {3, 1, 5, 2}) {
    CAPTURE(batch);
    const Tensors x = inputs(batch);
    check_same(run_graph(network, x), forward(x));
  }
  return graph;
}

template <class Module>
graph::Graph check_capture(Module& module, const Inputs& inputs, const CaptureOptions& options = {}) {
  return check_capture(
      module, inputs, [&](const Tensors& x) { return libtorch::detail::call_forward(module, x); }, options);
}

/// Of a function without parameters.
inline graph::Graph check_function(const Inputs& inputs, const Forward& forward,
                                   const CaptureOptions& options = {}) {
  torch::nn::Sequential nothing;
  return check_capture(*nothing, inputs, forward, options);
}

/// randn of [batch, ...].
inline Inputs normal(std::vector<std::int64_t> shape) {
  return [shape](std::int64_t batch) {
    std::vector<std::int64_t> whole = {batch};
    whole.insert(whole.end(), shape.begin(), shape.end());
    return Tensors{torch::randn(whole)};
  };
}

}  // namespace crumb::testing
