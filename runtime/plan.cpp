#include "runtime/plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/seconds.h"
#include "graph/choose.h"
#include "runtime/fuse/followed_convolution.h"
#include "runtime/fuse/fused_kernel.h"
#include "runtime/fuse/regions.h"
#include "runtime/held_sparse.h"
#include "runtime/meter.h"

namespace crumb::runtime {
namespace {

using graph::Graph;
using graph::Node;

constexpr std::size_t kMostGrowth = std::size_t{4} << 20;  // bytes by which folding may enlarge a constant

/// Throws Error where input 0 is known to have a type that the operator does not take.
void check_type(const NodeFacts& facts, const OperatorRow& row) {
  const ElementType type = facts.type(0);
  if (type == ElementType::kUnknown) return;
  const Carrier carrier = carrier_of(type);
  if (carrier == Carrier::kNone || (row.takes == Takes::kFloats && carrier != Carrier::kFloat))
    throw Error(graph::text_of(facts.node) + " of " + std::string(graph::name_of(type)));
}

/// Rounds the arrays that nobody else holds; a shared array was rounded when it was made.
void round(std::vector<Array>& made) {
  for (Array& array : made) {
    if (array.alone()) array.round();
  }
}

}  // namespace

/// Makes steps of nodes. A constant that is packed, or stored
/// transposed, is decoded once a step takes its values.
class Plan::Builder {
 public:
  Builder(Plan& plan, const Graph& graph, const Substitutes& instead)
      : plan_(plan), graph_(graph), instead_(instead), sparse_(graph, instead) {
    for (const auto& [name, tensor] : graph.initializers) {
      const std::size_t slot = slot_of(name);
      if (tensor.packed_rows() || tensor.origin())
        packed_.add(slot, tensor);
      else
        plan_.constants_[slot] = Array::of(tensor);
    }
    for (const auto& [name, constant] : graph.quantized) packed_.add(slot_of(name), constant);
    for (const std::string& input : graph.inputs) plan_.inputs_.push_back(slot_of(input));
  }

