// A decoder's layers as networks by themselves, and what they take.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::tasks {

class PartInputs {
 public:
  /// `own`: the decoder's inputs, batch by batch.
  PartInputs(const graph::Graph& decoder, std::vector<std::vector<at::Tensor>> own);

  std::size_t batches() const { return own_.size(); }

  /// Each layer, from the decoder's inputs and what the layer before gives to what it gives.
  std::vector<graph::Graph> layers() const;

  /// What such a part takes: of the decoder's own inputs those that it has, and `states`, which the layer before gave.
  std::vector<at::Tensor> of(const graph::Graph& part, std::size_t batch, const at::Tensor& states) const;

 private:
  graph::Graph decoder_;  ///< with the shapes that are known
  std::vector<std::vector<at::Tensor>> own_;
};

}  // namespace crumb::tasks
