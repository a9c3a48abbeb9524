// The interface of what computes gradients of a network's loss by its constants: stages that need them do not
// need LibTorch. qat/optimize/squared_gradients.h implements it.
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

/// The loss of one sample.
enum class SampleLoss {
  /// For a language model with token ids [1, tokens] as first input and logits [1, tokens, vocabulary] as
  /// first output: the sum over positions of the negative log-likelihood of the next token.
  kNextTokens,
  /// Without labels: the sum of the elements of all floating outputs, each with a random sign. Signs are
  /// independent, so that the expected squared gradient by a weight is the sum of the squared gradients of
  /// all elements. The outputs' squared errors follow that sum at small changes of weights (the diagonal of
  /// J^T J, as in Gauss-Newton).
  kSigns,
};

struct GradientRequest {
  std::set<std::string> constants;  ///< floating initializers
  SampleLoss loss = SampleLoss::kSigns;
  std::size_t draws = 1;       ///< of signs, per sample
  std::string device = "cpu";  ///< where gradients are computed: "cpu" or "cuda"
};

/// For each constant the squared gradient of each element, in the constant's row-major order.
using SquaredGradients = std::map<std::string, std::vector<float>>;

class GradientEngine {
 public:
  virtual ~GradientEngine() = default;

  /// Returns the sum over batches, and the mean over draws, of the squared gradient of the batch's loss; for
  /// single samples, pass batches of one. It is 0 where no gradient arrives. The same machine gives the same
  /// numbers on every run, with any number of threads. Memory: the network in floats, one float for each
  /// requested element, and what a batch's backward pass holds. Throws Error, which names the cause, where an
  /// operator is not supported, a batch does not fit the loss, or gradients are inf or NaN.
  virtual SquaredGradients squared_gradients(Graph graph, const Batches& batches,
                                             const GradientRequest& requested) const = 0;
};

}  // namespace crumb::graph