  void add_steps() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!sparse_.makes(i)) add_step(i);
    }
    if (!refused_.empty()) throw Error("the runtime has no kernel for " + refused_);
    if (substituted_ != instead_.size())
      throw Error("no node makes one of the values that have a substitute");
  }

  void add_outputs() {
    for (const std::string& output : graph_.outputs) {
      plan_.outputs_.push_back(slot_of(output));
      decode(plan_.outputs_.back());
    }
  }

 private:
  /// The constants that stay as they are stored until a step takes their values, by slot: packed ones, and
  /// transposes of what was not read yet. What it is given must outlive it.
  class PackedConstants {
   public:
    void add(std::size_t slot, const graph::QuantizedConstant& codes) { codes_.emplace(slot, &codes); }
    void add(std::size_t slot, const graph::Tensor& rows) { rows_.emplace(slot, &rows); }
    bool contains(std::size_t slot) const { return codes_.contains(slot) || rows_.contains(slot); }
    Array values(std::size_t slot) const {
      return Array::of(codes_.contains(slot) ? codes_.at(slot)->value() : *rows_.at(slot));
    }
    void tell(std::size_t slot, NodeFacts& facts) const {
      if (codes_.contains(slot))
        facts.packed = codes_.at(slot);
      else
        facts.rows = rows_.at(slot);
    }

   private:
    std::map<std::size_t, const graph::QuantizedConstant*> codes_;
    std::map<std::size_t, const graph::Tensor*> rows_;
  };

  std::size_t slot_of(const std::string& value) {
    if (value.empty()) return kNoSlot;
    const auto [found, is_new] = slots_.try_emplace(value, slots_.size());
    if (is_new) plan_.constants_.emplace_back();
    return found->second;
  }

  bool is_constant(std::size_t slot) const {
    return slot != kNoSlot && (plan_.constants_[slot].defined() || packed_.contains(slot));
  }

  void decode(std::size_t slot) {
    if (!plan_.constants_[slot].defined() && packed_.contains(slot))
      plan_.constants_[slot] = packed_.values(slot);
  }

  void add_step(std::size_t i) {
    const Node& node = graph_.nodes[i];
    Step step{.node = i};
    NodeFacts facts{.node = node, .constants = {}, .types = {}};
    for (const std::string& input : node.inputs) step.inputs.push_back(slot_of(input));
    step.last.assign(step.inputs.size(), 0);
    for (const std::string& output : node.outputs) step.outputs.push_back(slot_of(output));
    const auto substitute = node.outputs.empty() ? instead_.end() : instead_.find(node.outputs[0]);
    step.has_substitute = substitute != instead_.end();
    substituted_ += step.has_substitute ? 1 : 0;
    const OperatorRow* row = step.has_substitute ? nullptr : find_operator(node.op, node.domain);
    const bool all_constant = take_inputs(row, step, facts);
    std::string why = graph::text_of(node);
    try {
      if (step.has_substitute) {
        step.kernel = substitute->second;
      } else if (row) {
        if (node.outputs.empty()) facts.fail("expected an output, found none");
        check_type(facts, *row);
        step.kernel = kernel_of(*row, facts);
      }
    } catch (const Error& error) {
      why = error.what();
    }
    if (!step.kernel) {
      refused_ += (refused_.empty() ? "" : "; ") + why;
      return;
    }
    // What constants alone decide is a constant too, except for random numbers, which a run draws, and for
    // loops, which may take long.
    const bool may_fold = all_constant && !step.has_substitute && refused_.empty() &&
                          !graph::is_random(node) && !graph::is_opaque(node);
    if (!may_fold || !plan_.fold(node, step)) plan_.steps_.push_back(std::move(step));
  }

  /// Collects what is known of each input before anything runs. A constant that the kernel holds is removed
  /// from the inputs of the step. Returns whether no input is computed at run time.
  bool take_inputs(const OperatorRow* row, Step& step, NodeFacts& facts) {
    bool all_constant = true;
    for (std::size_t k = 0; k < step.inputs.size(); ++k) {
      const std::string& name = facts.node.inputs[k];
      std::size_t& slot = step.inputs[k];
      const bool is_held = row && row->holds == k;
      if (is_held) facts.sparse = sparse_.find(name);
      const bool holds_sparse = facts.sparse && is_held;
      const bool given = slot != kNoSlot, is_known = is_constant(slot) || (given && holds_sparse);
      const bool holds = is_held && is_known, holds_packed = holds && packed_.contains(slot);
      if (holds_packed) {
        packed_.tell(slot, facts);
      } else if (given && !holds_sparse) {
        decode(slot);
      }
      const graph::Value* value = graph_.find(name);
      const bool has_values = is_known && !holds_sparse && !holds_packed;
      facts.constants.push_back(has_values ? &plan_.constants_[slot] : nullptr);
      facts.types.push_back(has_values ? plan_.constants_[slot].type()
                            : value    ? value->type
                                       : ElementType::kUnknown);
      all_constant = all_constant && (!given || is_known);
      if (holds) slot = kNoSlot;
    }
    return all_constant;
  }

  Plan& plan_;
  const Graph& graph_;
  const Substitutes& instead_;
  const HeldSparse sparse_;
  std::map<std::string, std::size_t> slots_;
  PackedConstants packed_;
  std::string refused_;          // every node without a kernel, and why
  std::size_t substituted_ = 0;  // nodes
};

Plan::Plan(const Graph& graph, bool fuses, const Substitutes& instead) {
  Builder builder(*this, graph, instead);
  builder.add_steps();
  builder.add_outputs();
  if (fuses) fuse(graph);
  find_conditions(graph);
  find_last_uses();
}

