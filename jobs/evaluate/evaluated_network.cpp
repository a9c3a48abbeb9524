#include "jobs/evaluate/evaluated_network.h"

#include <algorithm>
#include <numeric>

#include "base/files/text.h"
#include "base/within.h"
#include "graph/batches.h"
#include "graph/onnx/infer_shapes.h"
#include "jobs/engines/prepare_graph.h"
#include "jobs/engines/torchscript_file.h"
#include "models/read_graph.h"

namespace crumb::jobs {
namespace {

constexpr std::int64_t kTogether = 256;

graph::Graph read(const std::string& path, const EvaluateRequest& request, const Observer& observer) {
  if (!is_torchscript(path)) return graph::infer_shapes(models::open_graph(path));
  return read_torchscript(path,
                          {.inputs = request.data,
                           .inputs_field = observer.spelled("data"),
                           .arguments = request.arguments,
                           .batch_axes = request.batch_axes},
                          observer)
      .graph;
}

std::unique_ptr<graph::Executable> prepare(const graph::Graph& graph, const std::string& path,
                                           const EvaluateRequest& request, Observer& observer) {
  if (request.engine == "libtorch") return prepare_on_libtorch(graph, "cpu", request.threads);
  if (request.engine == "runtime") return prepare_on_runtime(graph, request.threads);
  return prepare_on_either(graph, request.threads, [&](const Error& why) {
    observer.note(quote_text(path) + " runs on LibTorch: " + why.what());
  });
}

/// Indices of the wanted names among those that are there: by name, else, where there are as many, by
/// position.
std::vector<std::size_t> indices_of(const std::vector<std::string>& wanted,
                                    const std::vector<std::string>& there, const std::string& what) {
  std::vector<std::size_t> found;
  for (const std::string& name : wanted) {
    const auto at = std::ranges::find(there, name);
    if (at != there.end()) found.push_back(static_cast<std::size_t>(at - there.begin()));
  }
  if (found.size() == wanted.size()) return found;
  if (wanted.size() != there.size())
    throw Error("the model's and the baseline's " + what +
                " have other names and are not as many: " + std::to_string(wanted.size()) +
                " are wanted, and " + std::to_string(there.size()) + " are there");
  found.resize(wanted.size());
  std::iota(found.begin(), found.end(), std::size_t{0});
  return found;
}

}  // namespace

EvaluatedNetwork::EvaluatedNetwork(const std::string& path, const EvaluateRequest& request,
                                   Observer& observer)
    : path_(path) {
  try {
    graph_ = read(path, request, observer);
    axes_ = graph::parse_batch_axes(graph_, request.batch_axes, observer.spelled("batch_axes"));
    executable_ = prepare(graph_, path, request, observer);
  } catch (const Error& error) {
    const std::string message = error.what();
    if (message.find(path) != std::string::npos) throw;
    throw within(quote_text(path), error);
  }
  inputs_ = indices_of(graph_.inputs, graph_.inputs, "inputs");
  outputs_ = indices_of(graph_.outputs, graph_.outputs, "outputs");
}

void EvaluatedNetwork::follow(const EvaluatedNetwork& baseline, Observer& observer) {
  const auto differ = [](const std::vector<std::string>& wanted, const std::vector<std::string>& there) {
    return !std::ranges::all_of(
        wanted, [&](const std::string& name) { return std::ranges::find(there, name) != there.end(); });
  };
  try {
    inputs_ = indices_of(graph_.inputs, baseline.graph_.inputs, "inputs");
    outputs_ = indices_of(baseline.graph_.outputs, graph_.outputs, "outputs");
  } catch (const Error& error) {
    throw within(quote_text(path_), error);
  }
  if (differ(graph_.inputs, baseline.graph_.inputs) || differ(baseline.graph_.outputs, graph_.outputs))
    observer.note(quote_text(path_) +
                  " names inputs or outputs otherwise than the baseline: they are matched by position");
}

std::vector<graph::Tensor> EvaluatedNetwork::run(const std::vector<graph::Tensor>& inputs) const {
  try {
    std::vector<graph::Tensor> own;
    for (const std::size_t i : inputs_) own.push_back(inputs[i]);
    const auto made =
        graph::run_batch(graph_, *executable_, own, graph::plan_batch(graph_, own, kTogether, axes_));
    std::vector<graph::Tensor> outputs;
    for (const std::size_t i : outputs_) outputs.push_back(made.at(graph_.outputs[i]));
    return outputs;
  } catch (const Error& error) {
    throw within(quote_text(path_), error);
  }
}

}  // namespace crumb::jobs
