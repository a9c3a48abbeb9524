// channels_last: every value is held channels-first, channels-last or both, and nodes take the layout that
// they can.
#include <algorithm>
#include <set>

#include "graph/edit.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/onnx/schemas.h"
#include "graph/passes/flattened.h"
#include "graph/passes/layout.h"
#include "graph/passes/passes.h"
#include "graph/strided_index.h"

namespace crumb::graph {
namespace {

using Ints = std::vector<std::int64_t>;

class LayoutChanger {
 public:
  LayoutChanger(Graph& graph, bool inputs_too) : graph_(graph), links_(graph), inputs_too_(inputs_too) {}

  /// Returns false where no node has a channels-last form.
  bool go() {
    if (!find_wanted()) return false;
    const std::vector<Node> nodes = graph_.nodes;
    for (const Node& node : nodes) {
      for (const std::string& value : node.outputs) {
        if (!value.empty()) graph_.values[value];  // so that no new value takes the name
      }
      names_.insert(node.name);
    }
    domain_version();
    if (inputs_too_) change_inputs();
    for (const Node& node : nodes) place(node);
    for (const std::string& value : graph_.outputs) {
      if (const std::string made = first_of(value); made != value) add("Identity", {made}, value);
    }
    graph_.nodes = std::move(made_);
    return true;
  }

 private:
  /// The names of a value in both layouts; empty for a layout that it does not have.
  struct LayoutNames {
    std::string first, last;
  };

  /// Finds which values are taken channels-last, by which nodes and through which.
  bool find_wanted() {
    bool any = false;
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
      if (has_channels_last_form(graph_, *node)) {
        any = true;
        wanted_.insert(node->inputs[0]);
      } else if (is_wanted(*node) && follows_layout(graph_, *node) && operands_move(*node)) {
        for (std::size_t i = 0; i < node->inputs.size(); ++i) {
          if (moves_with_layout(*node, i) && !graph_.constant(node->inputs[i]))
            wanted_.insert(node->inputs[i]);
        }
      }
    }
    return any;
  }

  bool is_wanted(const Node& node) const {
    return std::ranges::any_of(node.outputs,
                               [&](const std::string& value) { return wanted_.contains(value); });
  }

  void domain_version() {
    const std::string domain(kChannelsLastDomain);
    version_ = graph_.opsets.emplace(domain, graph_.opset()).first->second;
  }

  void change_inputs() {
    for (const std::string& input : graph_.inputs) {
      const auto shape = graph_.shape_of(input);
      if (!wanted_.contains(input) || links_.is_output(input) || !shape) continue;
      if (shape->size() != 3 && shape->size() != 4) continue;
      graph_.values[input].shape = channels_last_shape(*shape);
      graph_.values[input].annotations.erase("tensor_layout");
      held_[input] = {.first = "", .last = input};
    }
  }

  std::string name_for(const std::string& requested) {
    std::string name = requested;
    for (int i = 1; !names_.insert(name).second; ++i) name = requested + "_" + std::to_string(i);
    return name;
  }

  void add(const char* op, std::vector<std::string> inputs, const std::string& output,
           std::map<std::string, Attribute> attributes = {}) {
    made_.push_back({.name = name_for(std::string(op) + "_" + output),
                     .op = op,
                     .version = graph_.opset(),
                     .inputs = std::move(inputs),
                     .outputs = {output},
                     .attributes = std::move(attributes)});
  }

  bool is_only_last(const std::string& value) const {
    const auto found = held_.find(value);
    return found != held_.end() && found->second.first.empty();
  }

  std::string first_of(const std::string& value) {
    if (value.empty()) return value;
    const auto [place, fresh] = held_.emplace(value, LayoutNames{.first = value});
    LayoutNames& held = place->second;
    if (!held.first.empty()) return held.first;
    const std::size_t rank = graph_.rank_of(held.last).value();
    // An input that becomes channels-last keeps its name.
    held.first = held.last == value ? add_value(graph_, value + "_first", {}) : value;
    add("Transpose", {held.last}, held.first, {{"perm", to_channels_first(rank)}});
    return held.first;
  }

