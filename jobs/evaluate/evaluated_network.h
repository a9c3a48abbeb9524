// A network that is evaluated: its file's graph on an engine, with inputs and outputs in the baseline's
// order.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/batch_axes.h"
#include "graph/engine.h"
#include "jobs/evaluate.h"
#include "jobs/observer.h"

namespace crumb::jobs {

class EvaluatedNetwork {
 public:
  /// Opens it for the engine of the request. Throws Error that names the file.
  EvaluatedNetwork(const std::string& path, const EvaluateRequest& request, Observer& observer);

  const std::string& path() const { return path_; }
  const graph::Graph& graph() const { return graph_; }
  const graph::BatchAxes& axes() const { return axes_; }

  /// Takes inputs and gives outputs in the order of the other's from now on: by name, or by position where
  /// the names differ, with a note. Throws Error where one is missing.
  void follow(const EvaluatedNetwork& baseline, Observer& observer);

  /// Runs samples. Throws Error that names the file.
  std::vector<graph::Tensor> run(const std::vector<graph::Tensor>& inputs) const;

 private:
  std::string path_;
  graph::Graph graph_;
  graph::BatchAxes axes_;
  std::unique_ptr<graph::Executable> executable_;
  std::vector<std::size_t> inputs_, outputs_;  ///< places in the baseline's inputs; in its own outputs
};

}  // namespace crumb::jobs
