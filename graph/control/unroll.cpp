#include "graph/control/unroll.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "graph/control/names.h"
#include "graph/loop_parts.h"
#include "graph/onnx/infer_shapes.h"

namespace crumb::graph {
namespace {

constexpr std::int64_t kMostAsked = 256;  // trips whose condition is computed: each asks for what came before
constexpr std::int64_t kAxesAreInputs = 13;  // from this operator set on, of Unsqueeze

Tensor truth() { return {ElementType::kBool, {}, {std::byte{1}}}; }

/// The nodes and constants that a loop becomes.
class Unrolled {
 public:
  Unrolled(const Graph& graph, const Node& node)
      : graph_(graph),
        node_(node),
        parts_(loop_parts(node)),
        body_(*parts_.body),
        node_names_(names_of(body_)) {}

  bool run(const ConstantValues& constants) {
    const bool known = node_.is("Loop") ? run_loop(constants) : run_scan();
    return known && nodes_.size() + graph_.nodes.size() <= kMostUnrolled;
  }

  void put_into(Graph& graph, std::size_t index) {
    graph.nodes.erase(graph.nodes.begin() + static_cast<std::ptrdiff_t>(index));
    for (Node& node : nodes_) graph.nodes.push_back(std::move(node));
    for (auto& [name, tensor] : constants_) {
      graph.values[name] = value_of(tensor);
      graph.initializers.emplace(name, std::move(tensor));
    }
    for (const auto& [name, type] : types_) graph.values[name].type = type;
    replace_all(graph, results_);
  }

 private:
  /// Where the body's values are in one trip.
  using Names = std::map<std::string, std::string>;

  bool has_room() const {
    const std::size_t each = std::max<std::size_t>(body_.nodes.size(), 1);
    return graph_.nodes.size() + nodes_.size() + each <= kMostUnrolled;
  }
  bool has_room(std::int64_t trips) const {
    const auto each = static_cast<double>(std::max<std::size_t>(body_.nodes.size(), 1));
    return trips >= 0 && static_cast<double>(graph_.nodes.size()) + each * static_cast<double>(trips) <=
                             static_cast<double>(kMostUnrolled);
  }

  std::string inner(const std::string& name) const { return node_.name + "/" + name; }
  std::string inner(std::int64_t trip, const std::string& name) const {
    return inner(std::to_string(trip) + "/" + name);
  }
  std::string constant(const std::string& name, Tensor tensor) {
    return constants_.emplace(name, std::move(tensor)).first->first;
  }

  /// What is the same in all trips: constants, and what the body takes from outside.
  Names shared() {
    Names names;
    for (std::size_t i = parts_.own; i < body_.inputs.size(); ++i)
      names.emplace(body_.inputs[i], node_.inputs[i]);
    for (const auto& [name, tensor] : body_.initializers) names.emplace(name, constant(inner(name), tensor));
    for (const Node& node : body_.nodes)
      if (const auto made = constant_of(node))
        names.emplace(node.outputs[0], constant(inner(node.outputs[0]), *made));
    return names;
  }

  /// Copies the body's nodes; `names` has its inputs and gets the values that they make.
  void add_trip(std::int64_t trip, Names& names) {
    for (std::size_t i = 0; i < body_.nodes.size(); ++i) {
      if (constant_of(body_.nodes[i])) continue;
      Node node = body_.nodes[i];
      node.name = inner(trip, node_names_[i]);
      for (std::string& value : node.inputs)
        if (!value.empty()) value = names.at(value);
      for (std::string& value : node.outputs) {
        if (value.empty()) continue;
        const auto known = body_.values.find(value);
        const std::string name = inner(trip, value);
        if (known != body_.values.end()) types_.emplace(name, known->second.type);
        names[value] = name;
        value = name;
      }
      nodes_.push_back(std::move(node));
    }
  }

  void add_node(const std::string& name, const std::string& op, std::vector<std::string> inputs,
                std::string output, std::map<std::string, Attribute> attributes) {
    nodes_.push_back({.name = name,
                      .op = op,
                      .version = graph_.opset(),
                      .inputs = std::move(inputs),
                      .outputs = {std::move(output)},
                      .attributes = std::move(attributes)});
  }

  /// Joins what trips made along a new axis.
  void stack(const std::vector<std::string>& parts, std::int64_t axis, const std::string& output) {
    std::vector<std::string> rows;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      rows.push_back(inner(output + "/" + std::to_string(i)));
      if (graph_.opset() < kAxesAreInputs) {
        add_node(rows.back(), "Unsqueeze", {parts[i]}, rows.back(), {{"axes", std::vector{axis}}});
      } else {
        const std::string axes = constant(inner(output + "/axes"), Tensor::ints({1}, std::vector{axis}));
        add_node(rows.back(), "Unsqueeze", {parts[i], axes}, rows.back(), {});
      }
    }
    add_node(inner(output), "Concat", rows, output, {{"axis", axis}});
  }