void Plan::find_conditions(const Graph& graph) {
  if (!graph::has_choose(graph)) return;
  const graph::Sides sides(graph, graph.outputs);
  // A condition is an input of its Choose, and that is a step unless it was computed here.
  std::map<std::size_t, std::size_t> conditions;  // slots, by node
  for (const Step& step : steps_)
    if (graph::is_choose(graph.nodes[step.node])) conditions.emplace(step.node, step.inputs[0]);
  std::erase_if(steps_, [&](const Step& step) { return sides.of(step.node) == graph::Sides::kNowhere; });
  for (Step& step : steps_) {
    for (std::size_t at = sides.of(step.node); at != graph::Sides::kOutside;) {
      const graph::Sides::Side& side = sides.side(at);
      if (const auto found = conditions.find(side.choose); found != conditions.end())
        step.conditions.emplace_back(found->second, side.is_then);
      at = side.around;
    }
  }
}

void Plan::fuse(const Graph& graph) {
  std::vector<bool> runs(graph.nodes.size());
  std::vector<Step*> step_of(graph.nodes.size());
  for (Step& step : steps_) {
    runs[step.node] = !step.has_substitute;
    step_of[step.node] = &step;
  }
  std::vector<bool> taken(graph.nodes.size());
  for (const std::vector<std::size_t>& region : regions_of(graph, runs)) {
    std::vector<Node> nodes;
    std::vector<Kernel> kernels;
    std::map<std::string, std::size_t> slots;
    for (const std::size_t i : region) {
      Step& step = *step_of[i];
      nodes.push_back(graph.nodes[i]);
      kernels.push_back(step.kernel);
      for (std::size_t k = 0; k < step.inputs.size(); ++k)
        slots.emplace(nodes.back().inputs[k], step.inputs[k]);
      taken[i] = i != region.back();
    }
    FusedKernel fused(std::move(nodes), std::move(kernels));
    Step& step = *step_of[region.back()];
    step.inputs.clear();
    for (const std::string& value : fused.inputs()) step.inputs.push_back(slots.at(value));
    step.kernel = std::move(fused);
    step.is_region = true;
  }
  std::erase_if(steps_, [&](const Step& step) { return taken[step.node]; });
  follow_convolutions(graph);
}

void Plan::follow_convolutions(const Graph& graph) {
  const graph::Links links(graph);
  std::vector<Step> steps;
  for (Step& step : steps_) {
    const Node& node = graph.nodes[step.node];
    Step* const before = steps.empty() ? nullptr : &steps.back();
    const Node* const convolution = before ? &graph.nodes[before->node] : nullptr;
    if (step.has_substitute || step.is_region || !before || before->has_substitute ||
        !FollowedConvolution::may_follow(*convolution, node) || links.is_output(convolution->outputs[0]) ||
        links.consumers(convolution->outputs[0]).size() != 1) {
      steps.push_back(std::move(step));
      continue;
    }
    before->kernel =
        FollowedConvolution(*convolution, std::move(before->kernel), node, std::move(step.kernel));
    before->inputs.insert(before->inputs.end(), step.inputs.begin() + 1, step.inputs.end());
    before->outputs = std::move(step.outputs);
    before->node = step.node;
  }
  steps_ = std::move(steps);
}

void Plan::find_last_uses() {
  std::set<std::size_t> wanted(outputs_.begin(), outputs_.end());
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    for (const std::size_t slot : step->outputs) {
      if (slot != kNoSlot && wanted.insert(slot).second) step->dropped.push_back(slot);
    }
    step->last.assign(step->inputs.size(), 0);
    for (std::size_t i = step->inputs.size(); i-- > 0;) {
      const std::size_t slot = step->inputs[i];
      if (slot == kNoSlot || constants_[slot].defined() || !wanted.insert(slot).second) continue;
      // A node may not write over an input that it takes twice.
      step->last[i] = static_cast<char>(std::ranges::count(step->inputs, slot) == 1);
      step->dropped.push_back(slot);
    }
  }
  for (const Step& step : steps_) wanted.insert(step.inputs.begin(), step.inputs.end());
  for (std::size_t slot = 0; slot < constants_.size(); ++slot) {
    if (!wanted.contains(slot)) constants_[slot] = {};
  }
}

