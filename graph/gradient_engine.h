// Gradients of a network's loss by its constants, without saying how: stages that need them need no LibTorch.
// qat/optimize/squared_gradients.h makes them.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/quantize/calibrate.h"

namespace crumb::graph {

/// Of one sample.
enum class SampleLoss {
  /// Of a language model, whose first input is ids [1, tokens] and whose first result logits [1, tokens, vocabulary]: the sum over
  /// tokens of the negative logarithm of what is predicted of the next one.
  kNextTokens,
  /// Without labels: the sum of all floating results' elements, each with a drawn sign. Signs are independent, so that the squared
  /// gradient by a weight is expected to be the sum of the squared gradients of all elements: what, at small changes of weights,
  /// results' squared errors follow (the diagonal of J^T J, as Gauss and Newton have it).
  kSigns,
};

struct GradientWish {
  std::set<std::string> constants;  ///< floating initializers
  SampleLoss loss = SampleLoss::kSigns;
  std::size_t draws = 1;       ///< of signs, for each sample
  std::string device = "cpu";  ///< "cuda": where they are computed
};

/// Of each element of each constant, as it lies.
using SquaredGradients = std::map<std::string, std::vector<float>>;

class GradientEngine {
 public:
  virtual ~GradientEngine() = default;

  /// The sum over batches (and draws, over their number) of the squared gradient of the batch's loss: a sample by itself is a batch
  /// of one. 0 where no gradient comes. The same numbers on every run of a machine, whatever its threads. Memory: the network in
  /// floats, one float for each element that is wanted, and what a batch's backward pass holds. Throws Error where an operator is
  /// not supported, a batch is none of the loss', or gradients are inf or NaN, and names which.
  virtual SquaredGradients squared_gradients(Graph graph, const Batches& batches,
                                             const GradientWish& wish) const = 0;
};

}  // namespace crumb::graph
