#include "graph/quantize/edges.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/files/text.h"
#include "graph/branches.h"
#include "graph/operator_traits.h"
#include "graph/quantize/roles.h"
#include "graph/recurrent_cell.h"
#include "graph/weighted_product.h"

namespace crumb::graph {
namespace {

bool is_quantized_already(const Node& node) {
  return is_quantizer(node) || node.is("DequantizeLinear") || node.is("Trunc", kQonnxDomain) ||
         node.is("MultiThreshold", kQonnxDomain);
}

/// Whether the node splits the gates of a recurrent cell, which are quantized as one before.
bool splits_gates(const Node& node) {
  const auto part = cell_part(node);
  return part && part->part == "gates";
}

/// Whether it is a sum or state inside a recurrent cell, which goes into sigmoid and tanh, or from step to
/// step: tables of 256 entries, and registers that drift in fewer bits.
bool is_wide(const CellPart& part) {
  static constexpr std::string_view kWide[] = {"sum", "share", "state", "change"};
  return std::ranges::find(kWide, part.part) != std::end(kWide);
}

/// Whether rules for the node concern its output: a rule for a part of a cell does, one for a cell's products
/// concerns their inputs, as elsewhere.
bool is_ruled_by_output(const Node& node) { return cell_part(node) && !is_matrix_product(node); }

constexpr const char* kWideNumber = "int8";

/// A value that a node takes quantized.
struct Wanted {
  QuantSpec spec;
  int rule = -1;
  bool as_given = false;  ///< with any sign
  std::string by;
  std::set<std::string> others;     ///< other requested specs
  std::set<std::string> consumers;  ///< consumers with one scale for each token
  std::set<std::string> names;      ///< of nodes that take it quantized
  std::set<std::string> takers;     ///< first outputs of its consumers on the way to such nodes
};

/// Sets of indices with something in common, by union-find.
class Groups {
 public:
  explicit Groups(std::size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0); }
  std::size_t find(std::size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(std::size_t a, std::size_t b) {
    a = find(a), b = find(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::size_t> parent_;
};

class EdgePlanner {
 public:
  EdgePlanner(const Graph& graph, const Links& links, const Constants& constants, const RuledGraph& rules,
              const Recipe& recipe, const PlanOptions& options, QuantPlan& plan)
      : graph_(graph),
        links_(links),
        constants_(constants),
        rules_(rules),
        recipe_(recipe),
        options_(options),
        notes_(plan.notes),
        optional_(plan.optional),
        roles_(graph, links, constants, options.choices.in_floats),
        beside_(branches_of(graph, links)) {}

  std::vector<PlannedEdge> run() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) want_inputs(i);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) want_outputs(i);
    drop_kept();
    take_beside();
    std::vector<PlannedEdge> edges = in_order();
    group(edges);
    if (recipe_.average_pools == Recipe::AveragePools::kTruncate) {
      plan_truncations(graph_, links_, constants_, edges, notes_);
    }
    note_twins(edges);
    note_without_tokens();
    return edges;
  }

 private:
  /// The first node of a branch takes the product's input as the product does.
  void take_beside() {
    for (const std::string& value : options_.choices.for_takers_alone)
      if (const auto found = wanted_.find(value); found != wanted_.end())
        found->second.consumers = found->second.takers;
    for (auto& [value, wanted] : wanted_)
      for (const Branch& one : beside_.sums)
        if (wanted.consumers.contains(one.product)) wanted.consumers.insert(one.taker);
  }

  void want_inputs(std::size_t index) {
    if (beside_.nodes.contains(index)) return;
    const Node& node = graph_.nodes[index];
    const RuledActivations usual{.spec = recipe_.activations};
    const RuledActivations& ruled = is_ruled_by_output(node) ? usual : rules_.nodes[index];
    if (ruled.skips) return;
    const ActivationInputs wanted = activation_inputs(graph_, node, constants_);
    if (wanted.inputs.empty()) return;
    const bool may_stay = options_.placement == Placement::kWhereIntegersGoOn && ruled.rule < 0;
    if (may_stay && !is_wanted(index)) return;
    std::vector<std::string> sharing;
    OptionalQuantizers optional{.value = node.outputs[0], .node = text_of(node), .edges = {}};
    for (const std::size_t i : wanted.inputs) {
      const Sources sources =
          sources_of(graph_, links_, constants_, node.inputs[i], options_.choices.in_floats, node.outputs[0]);
      std::vector<std::string> asked;
      for (const std::string& value : sources.values) {
        if (rule_for(value, ruled).spec && rule_for(value, ruled).spec->is_dynamic()) {
          want_tokens(index, i, rule_for(value, ruled));
        } else if (want(value, ruled, node, sources.takers.at(value))) {
          asked.push_back(value);
          optional.edges[value] = sources.takers.at(value);
        }
      }
      if (sources.joined) shared_.push_back(asked);
      sharing.insert(sharing.end(), asked.begin(), asked.end());
    }
    if (may_stay && !multiplies(node) && !cell_part(node) && !optional.edges.empty())
      optional_.push_back(std::move(optional));
    if (wanted.share_scale) shared_.push_back(std::move(sharing));
    if (node.is("Concat") && ruled.spec) note_constants(node);
  }

