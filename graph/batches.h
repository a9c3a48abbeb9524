// Running a graph over many samples: in one piece, or in pieces where its batch is fixed or memory matters.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graph/engine.h"

namespace crumb::graph {

/// How a batch is cut: `piece` samples at a time of `total`, along axis 0 of every input.
struct BatchPlan {
  std::int64_t total = 0;
  std::int64_t piece = 0;
  bool whole() const { return piece == total; }
};

/// The pieces that a graph takes inputs in. A graph whose inputs and outputs all have the same fixed size on axis 0
/// is run that many samples at a time (the last piece filled up with its last sample, the surplus dropped); one
/// whose axis 0 is one symbol throughout, `most` at a time. Every other difference between an input's shape and what
/// the graph fixes is an Error that names input, expected and found.
BatchPlan plan_batch(const Graph& graph, const std::vector<Tensor>& inputs, std::int64_t most = 256);

/// `count` samples from `begin` on; where there are fewer, the last one again and again.
Tensor samples_of(const Tensor& tensor, std::int64_t begin, std::int64_t count);

struct BatchOptions {
  bool all_values = false;  ///< what every node made too
  std::function<void(std::int64_t done)> progress;
};

/// Outputs by name, and with all_values every value; pieces are put together along axis 0.
std::map<std::string, Tensor> run_batch(const Graph& graph, const Executable& executable,
                                        const std::vector<Tensor>& inputs, const BatchPlan& plan,
                                        const BatchOptions& options = {});

}  // namespace crumb::graph
