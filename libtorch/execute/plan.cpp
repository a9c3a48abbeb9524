#include "libtorch/execute/plan.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <memory>
#include <set>
#include <span>

#include "base/files/text.h"
#include "graph/choose.h"
#include "libtorch/execute/recomputed.h"

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

/// A tensor of the shape that the graph fixes for an input, to ask for that shape; undefined where none is
/// fixed.
TypedTensor stand_in(const Graph& graph, const std::string& input) {
  const graph::Value* value = graph.find(input);
  if (!value || value->type == graph::ElementType::kUnknown || !value->is_static()) return {};
  std::vector<std::int64_t> sizes;
  for (const graph::Dim& dim : *value->shape) sizes.push_back(dim.size);
  return {at::zeros({}, carrier_of(value->type)).expand(sizes), value->type};
}

}  // namespace

Plan::Plan(const Graph& graph, const Constants& constants) {
  const auto slot_of = [&](const std::string& value) {
    return value.empty() ? kNoSlot : slots_.try_emplace(value, slots_.size()).first->second;
  };
  for (const auto& [name, constant] : constants) constants_.emplace_back(slot_of(name), constant);
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
  find_conditions(graph, graph.outputs);
  find_last_uses();
}

void Plan::find_conditions(const Graph& graph, const std::vector<std::string>& wanted) {
  if (!graph::has_choose(graph)) return;
  const graph::Sides sides(graph, wanted);
  std::erase_if(steps_, [&](const Step& step) { return sides.of(step.node) == graph::Sides::kNowhere; });
  for (Step& step : steps_) {
    step.conditions.clear();
    for (std::size_t at = sides.of(step.node); at != graph::Sides::kOutside; at = sides.side(at).around) {
      const graph::Sides::Side& side = sides.side(at);
      step.conditions.emplace_back(slots_.at(graph.nodes[side.choose].inputs[0]), side.is_then);
    }
  }
}

/// A condition that is itself on a side that is not taken is not there.
bool Plan::runs(const Step& step, const std::vector<TypedTensor>& values) {
  return std::ranges::all_of(step.conditions, [&](const auto& condition) {
    const TypedTensor& value = values[condition.first];
    return value.defined() && value.tensor.numel() == 1 && value.tensor.item<bool>() == condition.second;
  });
}

std::size_t Plan::slot_named(const std::string& value) const {
  const auto found = slots_.find(value);
  if (found == slots_.end()) throw Error("the network has no value " + quote_text(value));
  return found->second;
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
  std::vector<TypedTensor> values(slots_.size());
  for (const auto& [slot, constant] : constants_) values[slot] = constant;
  for (const auto& [name, constant] : instead) values[slots_.at(name)] = constant;
  for (std::size_t i = 0; i < inputs.size(); ++i) values[inputs_[i]] = std::move(inputs[i]);
  inputs.clear();
  std::size_t begin = 0;
  if (!watch && at::GradMode::is_enabled()) {
    for (const std::size_t cut : cuts_) {
      recompute_steps(graph, begin, cut, values);
      begin = cut;
    }
  }
  take_steps(graph, begin, steps_.size(), values, watch);
  std::vector<TypedTensor> outputs;
  for (const std::size_t slot : outputs_) outputs.push_back(values[slot]);
  return outputs;
}