  std::string new_last(const std::string& value) {
    Value known = graph_.values[value];
    if (const auto shape = graph_.shape_of(value)) known.shape = channels_last_shape(*shape);
    known.annotations.erase("tensor_layout");
    return add_value(graph_, value + "_last", known);
  }

  std::string last_of(const std::string& value) {
    const auto [place, fresh] = held_.emplace(value, LayoutNames{.first = value});
    LayoutNames& held = place->second;
    if (!held.last.empty()) return held.last;
    const std::string made = new_last(value);
    add("Transpose", {held.first}, made, {{"perm", to_channels_last(graph_.rank_of(value).value())}});
    held.last = made;
    return made;
  }

  /// Whether every operand has the node's rank, or is a constant that can be given it.
  bool operands_move(const Node& node) const {
    const std::size_t rank = layout_rank(graph_, node);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.has_input(i) || !moves_with_layout(node, i)) continue;
      const auto of_input = graph_.rank_of(node.inputs[i]);
      const Tensor* constant = constant_input(graph_, node, i);
      const bool fits = of_input == rank || of_input == std::size_t{0} ||
                        (constant && constant->size() == 1 && of_input <= rank) ||
                        (constant && of_input < rank && can_transpose(*constant));
      if (!fits) return false;
    }
    return true;
  }

  /// Returns an operand that broadcasts to channels-last data as `value` does to channels-first data.
  std::string operand(const std::string& value, std::size_t rank) {
    if (value.empty() || graph_.rank_of(value) == std::size_t{0}) return value;
    const Tensor* constant = graph_.constant(value);
    if (constant && constant->size() == 1) return value;
    if (!constant || constant->shape().size() == rank) return last_of(value);
    const auto [place, fresh] = held_.emplace(value, LayoutNames{.first = value});
    if (!place->second.last.empty()) return place->second.last;
    Ints shape(rank - constant->shape().size(), 1);
    shape.insert(shape.end(), constant->shape().begin(), constant->shape().end());
    Tensor moved = transposed(constant->reshaped(shape), to_channels_last(rank));
    return place->second.last = add_constant(graph_, value + "_last", std::move(moved));
  }

  void place(const Node& node) {
    const std::size_t rank = layout_rank(graph_, node);
    if (has_channels_last_form(graph_, node)) return change(node, rank);
    const bool has_last =
        std::ranges::any_of(node.inputs, [&](const auto& value) { return is_only_last(value); });
    if ((has_last || is_wanted(node)) && follows_layout(graph_, node) && operands_move(node)) {
      return follow(node, rank);
    }
    if (has_last && is_transpose(node)) {
      held_[node.outputs[0]] = {.first = last_of(node.inputs[0])};
      return;
    }
    if (has_last && flatten(node)) return;
    Node kept = node;
    for (std::string& value : kept.inputs) value = first_of(value);
    rows_.follow(graph_, node, kept, made_);
    made_.push_back(std::move(kept));
  }

  void change(const Node& node, std::size_t rank) {
    Node made = node;
    made.domain = kChannelsLastDomain;
    made.version = version_;
    made.inputs[0] = last_of(node.inputs[0]);
    if (node.op == "Conv") made.inputs[1] = last_of(node.inputs[1]);
    if (node.op == "GlobalMaxPool") {
      made.op = "MaxPool";
      Ints kernel;
      const Shape shape = graph_.shape_of(node.inputs[0]).value();
      for (std::size_t i = 2; i < rank; ++i) kernel.push_back(shape[i].size);
      made.attributes = {{"kernel_shape", kernel}, {"strides", Ints(rank - 2, 1)}};
    }
    write_windows(made, node, rank);
    made.outputs.resize(1);
    hold(made.outputs[0]);
    made_.push_back(std::move(made));
  }

  /// qonnx does not assume defaults for these.
  void write_windows(Node& made, const Node& node, std::size_t rank) const {
    if (made.op == "BatchNormalization") {
      made.attributes.emplace("epsilon", 1e-5F);
      made.attributes.emplace("momentum", 0.9F);
      return;
    }
    const std::size_t axes = rank - 2;
    made.attributes.emplace("strides", Ints(axes, 1));
    const bool is_old_pool = made.op == "MaxPool" && version_ < 10;
    if (!is_old_pool) made.attributes.emplace("dilations", Ints(axes, 1));
    const std::string padding = node.text_or("auto_pad", "NOTSET");
    if (!padding.starts_with("SAME")) made.attributes.emplace("pads", Ints(2 * axes, 0));
    if (made.op == "MaxPool") {
      if (!is_old_pool) made.attributes.emplace("ceil_mode", std::int64_t{0});
      return;
    }
    made.attributes.emplace("group", std::int64_t{1});
    Ints kernel;
    const Shape shape = graph_.shape_of(node.inputs[1]).value();
    for (std::size_t i = 2; i < rank; ++i) kernel.push_back(shape[i].size);
    if (std::ranges::all_of(kernel, [](std::int64_t size) { return size > 0; })) {
      made.attributes.emplace("kernel_shape", kernel);
    }
  }

  void follow(const Node& node, std::size_t rank) {
    Node made = with_axes_channels_last(graph_, node, rank);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (moves_with_layout(node, i))
        made.inputs[i] = operand(node.inputs[i], rank);
      else if (made.inputs[i] == node.inputs[i])
        made.inputs[i] = first_of(node.inputs[i]);
    }
    for (std::string& value : made.outputs) {
      if (!value.empty()) hold(value);
    }
    made_.push_back(std::move(made));
  }

  /// Makes the output channels-last.
  void hold(std::string& output) {
    const std::string last = new_last(output);
    held_[output] = {.first = "", .last = last};
    output = last;
  }

  /// Whether the node is a Transpose to channels-last of data that already is.
  bool is_transpose(const Node& node) const {
    const auto rank = node.is("Transpose") && node.has_input(0) && node.has_output(0)
                          ? graph_.rank_of(node.inputs[0])
                          : std::nullopt;
    return rank && *rank >= 3 && is_only_last(node.inputs[0]) &&
           node.ints_or("perm", {}) == to_channels_last(*rank);
  }

  /// Flattening channels-last data gives another order, which the weights behind it can absorb.
  bool flatten(const Node& node) {
    const auto order = flattened_order(graph_, node);
    if (!order || !is_only_last(node.inputs[0])) return false;
    if (order->is_plain() || rows_.begin(graph_, links_, node.outputs[0], *order)) {
      Node made = node;
      made.inputs[0] = last_of(node.inputs[0]);
      if (made.op == "Flatten" || made.inputs.size() < 2) {
        made_.push_back(std::move(made));
      } else {
        made.inputs[1] = first_of(node.inputs[1]);
        made_.push_back(std::move(made));
      }
      return true;
    }
    return false;
  }

  Graph& graph_;
  const Links links_;  ///< of the graph as it was
  const bool inputs_too_;
  std::int64_t version_ = 1;
  std::set<std::string> wanted_, names_;
  std::map<std::string, LayoutNames> held_;  ///< by the value's old name
  FlattenedRows rows_;
  std::vector<Node> made_;
};

}  // namespace

Graph channels_last(Graph graph, bool inputs_too) {
  graph = infer_shapes(sorted(std::move(graph)));
  Graph changed = graph;
  if (!LayoutChanger(changed, inputs_too).go()) return tidy(std::move(graph));
  return infer_shapes(fold_transposes(tidy(std::move(changed))));
}

}  // namespace crumb::graph
