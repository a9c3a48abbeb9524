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

namespace crumb::tasks {
namespace {

using graph::Graph;
using graph::Node;
using libtorch::GraphModule;

constexpr std::int64_t kIgnored = -100;
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
Graph with_open_batch(Graph graph) {
  const graph::Value* input = graph.find(graph.inputs.at(0));
  if (!input || !input->shape || input->shape->empty() || !(*input->shape)[0].known()) return graph;
  const std::set<std::string> kept(graph.inputs.begin(), graph.inputs.end());
  for (auto& [name, value] : graph.values) {
    if (!kept.contains(name) && !graph.constant(name)) value.shape.reset();
  }
  (*graph.values.at(graph.inputs[0]).shape)[0] = graph::Dim(kBatch);
  return graph::infer_shapes(std::move(graph));
}

at::Tensor tensor_of(const graph::Tensor& tensor) { return libtorch::to_typed(tensor).tensor; }

at::Tensor run_one(const GraphModule& module, const at::Tensor& input) {
  return module.run({libtorch::typed(input)}).at(0).tensor;
}

/// Returns the network's output for the first sample. Throws Error where samples do not fit it.
at::Tensor example_of(const GraphModule& module, const OwnNetwork& own, const OwnSamples& samples) {
  const torch::NoGradGuard no_gradients;
  at::Tensor example;
  try {
    example = run_one(module, tensor_of(samples.inputs).narrow(0, 0, 1));
  } catch (const Error& error) {
    throw within(samples.inputs_from, error);
  }
  if (example.dim() > 0 && example.size(0) == 1) return example;
  throw Error(quote_text(own.name) + " gives " + graph::text_of(example.sizes().vec()) +
              " for one sample: expected samples along axis 0");
}

/// Throws Error where a batch does not give what its samples give alone: a shape in the file contains the
/// batch size.
void check_batches(const GraphModule& module, const OwnNetwork& own, const at::Tensor& inputs) {
  if (inputs.size(0) < 2) return;
  const torch::NoGradGuard no_gradients;
  const std::string advice = "; export the network with an open batch (dynamic_axes, dynamic_shapes)";
  at::Tensor both;
  const at::Tensor first = run_one(module, inputs.narrow(0, 0, 1)),
                   second = run_one(module, inputs.narrow(0, 1, 1));
  try {
    both = run_one(module, inputs.narrow(0, 0, 2));
  } catch (const Error& error) {
    throw Error(quote_text(own.name) + " does not take two samples at once: " + error.what() + advice,
                error.kind());
  }
  const at::Tensor alone = at::cat({first, second});
  if (both.sizes() != alone.sizes() || !at::allclose(both, alone, 1e-3, 1e-4)) {
    throw Error(quote_text(own.name) + " gives two samples at once other outputs (" +
                libtorch::text_of(libtorch::typed(both)) + ") than one by one" + advice);
  }
}

/// Returns the axis of the classes in the scores: the one that labels do not have. Labels [N] or [N, ...].
std::int64_t class_axis(const OwnNetwork& own, const OwnSamples& samples, at::IntArrayRef scores,
                        at::IntArrayRef labels) {
  const auto without = [&](std::int64_t axis) {
    std::vector<std::int64_t> left(scores.begin(), scores.end());
    left.erase(left.begin() + axis);
    return left == std::vector<std::int64_t>(labels.begin(), labels.end());
  };
  if (scores.size() == labels.size() + 1 && scores.size() >= 2) {
    const auto last = static_cast<std::int64_t>(scores.size()) - 1;
    if (without(1)) return 1;
    if (without(last)) return last;
  }
  throw Error(samples.targets_from + " of shape " + graph::text_of(samples.targets.shape()) +
              " does not fit scores of shape " + graph::text_of(scores.vec()) + ", which " +
              quote_text(own.name) +
              " gives: expected one class for each place, [N] for scores [N, classes]");
}

at::Tensor labels_of(const OwnSamples& samples, std::size_t score_axes) {
  const at::Tensor labels = tensor_of(samples.targets);
  if (labels.is_floating_point() || labels.scalar_type() == at::kBool) {
    throw Error(samples.targets_from + " of type " + std::string(graph::name_of(samples.targets.type())) +
                ": cross entropy (--loss ce) needs the numbers of classes, whole numbers");
  }
  at::Tensor whole = labels.to(at::kLong);
  while (whole.dim() > 1 && static_cast<std::size_t>(whole.dim()) >= score_axes &&
         whole.size(whole.dim() - 1) == 1) {
    whole = whole.squeeze(whole.dim() - 1);  // [N, 1]
  }
  return whole.contiguous();
}

void check_labels(const at::Tensor& labels, const OwnSamples& samples, std::int64_t classes) {
  const at::Tensor wrong = labels.ne(kIgnored).logical_and(labels.lt(0).logical_or(labels.ge(classes)));
  if (!wrong.any().item<bool>()) return;
  const at::Tensor place = wrong.view({-1}).nonzero()[0][0];
  throw Error(samples.targets_from + " holds class " +
              std::to_string(labels.view({-1})[place].item<std::int64_t>()) + ", expected 0 to " +
              std::to_string(classes - 1) + ", at index " + std::to_string(place.item<std::int64_t>()) +
              " of " + graph::text_of(samples.targets.shape()) + " (the network gives " +
              std::to_string(classes) + " scores; -100 is for what does not count)");
}

/// The labels of samples for cross entropy, and the axis of classes.
struct Classes {
  at::Tensor labels;
  std::int64_t axis = 1;
};

Classes classes_of(const OwnNetwork& own, const OwnSamples& samples, const at::Tensor& example) {
  Classes found{.labels = labels_of(samples, static_cast<std::size_t>(example.dim()))};
  std::vector<std::int64_t> scores = example.sizes().vec();
  scores[0] = found.labels.size(0);
  found.axis = class_axis(own, samples, scores, found.labels.sizes());
  const std::int64_t classes = scores[static_cast<std::size_t>(found.axis)];
  if (classes < 2) {
    throw Error(quote_text(own.name) +
                " gives one score: cross entropy (--loss ce) needs one for each class, two at least");
  }
  check_labels(found.labels, samples, classes);
  return found;
}

at::Tensor values_of(const OwnNetwork& own, const OwnSamples& samples, const at::Tensor& example) {
  at::Tensor values = tensor_of(samples.targets).to(at::kFloat);
  std::vector<std::int64_t> wanted = example.sizes().vec();
  wanted[0] = values.size(0);
  std::int64_t each = 1;
  for (std::size_t i = 1; i < wanted.size(); ++i) each *= wanted[i];
  const bool only_ones = values.numel() == wanted[0] * each &&
                         std::ranges::count_if(values.sizes(), [](std::int64_t n) { return n != 1; }) ==
                             std::ranges::count_if(wanted, [](std::int64_t n) { return n != 1; });
  if (values.sizes() == at::IntArrayRef(wanted)) return values;
  if (only_ones) return values.reshape(wanted);  // [N] for [N, 1]
  throw Error(samples.targets_from + " of shape " + graph::text_of(samples.targets.shape()) +
              " does not fit outputs of shape " + graph::text_of(wanted) + ", which " + quote_text(own.name) +
              " gives");
}

/// Sets cross entropy as the loss. `axis` is the classes'.
void use_classes(Task& task, const OwnNetwork& own, std::int64_t axis) {
  const graph::Links links(own.graph);
  const std::size_t last = links.producer(own.graph.outputs[0]);
  const bool are_shares = last != graph::Links::kNone && own.graph.nodes[last].is("Softmax");
  task.metric = "accuracy";
  task.loss = [axis, are_shares](const at::Tensor& scores_now, const at::Tensor& labels) {
    const at::Tensor in_place = scores_now.movedim(axis, 1);
    if (!labels.ne(kIgnored).any().item<bool>()) return in_place.sum() * 0;  // no mean over no labels
    return at::cross_entropy_loss(are_shares ? in_place.clamp_min(1e-12).log() : in_place, labels, {},
                                  at::Reduction::Mean, kIgnored);
  };
  task.score = [axis](const at::Tensor& scores_now, const at::Tensor& labels) {
    const at::Tensor counts = labels.ne(kIgnored);
    const at::Tensor right = scores_now.argmax(axis).eq(labels).logical_and(counts);
    return static_cast<double>(right.sum().item<std::int64_t>()) /
           static_cast<double>(std::max<std::int64_t>(counts.sum().item<std::int64_t>(), 1));
  };
}

void use_values(Task& task) {
  task.metric = "mse";
  task.loss = [](const at::Tensor& made, const at::Tensor& wanted) {
    return (made - wanted).square().mean();
  };
  task.score = [](const at::Tensor& made, const at::Tensor& wanted) {
    return (made - wanted).to(at::kDouble).square().mean().item<double>();
  };
}

/// Returns the samples that are held out, or the others.
TensorPair part_of(const TensorPair& all, bool held_out) {
  const at::Tensor numbers = at::arange(all.inputs.size(0));
  const at::Tensor chosen = numbers.remainder(kHoldOutEvery).eq(kHoldOutEvery - 1).eq(held_out);
  const at::Tensor wanted = chosen.nonzero().flatten();
  return {all.inputs.index_select(0, wanted), all.targets.index_select(0, wanted)};
}

void expect_counting(const at::Tensor& labels, const std::string& from, const std::string& which) {
  if (labels.ne(kIgnored).any().item<bool>()) return;
  throw Error(from + ": none of the " + std::to_string(labels.numel()) + " labels " + which +
              " counts, all are -100");
}

}  // namespace

Task own_task(const OwnNetwork& own) {
  const auto module = std::make_shared<GraphModule>(with_buffers(with_open_batch(own.graph)));
  if (module->parameters().empty())
    throw Error(quote_text(own.name) + " has no weights in float32: nothing of it learns");
  Task task;
  task.network = own.name;
  task.module = module;
  task.forward = [module](const at::Tensor& x) { return run_one(*module, x); };
  task.graph = [module] { return graph_of_now(*module); };
  std::int64_t axis = 1;
  // Files are checked as a whole, so that errors have their indices and shapes.
  const auto checked = [&](const OwnSamples& samples) -> TensorPair {
    const at::Tensor example = example_of(*module, own, samples);
    if (own.loss == "mse") return {tensor_of(samples.inputs), values_of(own, samples, example)};
    const Classes classes = classes_of(own, samples, example);
    axis = classes.axis;
    return {tensor_of(samples.inputs), classes.labels};
  };
  if (own.valid) task.test = checked(*own.valid);
  task.train = checked(own.train);
  check_batches(*module, own, task.train.inputs);
  if (!own.valid) {
    task.test = part_of(task.train, true);
    task.train = part_of(task.train, false);
  }
  if (own.loss == "mse") {
    use_values(task);
  } else {
    expect_counting(task.train.targets, own.train.targets_from, "to train by");
    expect_counting(task.test.targets, (own.valid ? *own.valid : own.train).targets_from, "to score by");
    use_classes(task, own, axis);
  }
  task.float_pace = {.epochs = 0, .batch = 32, .rate = 1e-3, .decay = 1e-4};
  task.quantized_pace = {.epochs = 10, .batch = 32, .rate = 1e-3, .decay = 1e-4};
  return task;
}

}  // namespace crumb::tasks