  static std::set<std::string> names_of(const Node& node) {
    return node.name.empty() ? std::set<std::string>() : std::set<std::string>{node.name};
  }

  static bool multiplies(const Node& node) { return is_any(node, trait::kMultiplies | trait::kRecurrent); }

  /// Whether integers are useful to a node that no rule names.
  bool is_wanted(std::size_t index) {
    const Node& node = graph_.nodes[index];
    if (cell_part(node)) return true;
    if (multiplies(node)) return !roles_.is_of_spectrum(index);
    if (node.is("Concat")) return false;  // the consumers of its result request it
    if (is_any(node, trait::kAdds) && !roles_.is_residual_sum(index)) return false;
    return !options_.choices.in_floats.contains(node.outputs[0]) && roles_.passes_integers_on(index);
  }

  void note_constants(const Node& node) {
    for (const std::string& input : node.inputs) {
      const bool is_float = graph_.constant(input) && graph_.constant(input)->type() == ElementType::kFloat;
      if (is_float)
        notes_.push_back("the constant " + quote_text(input) + " that " + text_of(node) +
                         " joins stays float");
    }
  }

  bool is_ruled_as_input(const std::string& value, const RuledActivations& ruled) const {
    const auto input = rules_.inputs.find(value);
    return input != rules_.inputs.end() && input->second.rule >= ruled.rule;
  }

  /// Graph inputs have a field of their own.
  const RuledActivations& rule_for(const std::string& value, const RuledActivations& ruled) const {
    return is_ruled_as_input(value, ruled) ? rules_.inputs.at(value) : ruled;
  }

  /// Requests a quantizer; returns whether there will be one.
  bool want(const std::string& value, const RuledActivations& ruled, const Node& by,
            const std::set<std::string>& takers) {
    const RuledActivations& rule = rule_for(value, ruled);
    if (!rule.spec) return false;
    const bool is_input = is_ruled_as_input(value, ruled);
    const bool as_given = is_input && (recipe_.inputs || rule.rule >= 0);
    if (!as_given && rule.rule < 0 && options_.choices.values_in_floats.contains(value)) return false;
    if (is_input && !as_given && options_.placement == Placement::kWhereIntegersGoOn)
      want_input(value, takers);
    add(value, {.spec = *rule.spec,
                .rule = rule.rule,
                .as_given = as_given,
                .by = text_of(by),
                .others = {},
                .consumers = {},
                .names = names_of(by),
                .takers = takers});
    return true;
  }

  void want_input(const std::string& value, const std::set<std::string>& takers) {
    auto held = std::ranges::find(optional_, value, &OptionalQuantizers::value);
    if (held == optional_.end()) {
      optional_.push_back({.value = value, .node = "", .edges = {}});
      held = std::prev(optional_.end());
    }
    held->edges[value].insert(takers.begin(), takers.end());
  }

  /// Quantizes at the node itself: nodes that move elements would change which vectors are tokens.
  void want_tokens(std::size_t index, std::size_t input, const RuledActivations& rule) {
    const Node& node = graph_.nodes[index];
    if (!takes_tokens(graph_, node, input, constants_)) {
      without_tokens_.insert(text_of(node));
      return;
    }
    const std::string& value = node.inputs[input];
    add(value, {.spec = *rule.spec,
                .rule = rule.rule,
                .by = text_of(node),
                .others = {},
                .consumers = {node.outputs[0]},
                .names = names_of(node),
                .takers = {node.outputs[0]}});
  }

