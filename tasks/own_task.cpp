#include "tasks/own_task.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/files/text.h"
#include "base/within.h"
#include "graph/buffers.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/operator_traits.h"
#include "graph/quantize/operators.h"
#include "libtorch/execute/graph_module.h"
#include "tasks/own_outputs.h"
#include "tasks/train/fit.h"

namespace crumb::tasks {
namespace {

using graph::Graph;
using graph::Node;
using libtorch::GraphModule;

constexpr double kMaskValue = 1e9;
constexpr const char* kBatch = "batch";

bool is_mask(const graph::Tensor& constant) {
  return constant.type() == graph::ElementType::kFloat &&
         std::ranges::any_of(constant.to_floats(),
                             [](float x) { return !std::isfinite(x) || std::fabs(x) > kMaskValue; });
}

/// Returns the constants that do not train, in addition to those that GraphModule leaves out by itself.
std::set<std::string> buffers_of(const Graph& graph) {
  const graph::Constants constants(graph);
  std::set<std::string> found, raw(graph.inputs.begin(), graph.inputs.end());
  for (const Node& node : graph.nodes) {
    const bool from_input =
        std::ranges::any_of(node.inputs, [&](const auto& name) { return raw.contains(name); });
    if (!from_input || !graph::weight_inputs(graph, node, constants).empty()) continue;
    raw.insert(node.outputs.begin(), node.outputs.end());
    if (!is_any(node, graph::trait::kArithmetic)) continue;
    for (const std::string& input : node.inputs) {
      if (graph.constant(input)) found.insert(input);
    }
  }
  for (const auto& [name, constant] : graph.initializers) {
    if (is_mask(constant)) found.insert(name);
  }
  return found;
}

Graph with_buffers(Graph graph) {
  for (const std::string& name : buffers_of(graph)) graph::add_buffer(graph, name);
  return graph;
}

/// Returns the graph for any number of samples, where the file fixes the number.
Graph with_open_batch(Graph graph, const OwnNetwork& own) {
  bool is_open = true;
  for (const std::string& name : graph.inputs) {
    const auto found = graph.values.find(name);
    const auto axis = static_cast<std::size_t>(own.axis_of(name));
    if (found == graph.values.end() || !found->second.shape || found->second.shape->size() <= axis) continue;
    graph::Dim& batch = (*found->second.shape)[axis];
    if (!batch.known()) continue;
    batch = graph::Dim(kBatch);
    is_open = false;
  }
  if (is_open) return graph;
  const std::set<std::string> kept(graph.inputs.begin(), graph.inputs.end());
  for (auto& [name, value] : graph.values) {
    if (!kept.contains(name) && !graph.constant(name)) value.shape.reset();
  }
  return graph::infer_shapes(std::move(graph));
}

std::vector<at::Tensor> narrowed(const std::vector<at::Tensor>& inputs, std::int64_t begin,
                                 std::int64_t count) {
  std::vector<at::Tensor> part;
  for (const at::Tensor& input : inputs) part.push_back(input.narrow(0, begin, count));
  return part;
}

/// A task whose outputs are known by name and axis alone, as far as they learn.
Task bare_task(const OwnNetwork& own, const std::shared_ptr<GraphModule>& module) {
  Task task;
  task.network = own.name;
  task.module = module;
  task.forward = [module](const std::vector<at::Tensor>& inputs) {
    return libtorch::tensors_of(module->run(libtorch::typed_all(inputs)));
  };
  task.graph = [module] { return graph_of_now(*module); };
  for (const std::string& input : own.graph.inputs) task.input_axes.push_back(own.axis_of(input));
  for (std::size_t i = 0; i < own.outputs.size(); ++i) {
    const OwnOutput& output = own.outputs[i];
    if (output.aim == OwnOutput::Aim::kFree) continue;
    TaskOutput one{
        .name = output.name, .index = i, .axis = own.axis_of(output.name), .weight = output.weight};
    task.outputs.push_back(std::move(one));
  }
  return task;
}

/// The outputs that learn, as in Task::outputs.
std::vector<const OwnOutput*> learning(const OwnNetwork& own) {
  std::vector<const OwnOutput*> found;
  for (const OwnOutput& output : own.outputs)
    if (output.aim != OwnOutput::Aim::kFree) found.push_back(&output);
  return found;
}

/// Throws Error where an output's axis is none of what it gives, which otherwise LibTorch would say.
std::vector<at::Tensor> run(const Task& task, const OwnNetwork& own, const std::vector<at::Tensor>& inputs) {
  const torch::NoGradGuard no_gradients;
  const NetworkFunction checked = [&](const std::vector<at::Tensor>& given) {
    std::vector<at::Tensor> all = task.forward(given);
    for (const TaskOutput& output : task.outputs) {
      if (all.at(output.index).dim() > output.axis) continue;
      throw Error(text_of_output(own, own.outputs[output.index]) + " gives " +
                  graph::text_of(all[output.index].sizes().vec()) + ": expected samples along axis " +
                  std::to_string(output.axis));
    }
    return all;
  };
  return run_network(task, checked, inputs);
}

/// Returns what the outputs that learn give for the first sample. Throws Error where samples do not fit the
/// network.
std::vector<at::Tensor> examples_of(const Task& task, const OwnNetwork& own, const OwnSamples& samples,
                                    const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> examples;
  try {
    examples = run(task, own, narrowed(inputs, 0, 1));
  } catch (const Error& error) {
    throw within(samples.inputs[0].from, error);
  }
  for (std::size_t i = 0; i < examples.size(); ++i) {
    if (examples[i].size(0) == 1) continue;
    const TaskOutput& output = task.outputs[i];
    const bool has_several = own.outputs.size() > 1;
    throw Error(text_of_output(own, own.outputs[output.index]) + " gives " +
                graph::text_of(examples[i].movedim(0, output.axis).sizes().vec()) +
                " for one sample: expected samples along axis " + std::to_string(output.axis) +
                "; --batch-axis " + output.name + "=AXIS names another" +
                (has_several ? ", --loss-weight " + output.name + "=0 leaves it as it comes" : ""));
  }
  return examples;
}

/// Throws Error where a batch does not give what its samples give alone: a shape in the file contains the
/// batch size.
void check_batches(const Task& task, const OwnNetwork& own, const std::vector<at::Tensor>& inputs) {
  if (inputs[0].size(0) < 2) return;
  const std::string advice = "; export the network with an open batch (dynamic_axes, dynamic_shapes)";
  std::vector<at::Tensor> both;
  const std::vector<at::Tensor> first = run(task, own, narrowed(inputs, 0, 1)),
                                second = run(task, own, narrowed(inputs, 1, 1));
  try {
    both = run(task, own, narrowed(inputs, 0, 2));
  } catch (const Error& error) {
    throw Error(quote_text(own.name) + " does not take two samples at once: " + error.what() + advice,
                error.kind());
  }
  for (std::size_t i = 0; i < both.size(); ++i) {
    const at::Tensor alone = at::cat({first[i], second[i]});
    if (both[i].sizes() == alone.sizes() && at::allclose(both[i], alone, 1e-3, 1e-4)) continue;
    throw Error(text_of_output(own, own.outputs[task.outputs[i].index]) +
                " gives two samples at once other outputs (" + libtorch::text_of(libtorch::typed(both[i])) +
                ") than one by one" + advice);
  }
}

bool are_shares(const OwnNetwork& own, const OwnOutput& output) {
  const graph::Links links(own.graph);
  const std::size_t last = links.producer(output.name);
  return last != graph::Links::kNone && own.graph.nodes[last].is("Softmax");
}

/// Returns the samples that are held out, or the others.
SampleTensors part_of(const SampleTensors& all, bool held_out) {
  const at::Tensor numbers = at::arange(all.count());
  const at::Tensor chosen = numbers.remainder(kHoldOutEvery).eq(kHoldOutEvery - 1).eq(held_out);
  const at::Tensor wanted = chosen.nonzero().flatten();
  SampleTensors part;
  for (const at::Tensor& one : all.inputs) part.inputs.push_back(one.index_select(0, wanted));
  for (const at::Tensor& one : all.targets)
    part.targets.push_back(one.defined() ? one.index_select(0, wanted) : one);
  return part;
}

/// Puts what the float network gives for the samples in the place of the targets that are missing.
void add_float_outputs(const Task& task, const OwnNetwork& own, SampleTensors& samples,
                       const std::string& from) {
  if (std::ranges::all_of(samples.targets, [](const at::Tensor& one) { return one.defined(); })) return;
  const std::vector<at::Tensor> made = outputs_of(task, *task.module, task.forward, samples.inputs);
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (samples.targets[i].defined()) continue;
    const std::string output = text_of_output(own, own.outputs[task.outputs[i].index]);
    const std::string leave = "; --loss-weight " + task.outputs[i].name + "=0 leaves it as it comes";
    if (!made[i].is_floating_point()) {
      throw Error(output + " gives " + libtorch::text_of(libtorch::typed(made[i])) +
                  ", which cannot be held to what the float network gives: expected floats" + leave);
    }
    if (!at::isfinite(made[i]).all().item<bool>()) {
      throw Error(output + " gives numbers that are not finite for " + from +
                  ": it cannot be held to what the float network gives" + leave);
    }
    samples.targets[i] = made[i].to(at::kFloat);
  }
}

}  // namespace

