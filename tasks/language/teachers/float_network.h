// A network in floats, or a part of one, that others learn from.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/utils.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "libtorch/execute/cut_pass.h"
#include "models/decoder.h"

namespace crumb::tasks {

/// A decoder in floats.
class FloatDecoder {
 public:
  FloatDecoder(const graph::Graph& graph, at::Device device)
      : module_(graph, {.borrows = true}),
        device_(device),
        cut_(module_, models::layer_outputs(graph).back()) {
    module_.to(device);
    const std::optional<graph::Shape> logits = graph.shape_of(graph.outputs.at(0));
    if (logits && !logits->empty()) vocabulary_ = logits->back().size;
  }

  std::int64_t vocabulary() const { return vocabulary_; }
  at::Device device() const { return device_; }  ///< the device of its inputs

  /// Returns a pass that is cut after the last layer, without gradients.
  libtorch::CutPass pass(const std::vector<at::Tensor>& inputs) const {
    const torch::NoGradGuard no_gradients;
    return {cut_, libtorch::typed_all(inputs)};
  }

 private:
  libtorch::GraphModule module_;
  at::Device device_;
  libtorch::CutNetwork cut_;
  std::int64_t vocabulary_ = 0;
};

class FloatNetwork {
 public:
  FloatNetwork(const graph::Graph& graph, at::Device device) : module_(graph, {.borrows = true}) {
    module_.to(device);
    module_.freeze();
  }

  /// Returns the outputs, without gradients.
  std::vector<at::Tensor> outputs(const std::vector<at::Tensor>& inputs) const {
    const torch::NoGradGuard no_gradients;
    return libtorch::tensors_of(module_.run(libtorch::typed_all(inputs)));
  }
  at::Tensor output(const std::vector<at::Tensor>& inputs) const { return outputs(inputs).at(0); }

 private:
  libtorch::GraphModule module_;
};

}  // namespace crumb::tasks
