// Captures a torch::nn::Module as a graph: the module runs, LibTorch's tracer records its operators, and each
// becomes ONNX's.
//
//   graph::Graph graph = crumb::models::capture(*network, {torch::randn({8, 3, 32, 32})});
//   libtorch::GraphModule module(graph);  // the same outputs, the same named parameters
//
// Parameters and buffers become initializers under their names in the module ("conv1.weight"). The graph's
// metadata says which of them are buffers (graph/buffers.h), so that GraphModule's named_parameters() are the
// module's.
//
// The module runs twice, with 2 and with 5 samples taken from the examples: every number that differs between
// the two runs (sizes in reshapes, zeros for a recurrent state, ...) follows the batch, and the graph
// computes it from the shape of its first input with a batch. Inputs and outputs have the dimension "batch"
// there. The graph holds the operators that ran: it does not have a branch of C++ that was not taken.
//
// The module is recorded as it answers in eval mode, whatever its mode (which is restored): the graph has no
// dropout, and batch norm uses its running statistics. With CaptureOptions::batch_statistics the module is
// recorded in its own mode, and batch norm in training becomes BatchNormalization with training_mode = 1; the
// graph has no dropout then either.
//
// Throws one Error that names every operator that has no form in ONNX, and the module that it follows; one
// for modules that do not run the same operators for every batch size, or whose numbers do not follow the
// batch as n * batch + m; one for tensors that are changed in place while others share their memory.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"

namespace crumb::libtorch {

struct CaptureOptions {
  /// The axis of each input along which its samples are, -1 for an input without samples. Empty: axis 0 of
  /// every input of rank 1 and more. All -1: the graph keeps the examples' sizes.
  std::vector<std::int64_t> batch_axes;
  std::string batch_name = "batch";
  /// Of the graph; where there are too few: "input", "output", or "input_0", "input_1", ...
  std::vector<std::string> input_names, output_names;
  bool batch_statistics = false;
};

using Tensors = std::vector<at::Tensor>;
using Forward = std::function<Tensors(const Tensors&)>;

/// Captures a module by any function that runs it; for a forward() with arguments that are no tensors.
graph::Graph capture(torch::nn::Module& module, const Tensors& example, const Forward& forward,
                     const CaptureOptions& options = {});

namespace detail {

inline void flatten(const at::Tensor& tensor, Tensors& all) {
  if (tensor.defined()) all.push_back(tensor);
}
inline void flatten(const Tensors& tensors, Tensors& all) {
  all.insert(all.end(), tensors.begin(), tensors.end());
}
template <class... Parts>
void flatten(const std::tuple<Parts...>& parts, Tensors& all) {
  std::apply([&](const auto&... part) { (flatten(part, all), ...); }, parts);
}

template <class Result>
Tensors flattened(const Result& result) {
  Tensors all;
  flatten(result, all);
  return all;
}

/// Calls forward() with one to four tensors, whichever number it takes.
template <class Module>
Tensors call_forward(Module& module, const Tensors& x) {
  if constexpr (requires { module.forward(x[0]); }) {
    if (x.size() == 1) return flattened(module.forward(x[0]));
  }
  if constexpr (requires { module.forward(x[0], x[0]); }) {
    if (x.size() == 2) return flattened(module.forward(x[0], x[1]));
  }
  if constexpr (requires { module.forward(x[0], x[0], x[0]); }) {
    if (x.size() == 3) return flattened(module.forward(x[0], x[1], x[2]));
  }
  if constexpr (requires { module.forward(x[0], x[0], x[0], x[0]); }) {
    if (x.size() == 4) return flattened(module.forward(x[0], x[1], x[2], x[3]));
  }
  throw Error("forward() does not take " + std::to_string(x.size()) +
              " tensors: give a function that calls it");
}

}  // namespace detail

/// Captures a module by its forward(). Outputs in tuples and vectors become outputs one after the other.
template <class Module>
requires std::derived_from<Module, torch::nn::Module> graph::Graph capture(
    Module& module, const Tensors& example, const CaptureOptions& options = {}) {
  return capture(
      module, example, [&](const Tensors& x) { return detail::call_forward(module, x); }, options);
}

}  // namespace crumb::libtorch

/// The name for programs.
namespace crumb::models {
using libtorch::capture;
using libtorch::CaptureOptions;
}  // namespace crumb::models
