#include "libtorch/execute/plan.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <set>

namespace crumb::libtorch {
namespace {

using graph::Graph;
using graph::Node;

constexpr std::size_t kMostGrowth = std::size_t{4} << 20;  // bytes

std::string text_of(const std::vector<TypedTensor>& values) {
  std::string text;
  for (const TypedTensor& value : values) text += (text.empty() ? "" : ", ") + text_of(value);
  return text;
}

/// ATen's errors become ours, with the node and what it was given.
template <class Compute>
Outputs computed_by(const Compute& compute, const Node& node, const std::vector<TypedTensor>& arguments) {
  try {
    return compute();
  } catch (const c10::Error& error) {
    throw Error(graph::text_of(node) + " cannot take " + text_of(arguments) + ": " +
                error.what_without_backtrace());
  }
}

Outputs run_kernel(Kernel kernel, const Node& node, const std::vector<TypedTensor>& arguments) {
  return computed_by([&] { return kernel(Call(node, arguments)); }, node, arguments);
}

std::size_t bytes_of(const std::vector<TypedTensor>& values) {
  std::size_t bytes = 0;
  for (const TypedTensor& value : values) {
    if (value.defined()) bytes += value.tensor.nbytes();
  }
  return bytes;
}

/// A tensor of the shape that the graph fixes for an input, to ask for that shape; undefined where none is fixed.
TypedTensor stand_in(const Graph& graph, const std::string& input) {
  const graph::Value* value = graph.find(input);
  if (!value || value->type == graph::ElementType::kUnknown || !value->is_static()) return {};
  std::vector<std::int64_t> sizes;
  for (const graph::Dim& dim : *value->shape) sizes.push_back(dim.size);
  return {at::zeros({}, carrier_of(value->type)).expand(sizes), value->type};
}

}  // namespace

Plan::Plan(const Graph& graph, const Constants& constants) {
  std::map<std::string, std::size_t> slots;
  const auto slot_of = [&](const std::string& value) {
    return value.empty() ? kNoSlot : slots.try_emplace(value, slots.size()).first->second;
  };
  for (const auto& [name, constant] : constants) {
    constants_.emplace_back(slot_of(name), constant);
    constant_slots_[name] = constants_.back().first;
  }
  for (const std::string& input : graph.inputs) inputs_.push_back(slot_of(input));
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    Step step;
    step.node = i;
    step.kernel = find_operator(node.op, node.domain);
    if (node.outputs.size() == 1 && constants.contains(node.outputs[0])) step.kernel = nullptr;
    for (const std::string& input : node.inputs) step.inputs.push_back(slot_of(input));
    for (const std::string& output : node.outputs) step.outputs.push_back(slot_of(output));
    steps_.push_back(std::move(step));
  }
  for (const std::string& output : graph.outputs) outputs_.push_back(slot_of(output));
  slots_ = slots.size();
  find_last_uses();
}

void Plan::replace(std::size_t node, Replacement replacement) {
  const auto step = std::ranges::find(steps_, node, &Step::node);
  if (step != steps_.end()) step->replacement = std::move(replacement);
}

void Plan::find_last_uses() {
  std::set<std::size_t> wanted(outputs_.begin(), outputs_.end());
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    step->last_used.clear();
    step->takes.assign(step->inputs.size(), false);
    for (const std::size_t slot : step->outputs) {
      if (slot != kNoSlot && wanted.insert(slot).second) step->last_used.push_back(slot);
    }
    for (std::size_t i = step->inputs.size(); i-- > 0;) {
      const std::size_t slot = step->inputs[i];
      if (slot == kNoSlot || !wanted.insert(slot).second) continue;
      step->takes[i] = true;
      step->last_used.push_back(slot);
    }
  }
}