Task own_task(const OwnNetwork& own) {
  const auto module = std::make_shared<GraphModule>(with_buffers(with_open_batch(own.graph, own)));
  if (module->parameters().empty())
    throw Error(quote_text(own.name) + " has no weights in float32: nothing of it learns");
  Task task = bare_task(own, module);
  const std::vector<const OwnOutput*> outputs = learning(own);
  std::vector<std::int64_t> class_axes(outputs.size(), 1);
  // Files are checked as a whole, so that errors have their indices and shapes.
  const auto checked = [&](const OwnSamples& samples) {
    SampleTensors read;
    for (std::size_t i = 0; i < samples.inputs.size(); ++i)
      read.inputs.push_back(samples_first(samples.inputs[i].values, task.input_axes[i]));
    const std::vector<at::Tensor> examples = examples_of(task, own, samples, read.inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      OutputLabels labels;
      if (outputs[i]->aim == OwnOutput::Aim::kLabels)
        labels = labels_of(own, *outputs[i], samples.targets.at(outputs[i]->name), examples[i]);
      else if (outputs[i]->loss == "kl")
        labels.class_axis = held_class_axis(own, *outputs[i], examples[i]);
      class_axes[i] = labels.class_axis;
      read.targets.push_back(labels.targets);
    }
    return read;
  };
  if (own.valid) task.test = checked(*own.valid);
  task.train = checked(own.train);
  check_batches(task, own, task.train.inputs);
  const OwnSamples& scored = own.valid ? *own.valid : own.train;
  if (own.valid) add_float_outputs(task, own, task.test, scored.inputs[0].from);
  add_float_outputs(task, own, task.train, own.train.inputs[0].from);
  if (!own.valid) {
    task.test = part_of(task.train, true);
    task.train = part_of(task.train, false);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = outputs[i]->name;
    if (outputs[i]->loss == "kl") {
      use_float_distributions(task.outputs[i], class_axes[i], are_shares(own, *outputs[i]));
    } else if (outputs[i]->aim == OwnOutput::Aim::kHeld) {
      use_float_outputs(task.outputs[i], task.train.targets[i]);
    } else if (outputs[i]->loss == "mse") {
      use_values(task.outputs[i]);
    } else {
      expect_counting(task.train.targets[i], own.train.targets.at(name).from, "to train by");
      expect_counting(task.test.targets[i], scored.targets.at(name).from, "to score by");
      use_classes(task.outputs[i], class_axes[i], are_shares(own, *outputs[i]));
    }
  }
  // The run's score is that of the first output with labels.
  const auto first = std::ranges::find(task.outputs, false, &TaskOutput::is_held) - task.outputs.begin();
  const auto to_front = [&](auto& values) {
    std::rotate(values.begin(), values.begin() + first, values.begin() + first + 1);
  };
  to_front(task.outputs);
  to_front(task.train.targets);
  to_front(task.test.targets);
  task.float_pace = {.epochs = 0, .batch = 32, .rate = 1e-3, .decay = 1e-4};
  task.quantized_pace = {.epochs = 10, .batch = 32, .rate = 1e-3, .decay = 1e-4};
  return task;
}

}  // namespace crumb::tasks
