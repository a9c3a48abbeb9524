// The inputs of a decoder's graph, as LibTorch's tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "libtorch/execute/typed_tensor.h"
#include "models/decoder_inputs.h"
#include "tasks/language/text/language_text.h"

namespace crumb::tasks {

/// Returns the inputs for `batch` sequences, in the graph's order.
inline std::vector<at::Tensor> decoder_tensors(const graph::Graph& decoder, const LanguageText& sequences,
                                               std::int64_t batch, at::Device device = at::kCPU) {
  std::vector<at::Tensor> tensors;
  for (const graph::Tensor& input :
       models::decoder_inputs(decoder, sequences.tokens, static_cast<std::size_t>(batch)))
    tensors.push_back(libtorch::to_typed(input, device).tensor);
  return tensors;
}

}  // namespace crumb::tasks
