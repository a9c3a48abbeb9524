// A decoder's layers as networks of their own, and the values that they pass to each other.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/part.h"

namespace crumb::tasks {

class PartValues {
 public:
  using Named = std::map<std::string, at::Tensor>;

  /// `batches`: for each batch, the decoder's inputs by name.
  PartValues(const graph::Graph& decoder, std::vector<Named> batches);

  std::size_t parts() const { return parts_.size(); }
  std::size_t batches() const { return values_.size(); }

  /// Returns a layer's graph. Its inputs are the decoder's inputs and what it reads of earlier layers: their
  /// states and other values. Its first output is its states; the others are what later layers read in
  /// addition.
  const graph::Graph& graph(std::size_t part) const { return parts_[part].graph; }

  /// Returns a part's inputs, in the order of its graph's. Precondition: put() has the outputs of the parts
  /// before.
  std::vector<at::Tensor> inputs(std::size_t part, std::size_t batch) const;

  /// Takes a part's outputs, in the order of its graph's. Drops all values, also those of earlier parts, that
  /// no later part reads; values keep their gradients where they have some. Precondition: parts come in their
  /// order.
  void put(std::size_t part, std::size_t batch, std::vector<at::Tensor> outputs);

  /// Returns how many values wait for later parts.
  std::size_t carried() const;

 private:
  std::vector<std::string> own_;  ///< the decoder's inputs
  std::vector<graph::CutPart> parts_;
  std::vector<Named> values_;  ///< by batch
};

}  // namespace crumb::tasks
