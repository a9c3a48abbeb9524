#include "jobs/evaluate/evaluated_network.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/files/text.h"
#include "base/text/nearest_name.h"
#include "base/within.h"
#include "graph/batches.h"
#include "graph/onnx/infer_shapes.h"
#include "jobs/engines/open_engine.h"
#include "jobs/engines/prepare_graph.h"
#include "jobs/engines/torchscript_file.h"
#include "jobs/evaluate/input_type.h"
#include "models/read_graph.h"

namespace crumb::jobs {
namespace {

constexpr std::int64_t kTogether = 256;

/// Samples that an archive is called with to become a graph. Where it runs for so many only, so does its
/// graph.
constexpr std::int64_t kCalled = 8;

std::string name_in(const std::string& requested) { return requested.substr(0, requested.find('=')); }

bool takes(const std::vector<graph::TorchScriptArgument>& arguments, const std::string& name) {
  return std::ranges::any_of(arguments, [&](const auto& argument) { return argument.name == name; });
}

graph::Graph read(const std::string& path, const EvaluateRequest& request, const EvaluatedNetwork* baseline,
                  const Observer& observer) {
  if (!is_torchscript(path)) return graph::infer_shapes(models::open_graph(path));
  TorchScriptExample example{.inputs = request.data,
                             .inputs_field = observer.spelled("data"),
                             .batch_axes = request.batch_axes,
                             .most_samples = kCalled};
  if (baseline) example.called = baseline->graph().inputs;
  if (!request.arguments.empty()) {  // each archive takes its own
    const auto arguments = open_torchscript_reader().arguments(path);
    std::ranges::copy_if(request.arguments, std::back_inserter(example.arguments),
                         [&](const std::string& one) { return takes(arguments, name_in(one)); });
  }
  return read_torchscript(path, example, observer).graph;
}

std::unique_ptr<graph::Executable> prepare(const graph::Graph& graph, const std::string& path,
                                           const EvaluateRequest& request, Observer& observer) {
  const std::string device = request.device.empty() ? "cpu" : request.device;
  if (request.engine == "libtorch" || device != "cpu")
    return prepare_on_libtorch(graph, device, request.threads);
  if (request.engine == "runtime") return prepare_on_runtime(graph, request.threads);
  return prepare_on_either(graph, request.threads, [&](const Error& why) {
    observer.note(quote_text(path) + " runs on LibTorch: " + why.what());
  });
}

std::string list_of(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + quote_text(name);
  return list.empty() ? "none" : list;
}

/// Indices of the wanted names among those that are there: by name, else, where there are as many, by
/// position. `is_model_wanted`: the wanted ones are the model's, and those that are there the baseline's.
std::vector<std::size_t> indices_of(const std::vector<std::string>& wanted,
                                    const std::vector<std::string>& there, const std::string& what,
                                    bool is_model_wanted) {
  std::vector<std::size_t> found;
  for (const std::string& name : wanted) {
    const auto at = std::ranges::find(there, name);
    if (at != there.end()) found.push_back(static_cast<std::size_t>(at - there.begin()));
  }
  if (found.size() == wanted.size()) return found;
  if (wanted.size() != there.size())
    throw Error(what + " are " + list_of(is_model_wanted ? wanted : there) + ", and those of the baseline " +
                list_of(is_model_wanted ? there : wanted) + ": expected the same names, or as many");
  found.resize(wanted.size());
  std::iota(found.begin(), found.end(), std::size_t{0});
  return found;
}

}  // namespace

EvaluatedNetwork::EvaluatedNetwork(const std::string& path, const EvaluateRequest& request,
                                   const EvaluatedNetwork* baseline, Observer& observer)
    : path_(path) {
  try {
    graph_ = read(path, request, baseline, observer);
    executable_ = prepare(graph_, path, request, observer);
    if (baseline) {
      follow(*baseline, observer);
    } else {
      axes_ = graph::parse_batch_axes(graph_, request.batch_axes, observer.spelled("batch_axes"));
      inputs_ = indices_of(graph_.inputs, graph_.inputs, "inputs", true);
      outputs_ = indices_of(graph_.outputs, graph_.outputs, "outputs", false);
    }
  } catch (const Error& error) {
    const std::string message = error.what();
    if (message.find(path) != std::string::npos) throw;
    throw within(quote_text(path), error);
  }
}

void EvaluatedNetwork::follow(const EvaluatedNetwork& baseline, Observer& observer) {
  inputs_ = indices_of(graph_.inputs, baseline.graph_.inputs, "inputs", true);
  outputs_ = indices_of(baseline.graph_.outputs, graph_.outputs, "outputs", false);
  bool are_named_alike = true;
  const auto lie_alike = [&](const std::string& own, const std::string& other) {
    are_named_alike = are_named_alike && own == other;
    if (baseline.axes_.contains(other)) axes_[own] = baseline.axes_.at(other);
  };
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    lie_alike(graph_.inputs[i], baseline.graph_.inputs[inputs_[i]]);
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    lie_alike(graph_.outputs[outputs_[i]], baseline.graph_.outputs[i]);
  if (!are_named_alike)
    observer.note(quote_text(path_) +
                  " names inputs or outputs otherwise than the baseline: they are matched by position");
}

graph::Tensor EvaluatedNetwork::input_of(std::size_t i, const graph::Tensor& given, Observer& observer) {
  const std::string& name = graph_.inputs[i];
  const graph::Value* value = graph_.find(name);
  if (!value || value->type == graph::ElementType::kUnknown || value->type == given.type()) return given;
  graph::Tensor converted = in_type(given, value->type, "input " + quote_text(name));
  if (!told_types_)
    observer.note(quote_text(path_) + " takes input " + quote_text(name) + " as " +
                  std::string(name_of(value->type)) + ", and the data are " +
                  std::string(name_of(given.type())) + ": they are converted");
  told_types_ = true;
  return converted;
}

std::vector<graph::Tensor> EvaluatedNetwork::run(const std::vector<graph::Tensor>& inputs,
                                                 Observer& observer) {
  try {
    std::vector<graph::Tensor> own;
    for (std::size_t i = 0; i < inputs_.size(); ++i) own.push_back(input_of(i, inputs[inputs_[i]], observer));
    const auto made =
        graph::run_batch(graph_, *executable_, own, graph::plan_batch(graph_, own, kTogether, axes_));
    std::vector<graph::Tensor> outputs;
    for (const std::size_t i : outputs_) outputs.push_back(made.at(graph_.outputs[i]));
    return outputs;
  } catch (const Error& error) {
    throw within(quote_text(path_), error);
  }
}

void check_arguments(const EvaluateRequest& request, const Observer& observer) {
  if (request.arguments.empty()) return;
  const std::string field = observer.spelled("arguments");
  std::vector<std::string> names;
  bool has_archive = false;
  const auto collect = [&](const std::string& path) {
    if (!is_torchscript(path)) return;
    has_archive = true;
    for (const auto& argument : open_torchscript_reader().arguments(path)) names.push_back(argument.name);
  };
  collect(request.baseline);
  for (const std::string& model : request.models) collect(model);
  if (!has_archive) throw usage_error(field + " is for TorchScript archives, and no model is one");
  for (const std::string& requested : request.arguments) {
    if (requested.find('=') == std::string::npos || requested.starts_with('='))
      throw usage_error(field + " " + quote_text(requested) + ": expected NAME=VALUE, as in steps=4");
    if (std::ranges::find(names, name_in(requested)) == names.end())
      throw usage_error(field + " " + quote_text(requested) + ": " +
                        unknown_name("argument", name_in(requested), names));
  }
}

}  // namespace crumb::jobs
