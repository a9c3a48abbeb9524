// The values of a frozen network's constant.
#pragma once

#include <ATen/ATen.h>

#include <string>

#include "graph/graph.h"
#include "libtorch/execute/typed_tensor.h"

namespace crumb::testing {

/// Those of the codes where it is kept as codes. Throws where the graph has no such constant.
inline at::Tensor frozen_value(const graph::Graph& graph, const std::string& name) {
  const auto quantized = graph.quantized.find(name);
  const graph::Tensor value =
      quantized == graph.quantized.end() ? graph.initializers.at(name) : quantized->second.value();
  return libtorch::to_typed(value).tensor.clone();
}

}  // namespace crumb::testing