  /// The value that the condition behind a trip has wherever the trip runs; nothing where it is computed.
  std::optional<bool> constant_condition() const {
    std::string value = body_.outputs[0];
    for (std::size_t i = body_.nodes.size(); i-- > 0;) {
      const Node& node = body_.nodes[i];
      if (node.outputs.empty() || node.outputs[0] != value) continue;
      if (const auto made = constant_of(node)) return truth_of(*made);
      if (!node.is("Identity") || !node.has_input(0)) return {};
      value = node.inputs[0];
    }
    if (value == body_.inputs[1]) return true;
    const Tensor* tensor = body_.constant(value);
    return tensor ? truth_of(*tensor) : std::nullopt;
  }

  static std::optional<bool> truth_of(const Tensor& tensor) {
    if (tensor.type() != ElementType::kBool || tensor.size() != 1) return {};
    return tensor.to_ints()[0] != 0;
  }

  /// A computed condition, from what decides it alone; nothing where that is no constant.
  std::optional<bool> condition_of(const std::string& value) const {
    std::map<std::string_view, const Node*> makers;
    for (const std::vector<Node>* nodes : {&graph_.nodes, &nodes_})
      for (const Node& node : *nodes)
        for (const std::string& output : node.outputs) makers.emplace(output, &node);
    Graph part{.outputs = {value}, .opsets = graph_.opsets};
    std::set<std::string> seen{value};
    std::set<const Node*> taken;
    std::vector<std::string> open{value};
    while (!open.empty()) {
      const std::string name = std::move(open.back());
      open.pop_back();
      if (const Value* known = graph_.find(name)) part.values[name] = *known;
      const Tensor* tensor = graph_.constant(name);
      if (const auto own = constants_.find(name); own != constants_.end()) tensor = &own->second;
      if (tensor) {
        part.initializers.emplace(name, *tensor);
        continue;
      }
      const auto maker = makers.find(name);
      if (maker == makers.end()) {
        part.inputs.push_back(name);
        continue;
      }
      if (is_loop(*maker->second)) return {};  // it depends on a loop
      if (!taken.insert(maker->second).second) continue;
      part.nodes.push_back(*maker->second);
      for (const std::string& input : maker->second->inputs)
        if (!input.empty() && seen.insert(input).second) open.push_back(input);
    }
    part = infer_shapes(sorted(std::move(part)));
    const auto found = ConstantValues(part).number(value);
    return found ? std::optional(*found != 0) : std::nullopt;
  }

  bool run_loop(const ConstantValues& constants) {
    const std::size_t states = parts_.states;
    std::optional<std::int64_t> most;
    if (node_.has_input(0)) {
      const auto known = constants.number(node_.inputs[0]);
      if (!known || !(*known < 0x1p53)) return false;
      most = std::max<std::int64_t>(static_cast<std::int64_t>(*known), 0);
    }
    std::optional<bool> goes_on = true;
    if (node_.has_input(1)) {
      const auto known = constants.number(node_.inputs[1]);
      if (!known) return false;
      goes_on = *known != 0;
    }
    const std::optional<bool> always = constant_condition();
    const bool is_counted = always && *always;
    if (is_counted && (!most || (*goes_on && !has_room(*most)))) return false;
    const Names same = shared();
    std::vector<std::string> state(node_.inputs.begin() + 2,
                                   node_.inputs.begin() + static_cast<std::ptrdiff_t>(2 + states));
    std::vector<std::vector<std::string>> scans(parts_.rows);
    for (std::int64_t trip = 0; *goes_on && (!most || trip < *most); ++trip) {
      if (!has_room()) return false;
      Names names = same;
      names[body_.inputs[0]] = constant(inner(trip, "trip"), Tensor::scalar(trip));
      names[body_.inputs[1]] = constant(inner("goes_on"), truth());
      for (std::size_t i = 0; i < states; ++i) names[body_.inputs[2 + i]] = state[i];
      add_trip(trip, names);
      for (std::size_t i = 0; i < states; ++i) state[i] = names.at(body_.outputs[1 + i]);
      for (std::size_t i = 0; i < scans.size(); ++i)
        scans[i].push_back(names.at(body_.outputs[1 + states + i]));
      if (always)
        goes_on = always;
      else
        goes_on = trip < kMostAsked ? condition_of(names.at(body_.outputs[0])) : std::nullopt;
      if (!goes_on) return false;
    }
    for (std::size_t i = 0; i < node_.outputs.size(); ++i) {
      if (node_.outputs[i].empty()) continue;
      if (i < states) {
        results_.emplace(node_.outputs[i], state[i]);
      } else if (scans[i - states].empty()) {
        return false;  // nothing says what shape no rows have
      } else {
        stack(scans[i - states], 0, node_.outputs[i]);
      }
    }
    return true;
  }

