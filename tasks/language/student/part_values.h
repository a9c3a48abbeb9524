// A decoder's layers as networks by themselves, and the values on their way through them.
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

  /// `batches`: the decoder's inputs of each, by name.
  PartValues(const graph::Graph& decoder, std::vector<Named> batches);

  std::size_t parts() const { return parts_.size(); }
  std::size_t batches() const { return values_.size(); }

  /// A layer, from the decoder's inputs and what layers before give: the states, and whatever else it reads
  /// of them. Its first output is the states behind it, the others are what later layers read besides.
  const graph::Graph& graph(std::size_t part) const { return parts_[part].graph; }

  /// What a part takes, in the order of its inputs. Precondition: the parts before gave theirs to put().
  std::vector<at::Tensor> inputs(std::size_t part, std::size_t batch) const;

  /// What a part gave, in the order of its outputs. What no later part reads goes, of earlier parts, too;
  /// values carry their gradients, where they have some. Precondition: parts come in their order.
  void put(std::size_t part, std::size_t batch, std::vector<at::Tensor> outputs);

  /// Values of parts that wait for others.
  std::size_t carried() const;

 private:
  std::vector<std::string> own_;  ///< the decoder's inputs
  std::vector<graph::CutPart> parts_;
  std::vector<Named> values_;  ///< by batch
};

}  // namespace crumb::tasks
