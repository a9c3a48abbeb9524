// The interface of what executes graphs: passes, calibration and the command line need results, not LibTorch.
// libtorch/engine.h implements it on ATen.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

/// Which values a run shows as nodes compute them. An engine converts only these.
struct Watch {
  std::function<void(const std::string& value, const Tensor& made)> show;  ///< empty: nothing is shown
  std::optional<std::set<std::string>> wanted;                             ///< nothing: all values

  bool wants(const std::string& value) const { return show && (!wanted || wanted->contains(value)); }
};

/// A graph, ready to run. Not thread-safe.
class Executable {
 public:
  Executable() = default;
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  virtual ~Executable() = default;

  /// Runs the graph. Takes inputs and returns outputs in the graph's order. Throws Error, which names the
  /// input or the node, where the graph does not take an input's type or shape, and where an operator refuses
  /// its inputs.
  virtual std::vector<Tensor> run(const std::vector<Tensor>& inputs, const Watch& watch = {}) const = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;

  /// Makes a graph ready to run. Throws one Error that names every node that cannot be executed.
  virtual std::unique_ptr<Executable> prepare(Graph graph) const = 0;

  /// Whether the engine can execute the node's operator.
  virtual bool knows(const Node& node) const = 0;
};

}  // namespace crumb::graph