  void add(const std::string& value, Wanted wanted) {
    const auto [found, is_new] = wanted_.emplace(value, wanted);
    if (is_new) return;
    Wanted& held = found->second;
    held.takers.merge(wanted.takers);
    held.names.merge(wanted.names);
    wanted.takers = held.takers;
    wanted.names = held.names;
    if (held.spec == wanted.spec) return held.consumers.merge(wanted.consumers);
    if (wanted.rule > held.rule) std::swap(held, wanted);
    held.others.merge(wanted.others);
    held.others.insert(wanted.spec.to_string());
  }

  /// A rule for an operator without inputs to quantize concerns its output.
  void want_outputs(std::size_t index) {
    if (beside_.nodes.contains(index)) return;
    const Node& node = graph_.nodes[index];
    const RuledActivations& ruled = rules_.nodes[index];
    if (ruled.rule < 0 || ruled.skips || node.outputs.empty() || node.outputs[0].empty()) return;
    if (!is_ruled_by_output(node) && !activation_inputs(graph_, node, constants_).inputs.empty()) return;
    if (constants_.contains(node.outputs[0]) || is_quantized_already(node)) return;
    const Sources sources = sources_of(graph_, links_, constants_, node.outputs[0]);
    for (const std::string& value : sources.values) {
      const auto found = wanted_.find(value);
      if (found != wanted_.end() && found->second.rule > ruled.rule) continue;
      if (!ruled.spec) {
        kept_.insert(value);
        continue;
      }
      if (ruled.spec->is_dynamic()) {
        without_tokens_.insert(text_of(node));
        continue;
      }
      kept_.erase(value);
      const std::string by = found == wanted_.end() ? text_of(node) : found->second.by;
      wanted_[value] = {.spec = *ruled.spec,
                        .rule = ruled.rule,
                        .by = by,
                        .others = {},
                        .consumers = {},
                        .names = {},
                        .takers = {}};
    }
  }

  void drop_kept() {
    for (const std::string& value : kept_) wanted_.erase(value);
  }

  std::vector<PlannedEdge> in_order() {
    std::vector<PlannedEdge> edges;
    const auto take = [&](const std::string& value) {
      if (const auto found = wanted_.find(value); found != wanted_.end())
        edges.push_back(edge_of(value, found->second));
    };
    for (const std::string& input : graph_.inputs) take(input);
    for (const Node& node : graph_.nodes) {
      for (const std::string& output : node.outputs) take(output);
    }
    return edges;
  }

  std::optional<CellPart> cell_part_of(const std::string& value) const {
    const std::size_t producer = links_.producer(value);
    return producer == Links::kNone ? std::nullopt : cell_part(graph_.nodes[producer]);
  }

  PlannedEdge edge_of(const std::string& value, const Wanted& wanted) {
    PlannedEdge edge{.value = value,
                     .spec = wanted.spec,
                     .wanted_by = wanted.by,
                     .wanted_by_names = wanted.names,
                     .consumers = wanted.consumers,
                     .takers = wanted.takers,
                     .is_by_rule = wanted.rule >= 0 || wanted.as_given};
    const auto part = cell_part_of(value);
    if (part && is_wide(*part) && wanted.rule < 0 && wanted.spec.number->grid != Grid::kMinifloat &&
        wanted.spec.number->bits < 8) {
      edge.spec.number = find_number_format(kWideNumber);
      edge.spec.range = edge.spec.number->default_range();
      edge.spec.zero = ZeroPoint::kNone;
      has_wide_ = true;
      return edge;
    }
    for (const std::string& other : wanted.others) {
      notes_.push_back(quote_text(value) + " is wanted as " + other + " too, and gets " +
                       wanted.spec.to_string());
    }
    if (edge.spec.number->is_signed || wanted.as_given) return edge;
    if (options_.choices.with_zero_point.contains(value)) {
      edge.spec.zero = ZeroPoint::kInteger;
      return edge;
    }
    if (cannot_be_negative(value)) return edge;
    edge.take_sign();
    return edge;
  }

  bool cannot_be_negative(const std::string& value) const {
    if (!options_.unsigned_after_relu_only) return is_nonnegative(graph_, links_, value);
    const std::size_t producer = links_.producer(value);
    return producer != Links::kNone && graph_.nodes[producer].is("Relu");
  }