void Plan::take_steps(const Graph& graph, std::size_t begin, std::size_t end,
                      std::vector<TypedTensor>& values, const Watch& watch) const {
  std::vector<TypedTensor> arguments;
  for (const Step& step : std::span(steps_).subspan(begin, end - begin)) {
    if (!runs(step, values)) {
      for (const std::size_t slot : step.last_used) values[slot] = {};
      continue;
    }
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
}

/// The same steps as one function of what crosses into them.
void Plan::recompute_steps(const Graph& graph, std::size_t begin, std::size_t end,
                           std::vector<TypedTensor>& values) const {
  std::set<std::size_t> taken, made;
  for (std::size_t i = begin; i < end; ++i) {
    for (const std::size_t slot : steps_[i].inputs)
      if (slot != kNoSlot && !made.contains(slot)) taken.insert(slot);
    if (!steps_[i].kernel && !steps_[i].replacement) {
      taken.insert(steps_[i].outputs[0]);  // a constant, which is there
      continue;
    }
    for (const std::size_t slot : steps_[i].outputs)
      if (slot != kNoSlot) made.insert(slot);
  }
  for (std::size_t i = begin; i < end; ++i)
    for (const std::size_t slot : steps_[i].last_used) made.erase(slot);
  std::vector<std::size_t> ins;
  std::vector<at::Tensor> tensors;
  std::vector<TypedTensor> before(values.size());  // without what gradients go to
  for (const std::size_t slot : taken) {
    if (!values[slot].defined()) continue;  // a packed constant
    before[slot].type = values[slot].type;
    ins.push_back(slot);
    tensors.push_back(values[slot].tensor);
  }
  const auto types = std::make_shared<std::vector<graph::ElementType>>();
  const std::vector<std::size_t> outs(made.begin(), made.end());
  const auto compute = [this, &graph, begin, end, ins, outs, types,
                        before](const std::vector<at::Tensor>& inputs) {
    std::vector<TypedTensor> now = before;
    for (std::size_t i = 0; i < ins.size(); ++i) now[ins[i]].tensor = inputs[i];
    take_steps(graph, begin, end, now, {});
    std::vector<at::Tensor> results;
    types->clear();
    for (const std::size_t slot : outs) {
      results.push_back(now[slot].tensor);
      types->push_back(now[slot].type);
    }
    return results;
  };
  const std::vector<at::Tensor> results = recomputed(tensors, compute);
  for (std::size_t i = begin; i < end; ++i)
    for (const std::size_t slot : steps_[i].last_used) values[slot] = {};
  for (std::size_t i = 0; i < outs.size(); ++i) values[outs[i]] = {results[i], types->at(i)};
}

Outputs Plan::computed(const Graph& graph, const Step& step, const std::vector<TypedTensor>& known) const {
  const Node& node = graph.nodes[step.node];
  if (step.replacement) return {};
  if (!step.kernel) return {known[step.outputs[0]]};
  if (graph::is_random(node) || graph::is_opaque(node)) return {};  // a loop may take long
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

Plan Plan::part(const Graph& graph, const std::vector<std::string>& given,
                const std::vector<std::string>& wanted) const {
  Plan part = *this;
  part.inputs_.clear();
  part.outputs_.clear();
  part.cuts_.clear();
  for (const std::string& value : given) part.inputs_.push_back(slot_named(value));
  for (const std::string& value : wanted) part.outputs_.push_back(slot_named(value));
  const std::set<std::size_t> known(part.inputs_.begin(), part.inputs_.end());
  std::set<std::size_t> needed;
  for (const std::size_t slot : part.outputs_)
    if (!known.contains(slot)) needed.insert(slot);
  std::vector<Step> steps;
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    if (std::ranges::none_of(step->outputs, [&](std::size_t slot) { return needed.contains(slot); }))
      continue;
    for (const std::size_t slot : step->outputs) needed.erase(slot);
    for (const std::size_t slot : step->inputs)
      if (slot != kNoSlot && !known.contains(slot)) needed.insert(slot);
    steps.push_back(*step);
  }
  std::ranges::reverse(steps);
  part.steps_ = std::move(steps);
  part.find_conditions(graph, wanted);
  for (const std::string& input : graph.inputs)
    if (needed.contains(slot_named(input)))
      throw Error("a part of the network takes the input " + quote_text(input) + ", which it is not given");
  part.find_last_uses();
  return part;
}

void Plan::recompute_between(const Graph& graph, const std::vector<std::string>& values) {
  std::set<std::size_t> cuts;
  for (std::size_t i = 0; i < steps_.size(); ++i)
    for (const std::string& output : graph.nodes[steps_[i].node].outputs)
      if (std::ranges::find(values, output) != values.end()) cuts.insert(i + 1);
  cuts_.assign(cuts.begin(), cuts.end());
}

Plan Plan::folded(const Graph& graph) const {
  const at::NoGradGuard no_gradients;
  std::vector<TypedTensor> known(slots_.size());
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
