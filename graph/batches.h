// Runs a graph over many samples: all at once, or in pieces where its batch is fixed or memory is short.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graph/batch_axes.h"
#include "graph/engine.h"

namespace crumb::graph {

/// How a batch is split: `piece` samples at a time of `total`.
struct BatchPlan {
  std::int64_t total = 0;
  std::int64_t piece = 0;
  BatchAxes axes = {};  ///< of samples, in inputs and outputs
  bool whole() const { return piece == total; }
};

/// Returns the pieces in which a graph takes these inputs. A graph whose inputs and outputs all have the same
/// fixed size on axis 0 is run that many samples at a time: its last piece repeats the last sample, and the
/// surplus is dropped. A graph whose axis 0 is one symbol throughout is run `most` samples at a time. `axes`:
/// other axes of samples; where some are given, the inputs alone decide. Throws Error, which names input,
/// expected and found, for every other difference between an input's shape and what the graph fixes.
BatchPlan plan_batch(const Graph& graph, const std::vector<Tensor>& inputs, std::int64_t most = 256,
                     const BatchAxes& axes = {});

/// Returns `count` samples from `begin` on along an axis; where the tensor has fewer, the last one is
/// repeated.
Tensor samples_of(const Tensor& tensor, std::int64_t begin, std::int64_t count, std::int64_t axis = 0);

/// Returns a piece of a graph's inputs, as its plan cuts them.
std::vector<Tensor> piece_of(const Graph& graph, const std::vector<Tensor>& inputs, const BatchPlan& plan,
                             std::int64_t begin, std::int64_t count);

struct BatchOptions {
  bool all_values = false;  ///< return what every node computed, too
  std::function<void(std::int64_t done)> progress;
};

/// Returns the outputs by name, and with all_values every value. Pieces are concatenated along the axis of
/// samples; where the plan names axes, an output that does not have them there is an Error.
std::map<std::string, Tensor> run_batch(const Graph& graph, const Executable& executable,
                                        const std::vector<Tensor>& inputs, const BatchPlan& plan,
                                        const BatchOptions& options = {});

}  // namespace crumb::graph