  void group(std::vector<PlannedEdge>& edges) const {
    std::map<std::string, std::size_t> indices;
    for (std::size_t i = 0; i < edges.size(); ++i) indices[edges[i].value] = i;
    Groups groups(edges.size());
    for (const std::vector<std::string>& values : shared_) {
      std::size_t first = edges.size();
      for (const std::string& value : values) {
        const auto found = indices.find(value);
        if (found == indices.end()) continue;
        if (first == edges.size()) first = found->second;
        groups.join(first, found->second);
      }
    }
    // A part of a cell has one scale in all steps.
    std::map<std::string, std::size_t> firsts;
    for (std::size_t i = 0; i < edges.size(); ++i) {
      const auto part = cell_part_of(edges[i].value);
      if (!part) continue;
      const auto [first, is_new] = firsts.emplace(part->cell + "/" + part->part, i);
      if (!is_new) groups.join(first->second, i);
    }
    std::map<std::size_t, std::size_t> numbers;
    for (std::size_t i = 0; i < edges.size(); ++i) {
      edges[i].scale_group = numbers.emplace(groups.find(i), numbers.size()).first->second;
    }
  }

  static std::string some_of(const std::vector<std::string>& names) {
    constexpr std::size_t kMost = 5;
    std::string text;
    for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) {
      text += (text.empty() ? "" : ", ") + names[i];
    }
    if (names.size() > kMost) text += " and " + std::to_string(names.size() - kMost) + " more";
    return text;
  }

  void note_without_tokens() {
    if (without_tokens_.empty()) return;
    notes_.push_back(
        "what " + some_of({without_tokens_.begin(), without_tokens_.end()}) +
        " takes stays: one scale for each token is for products with weights along the last axis");
  }

  void note_twins(const std::vector<PlannedEdge>& edges) {
    if (has_wide_) {
      notes_.push_back(std::string("sums and states inside of recurrent cells get ") + kWideNumber +
                       "; a rule that names their nodes gives them another spec");
    }
    std::map<std::string, std::vector<std::string>> twins;
    for (const PlannedEdge& edge : edges) {
      if (edge.is_signed_twin) twins[std::string(edge.spec.number->name)].push_back(quote_text(edge.value));
    }
    for (const auto& [name, values] : twins) {
      notes_.push_back("the signed twin " + name + " is used at " + some_of(values) +
                       ", which can be negative");
    }
  }

  const Graph& graph_;
  const Links& links_;
  const Constants& constants_;
  const RuledGraph& rules_;
  const Recipe& recipe_;
  const PlanOptions& options_;
  std::vector<std::string>& notes_;
  std::vector<OptionalQuantizers>& optional_;
  Roles roles_;
  const Branches beside_;
  std::map<std::string, Wanted> wanted_;
  std::set<std::string> kept_;
  std::set<std::string> without_tokens_;  ///< nodes
  std::vector<std::vector<std::string>> shared_;
  bool has_wide_ = false;
};

}  // namespace

Sources sources_of(const Graph& graph, const Links& links, const Constants& constants,
                   const std::string& value, const std::set<std::string>& behind, const std::string& taker) {
  Sources sources;
  std::vector<std::pair<std::string, std::string>> open = {
      {value, taker}};  // values, and nodes that take them
  std::set<std::string> seen;
  while (!open.empty()) {
    const auto [next, by] = std::move(open.back());
    open.pop_back();
    if (const auto found = sources.takers.find(next); found != sources.takers.end()) found->second.insert(by);
    if (next.empty() || !seen.insert(next).second || constants.contains(next)) continue;
    const std::size_t producer = links.producer(next);
    const Node* node = producer == Links::kNone ? nullptr : &graph.nodes[producer];
    if (node && is_quantized_already(*node)) continue;
    if (node && node->is("Concat") && !behind.contains(next)) {
      sources.joined = true;
      for (const std::string& input : node->inputs) open.emplace_back(input, node->outputs[0]);
    } else if (node && (moves_elements(graph, *node) || splits_gates(*node))) {
      open.emplace_back(node->inputs[0], node->outputs[0]);
    } else {
      sources.values.push_back(next);
      sources.takers[next].insert(by);
    }
  }
  std::ranges::sort(sources.values);
  return sources;
}

void plan_edges(const Graph& graph, const Links& links, const Constants& constants, const RuledGraph& rules,
                const Recipe& recipe, const PlanOptions& options, QuantPlan& plan) {
  plan.edges = EdgePlanner(graph, links, constants, rules, recipe, options, plan).run();
}

}  // namespace crumb::graph
