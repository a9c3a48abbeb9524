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
  /// Opens it for the engine of the request. `baseline`: another network, whose inputs it takes and whose
  /// outputs it gives in that order from now on, by name, or by position where the names differ, with a note;
  /// samples lie along the other's axes. Null for the baseline itself. Throws Error that names the file.
  EvaluatedNetwork(const std::string& path, const EvaluateRequest& request, const EvaluatedNetwork* baseline,
                   Observer& observer);

  const std::string& path() const { return path_; }
  const graph::Graph& graph() const { return graph_; }
  const graph::BatchAxes& axes() const { return axes_; }

  /// Runs samples. Inputs that the network takes in another type than they have are converted (input_type.h),
  /// with a note. Throws Error that names the file.
  std::vector<graph::Tensor> run(const std::vector<graph::Tensor>& inputs, Observer& observer);

 private:
  void follow(const EvaluatedNetwork& baseline, Observer& observer);
  graph::Tensor input_of(std::size_t i, const graph::Tensor& given, Observer& observer);

  std::string path_;
  graph::Graph graph_;
  graph::BatchAxes axes_;
  std::unique_ptr<graph::Executable> executable_;
  std::vector<std::size_t> inputs_, outputs_;  ///< places in the baseline's inputs; in its own outputs
  bool told_types_ = false;
};

/// Throws usage Error where TorchScript's arguments are given and no network of the request has such an
/// argument.
void check_arguments(const EvaluateRequest& request, const Observer& observer);

}  // namespace crumb::jobs