  bool run_scan() {
    const std::size_t states = parts_.states, sequences = parts_.sequences, rows = parts_.rows;
    std::optional<std::int64_t> trips;
    for (std::size_t i = 0; i < sequences; ++i) {
      const auto shape = graph_.shape_of(node_.inputs[states + i]);
      if (!shape) return false;
      const auto rank = static_cast<std::int64_t>(shape->size());
      const std::int64_t axis =
          parts_.sequence_axes[i] < 0 ? parts_.sequence_axes[i] + rank : parts_.sequence_axes[i];
      if (axis < 0 || axis >= rank) return false;
      const Dim& dim = (*shape)[static_cast<std::size_t>(axis)];
      if (!dim.known() || (trips && *trips != dim.size)) return false;
      trips = dim.size;
    }
    if (*trips < 1 || !has_room(*trips)) return false;
    const Names same = shared();
    std::vector<std::string> state(node_.inputs.begin(),
                                   node_.inputs.begin() + static_cast<std::ptrdiff_t>(states));
    std::vector<std::vector<std::string>> made(rows);
    for (std::int64_t trip = 0; trip < *trips; ++trip) {
      if (!has_room()) return false;
      Names names = same;
      for (std::size_t i = 0; i < states; ++i) names[body_.inputs[i]] = state[i];
      for (std::size_t i = 0; i < sequences; ++i) {
        const std::int64_t at = parts_.sequences_backward[i] != 0 ? *trips - 1 - trip : trip;
        const std::string& input = body_.inputs[states + i];
        const std::string index = constant(inner("row/" + std::to_string(at)), Tensor::scalar(at));
        const std::string row = inner(trip, input);
        add_node(row, "Gather", {node_.inputs[states + i], index}, row, {{"axis", parts_.sequence_axes[i]}});
        names[input] = row;
      }
      add_trip(trip, names);
      for (std::size_t i = 0; i < states; ++i) state[i] = names.at(body_.outputs[i]);
      for (std::size_t i = 0; i < rows; ++i) made[i].push_back(names.at(body_.outputs[states + i]));
    }
    for (std::size_t i = 0; i < node_.outputs.size(); ++i) {
      if (node_.outputs[i].empty()) continue;
      if (i < states) {
        results_.emplace(node_.outputs[i], state[i]);
        continue;
      }
      std::vector<std::string>& parts = made[i - states];
      if (parts_.rows_backward[i - states] != 0) std::ranges::reverse(parts);
      stack(parts, parts_.row_axes[i - states], node_.outputs[i]);
    }
    return true;
  }

  /// One for each node of the body, also where two have the same or none.
  static std::vector<std::string> names_of(const Graph& body) {
    std::vector<std::string> names;
    std::set<std::string> taken;
    std::map<std::string, int> next;
    for (const Node& node : body.nodes) {
      const std::string wish = node.name.empty() ? node.op : node.name;
      std::string name = wish;
      for (int& i = next[wish]; !taken.insert(name).second;) name = wish + "_" + std::to_string(++i);
      names.push_back(std::move(name));
    }
    return names;
  }

  const Graph& graph_;
  const Node& node_;
  const LoopParts parts_;
  const Graph& body_;
  const std::vector<std::string> node_names_;
  std::vector<Node> nodes_;
  std::map<std::string, Tensor> constants_;
  std::map<std::string, ElementType> types_;
  Names results_;
};

/// Whether names with the loop's in front are all free.
bool is_free(const Graph& graph, const std::string& prefix) {
  const auto has = [&](const auto& map) {
    const auto at = map.lower_bound(prefix);
    return at != map.end() && at->first.starts_with(prefix);
  };
  if (has(graph.values) || has(graph.initializers) || has(graph.quantized)) return false;
  return std::ranges::none_of(graph.nodes, [&](const Node& node) {
    return node.name.starts_with(prefix) || std::ranges::any_of(node.outputs, [&](const std::string& name) {
             return name.starts_with(prefix);
           });
  });
}

}  // namespace

bool unroll(Graph& graph, std::size_t index, const ConstantValues& constants) {
  Node node = graph.nodes[index];
  while (!is_free(graph, node.name + "/")) node.name += '_';
  Unrolled unrolled(graph, node);
  if (!unrolled.run(constants)) return false;
  unrolled.put_into(graph, index);
  return true;
}

}  // namespace crumb::graph