std::vector<TypedTensor> Plan::run(const Graph& graph, std::vector<TypedTensor> inputs, const Watch& watch,
                                   const Constants& instead) const {
  std::vector<TypedTensor> values(slots_);
  for (const auto& [slot, constant] : constants_) values[slot] = constant;
  for (const auto& [name, constant] : instead) values[constant_slots_.at(name)] = constant;
  for (std::size_t i = 0; i < inputs.size(); ++i) values[inputs_[i]] = std::move(inputs[i]);
  inputs.clear();
  std::vector<TypedTensor> arguments;
  for (const Step& step : steps_) {
    const Node& node = graph.nodes[step.node];
    for (std::size_t i = 0; i < step.inputs.size(); ++i) {
      const std::size_t slot = step.inputs[i];
      if (slot == kNoSlot) {
        arguments.emplace_back();
      } else if (step.takes[i]) {
        arguments.push_back(std::move(values[slot]));
      } else {
        arguments.push_back(values[slot]);
      }
    }
    Outputs made = step.replacement
                       ? computed_by([&] { return step.replacement(node, arguments); }, node, arguments)
                   : step.kernel ? run_kernel(step.kernel, node, arguments)
                                 : Outputs{values[step.outputs[0]]};
    arguments.clear();
    for (std::size_t i = 0; i < step.outputs.size(); ++i) {
      if (step.outputs[i] == kNoSlot) continue;
      if (i >= made.size() || !made[i].defined()) {
        throw Error(graph::text_of(node) + " does not make its output " + std::to_string(i));
      }
      values[step.outputs[i]] = watch ? watch(node.outputs[i], std::move(made[i])) : std::move(made[i]);
    }
    for (const std::size_t slot : step.last_used) values[slot] = {};
  }
  std::vector<TypedTensor> outputs;
  for (const std::size_t slot : outputs_) outputs.push_back(values[slot]);
  return outputs;
}

Outputs Plan::computed(const Graph& graph, const Step& step, const std::vector<TypedTensor>& known) const {
  const Node& node = graph.nodes[step.node];
  if (step.replacement) return {};
  if (!step.kernel) return {known[step.outputs[0]]};
  if (graph::is_random(node)) return {};
  try {
    std::vector<TypedTensor> arguments;
    for (std::size_t i = 0; i < step.inputs.size(); ++i) {
      const std::size_t slot = step.inputs[i];
      arguments.push_back(slot == kNoSlot ? TypedTensor{} : known[slot]);
      if (slot == kNoSlot || arguments.back().defined()) continue;
      const bool asks_shape = node.is("Shape") || node.is("Size");
      if (!asks_shape || std::ranges::find(inputs_, slot) == inputs_.end()) return {};
      arguments.back() = stand_in(graph, node.inputs[i]);
      if (!arguments.back().defined()) return {};
    }
    Outputs made = step.kernel(Call(node, arguments));
    for (std::size_t i = 0; i < step.outputs.size(); ++i) {
      if (step.outputs[i] != kNoSlot && (i >= made.size() || !made[i].defined())) return {};
    }
    if (bytes_of(made) > bytes_of(arguments) + kMostGrowth) return {};
    return made;
  } catch (const std::exception&) {
    return {};  // run() says it
  }
}

Plan Plan::folded(const Graph& graph) const {
  const at::NoGradGuard no_gradients;
  std::vector<TypedTensor> known(slots_);
  for (const auto& [slot, constant] : constants_) known[slot] = constant;
  Plan plan = *this;
  plan.steps_.clear();
  std::set<std::size_t> wanted(outputs_.begin(), outputs_.end());
  for (const Step& step : steps_) {
    const Outputs made = computed(graph, step, known);
    for (std::size_t i = 0; i < made.size() && i < step.outputs.size(); ++i) {
      if (step.outputs[i] != kNoSlot) known[step.outputs[i]] = made[i];
    }
    if (!made.empty()) continue;
    plan.steps_.push_back(step);
    wanted.insert(step.inputs.begin(), step.inputs.end());
  }
  plan.constants_.clear();
  for (const std::size_t slot : wanted) {
    if (slot != kNoSlot && known[slot].defined()) plan.constants_.emplace_back(slot, known[slot]);
  }
  plan.find_last_uses();
  return plan;
}

}  // namespace crumb::libtorch