bool Plan::fold(const Node& node, const Step& step) {
  std::vector<Array*> arguments(step.inputs.size());
  std::vector<Array> made;
  std::size_t taken = 0, bytes = 0;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (step.inputs[i] == kNoSlot) continue;
    arguments[i] = &constants_[step.inputs[i]];
    taken += arguments[i]->bytes();
  }
  try {
    made = computed(node, step, arguments, {});
    round(made);
  } catch (const Error&) {
    return false;  // the run reports the error
  }
  for (const Array& array : made) bytes += array.bytes();
  if (bytes > taken + kMostGrowth) return false;
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (step.outputs[i] != kNoSlot) constants_[step.outputs[i]] = std::move(made[i]);
  }
  return true;
}

namespace {

/// Counts the other axes of an array without elements, which may have sizes of up to 2^62: a kernel's loops
/// walk them.
void spend_on_empty(const Call& call, const Array* array) {
  if (!array || !array->defined() || array->size() > 0) return;
  call.spend({static_cast<std::size_t>(graph::count_around_zeros(array->shape()))});
}

}  // namespace

std::vector<Array> Plan::computed(const Node& node, const Step& step, std::span<Array* const> arguments,
                                  const RunOptions& options, CacheUse cache) {
  std::vector<Array> made(step.outputs.size());
  Call call(node, arguments, step.last, made, options.threads, cache, options.promise);
  try {
    if (const auto& meter = MeterScope::current()) meter->check_cancelled();
    for (const Array* argument : arguments) spend_on_empty(call, argument);
    step.kernel(call);
  } catch (const Stopped& stopped) {
    throw Stopped(stopped.reason(), graph::text_of(node) + ": " + stopped.what());
  }
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (step.outputs[i] != kNoSlot && !made[i].defined())
      throw Error(graph::text_of(node) + " does not make its output " + std::to_string(i));
  }
  return made;
}

std::vector<Array> Plan::run(const Graph& graph, std::vector<Array> inputs, const RunOptions& options) const {
  std::vector<Array> values(constants_.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) values[inputs_[i]] = std::move(inputs[i]);
  // Nobody writes into a constant: no step owns one.
  const auto at = [&](std::size_t slot) {
    return values[slot].defined() ? &values[slot] : const_cast<Array*>(&constants_[slot]);
  };
  ArenaScope memory(options.arena);
  std::vector<Array*> arguments;
  for (const Step& step : steps_) {
    if (options.arena) options.arena->enter(static_cast<std::size_t>(&step - steps_.data()));
    // A condition that is itself on a side that is not taken is not there.
    const bool runs = std::ranges::all_of(step.conditions, [&](const auto& condition) {
      const Array& value = *at(condition.first);
      return value.defined() && value.size() > 0 && (ints_of(value)[0] != 0) == condition.second;
    });
    if (!runs) {
      for (const std::size_t slot : step.dropped) values[slot] = {};
      continue;
    }
    const Node& node = graph.nodes[step.node];
    arguments.clear();
    for (const std::size_t slot : step.inputs) arguments.push_back(slot == kNoSlot ? nullptr : at(slot));
    const double start = options.timer ? now_seconds() : 0;
    CacheUse cache;
    if (options.caches) {
      const auto found = options.caches->find(step.node);
      if (found != options.caches->end()) cache = found->second;
    }
    std::vector<Array> made = computed(node, step, arguments, options, cache);
    for (const std::size_t slot : step.dropped) values[slot] = {};
    round(made);
    if (options.timer) options.timer(node, now_seconds() - start);
    for (std::size_t i = 0; i < step.outputs.size(); ++i) {
      const std::size_t slot = step.outputs[i];
      if (slot == kNoSlot) continue;
      if (options.arena) options.arena->note_output(i, made[i].data());
      if (options.watch.wants(node.outputs[i]) && !made[i].is_elsewhere())
        options.watch.show(node.outputs[i], made[i].tensor());
      if (std::ranges::find(step.dropped, slot) == step.dropped.end()) values[slot] = std::move(made[i]);
    }
  }
  std::vector<Array> outputs;
  for (const std::size_t slot : outputs_) outputs.push_back(*at(slot));
  memory.finish();
  return outputs;
}

}  // namespace crumb::runtime
