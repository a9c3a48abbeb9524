#include "graph/quantize/rules.h"

#include <algorithm>
#include <set>

#include "base/files/text.h"
#include "base/text/nearest_name.h"
#include "graph/adapters.h"
#include "graph/quantized_constant.h"
#include "graph/strided_index.h"
#include "quant/recipe/name_pattern.h"

namespace crumb::graph {
namespace {

constexpr std::size_t kMostListed = 20;

class Ruling {
 public:
  Ruling(const Graph& graph, const Constants& constants, const Recipe& recipe)
      : graph_(graph), constants_(constants), recipe_(recipe) {}

  RuledGraph run() {
    collect_constants();
    const RuledActivations usual{.spec = recipe_.activations};
    result_.nodes.assign(graph_.nodes.size(), usual);
    for (const std::string& input : graph_.inputs) {
      result_.inputs[input] = {.spec = recipe_.inputs ? *recipe_.inputs : recipe_.activations};
    }
    for (const Rule& rule : recipe_.rules) {
      apply(rule);
      ++number_;
    }
    check_constants();
    return std::move(result_);
  }

 private:
  void collect_constants() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (const std::string& input : graph_.nodes[i].inputs) users_[input].push_back(i);
    }
    for (const auto& [name, tensor] : graph_.initializers) {
      if (tensor.type() != ElementType::kFloat || !users_.contains(name)) continue;
      result_.constants[name] = {.node = users_[name][0], .kept_because = "no weight of an operator"};
    }
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      for (const WeightInput& weight : weight_inputs(graph_, node, constants_)) {
        const auto found = result_.constants.find(node.inputs[weight.input]);
        if (found == result_.constants.end()) continue;  // quantized already, or computed
        if (is_of_adapter(found->first)) {
          found->second.kept_because = "an adapter's";
          continue;
        }
        take(found->first, found->second, weight, i);
      }
    }
    for (auto& [name, constant] : result_.constants) {
      const bool is_embedding = constant.role == RuledConstant::Role::kEmbedding;
      if (constant.role == RuledConstant::Role::kOther) continue;
      constant.spec = is_embedding ? recipe_.embeddings : recipe_.weights;
      constant.kept_because = constant.spec  ? ""
                              : is_embedding ? "the recipe says embeddings: keep"
                                             : "the recipe says weights: keep";
      if (!is_embedding) constant.accumulator = recipe_.accumulator;
      if (!is_embedding) constant.prune = recipe_.prune;
      constant.learned_bits = !is_embedding && recipe_.learned_bits;
      constant.scales = recipe_.scales;
      layers_with_weights_.insert(layer_of(name));
    }
  }

  void take(const std::string& name, RuledConstant& constant, const WeightInput& weight, std::size_t node) {
    if (constant.role != RuledConstant::Role::kOther) {
      if (constant.output_axis != weight.output_axis) two_axes_[name] = node;
      if (weight.is_embedding)
        constant.role = RuledConstant::Role::kEmbedding;  // also where it is the head, too
      return;
    }
    constant.role = weight.is_embedding ? RuledConstant::Role::kEmbedding : RuledConstant::Role::kWeight;
    constant.node = node;
    constant.output_axis = weight.output_axis;
  }

  bool is_kind(const Rule::Match& match, const Node& node) const {
    const bool op = match.op.empty() ||
                    std::ranges::any_of(match.op, [&](const auto& name) { return is_called(node, name); });
    return op && (!match.depthwise || (*match.depthwise == is_depthwise(graph_, node) &&
                                       (*match.depthwise || is_convolution(node))));
  }
  static bool is_convolution(const Node& node) { return node.is("Conv") || node.is("ConvTranspose"); }
  static bool by_kind(const Rule& rule) { return !rule.match.op.empty() || rule.match.depthwise; }

  static bool matches(const NamePattern* pattern, const std::string& name) {
    if (!pattern) return true;
    if (pattern->matches(name)) return true;
    const std::string layer(layer_of(name));
    return !layer.empty() && pattern->matches(layer);
  }

  bool matches_node(const NamePattern* pattern, std::size_t index) const {
    const Node& node = graph_.nodes[index];
    if (matches(pattern, node.name)) return true;
    return std::ranges::any_of(node.inputs, [&](const std::string& input) {
      const auto found = result_.constants.find(input);
      return found != result_.constants.end() && found->second.role != RuledConstant::Role::kOther &&
             matches(pattern, input);
    });
  }

  void apply(const Rule& rule) {
    if (rule.match.name.empty()) return apply(rule, nullptr, nullptr);
    for (const std::string& name : rule.match.name) {
      const NamePattern pattern(name);
      apply(rule, &pattern, &name);
    }
  }

  void apply(const Rule& rule, const NamePattern* pattern, const std::string* name) {
    std::size_t reached = 0, matched = 0;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!is_kind(rule.match, graph_.nodes[i]) || !matches_node(pattern, i)) continue;
      ++matched;
      reached += set_activations(rule, result_.nodes[i]);
    }
    if (!by_kind(rule)) {
      for (auto& [input, activations] : result_.inputs) {
        if (!pattern || !matches(pattern, input)) continue;
        ++matched;
        reached += set_activations(rule, activations);
      }
    }
    if (!rule.leaves_weights || rule.is_for_training()) reached += apply_to_constants(rule, pattern, matched);
    if (reached > 0 || rule.optional) return;
    refuse(rule, name, matched > 0);
  }

  /// Whether the rule says something of activations.
  bool set_activations(const Rule& rule, RuledActivations& activations) const {
    if (!rule.activations && !rule.skips()) return false;
    if (!rule.match.role.empty() && !rule.activations) return false;  // it is about tensors
    activations = {
        .spec = rule.activations ? *rule.activations : SpecOrKeep{}, .rule = number_, .skips = rule.skips()};
    return true;
  }

  std::size_t apply_to_constants(const Rule& rule, const NamePattern* pattern, std::size_t& matched) {
    std::size_t reached = 0;
    for (auto& [name, constant] : result_.constants) {
      const std::vector<std::size_t>& users = users_[name];
      if (by_kind(rule) &&
          std::ranges::none_of(users, [&](std::size_t i) { return is_kind(rule.match, graph_.nodes[i]); })) {
        continue;
      }
      const bool own_name = matches(pattern, name);
      const bool is_weight = constant.role != RuledConstant::Role::kOther;
      const bool of_node =
          is_weight && std::ranges::any_of(users, [&](std::size_t i) {
            return is_kind(rule.match, graph_.nodes[i]) && matches(pattern, graph_.nodes[i].name);
          });
      if (!own_name && !of_node) continue;
      ++matched;
      const bool in_full = pattern && pattern->literal() == name;
      const bool by_layer = pattern && !pattern->matches(name);
      if (by_layer && !is_weight && !rule.skips() && layers_with_weights_.contains(layer_of(name))) continue;
      if (!reaches(rule, constant, in_full)) continue;
      if (!rule.leaves_weights) constant.learned_bits = false;  // the rule says the width
      reached += set_training(rule, constant);
      if (rule.leaves_weights) continue;
      ++reached;
      constant.spec = rule.weights;
      if (rule.skips()) constant.prune.reset();  // it stays as it is
      constant.kept_because = rule.weights ? "" : "excluded by " + describe(rule);
    }
    return reached;
  }

  /// Whether the rule says how this weight is trained. Registers add up products: tables have none,
  /// and are not pruned.
  static bool set_training(const Rule& rule, RuledConstant& constant) {
    const bool adds_up = constant.role == RuledConstant::Role::kWeight;
    if (rule.accumulator && adds_up) constant.accumulator = *rule.accumulator;
    if (rule.scales) constant.scales = *rule.scales;
    if (rule.prune && adds_up) constant.prune = *rule.prune;
    if (rule.learned_bits && adds_up) constant.learned_bits = *rule.learned_bits;
    return rule.scales || ((rule.accumulator || rule.prune || rule.learned_bits) && adds_up);
  }

  static bool reaches(const Rule& rule, const RuledConstant& constant, bool in_full) {
    using Role = RuledConstant::Role;
    if (rule.match.role.empty()) return in_full || rule.skips() || constant.role != Role::kOther;
    return std::ranges::any_of(rule.match.role, [&](Rule::Role role) {
      if (role == Rule::Role::kAny) return true;
      return constant.role == (role == Rule::Role::kWeight ? Role::kWeight : Role::kEmbedding);
    });
  }

  static std::string describe(const Rule& rule) {
    if (rule.origin.starts_with("--")) return rule.origin;
    return rule.origin.empty() ? "a rule" : "the rule in " + rule.origin;
  }

  [[noreturn]] void refuse(const Rule& rule, const std::string* name, bool matched) const {
    const std::string what = describe(rule) + (name ? " for " + quote_text(*name) : "");
    if (matched) {
      throw usage_error(what + " reaches nothing: what it matches has no weights" +
                        (rule.match.role.empty() ? "" : " of that role") +
                        " (role: any reaches every floating tensor)");
    }
    std::vector<std::string_view> names;
    for (const Node& node : graph_.nodes) names.push_back(node.name);
    for (const auto& [constant, ruled] : result_.constants) {
      names.push_back(constant);
      if (const std::string_view layer = layer_of(constant); !layer.empty()) names.push_back(layer);
    }
    std::string nearest;
    if (name && !names.empty()) nearest = "; the nearest name is " + quote_text(nearest_name(*name, names));
    throw usage_error(
        what + " matches none of the " + std::to_string(graph_.nodes.size()) + " nodes and " +
        std::to_string(result_.constants.size()) + " tensors" + nearest +
        (rule.origin.starts_with("--") ? "" : " (a rule that may match nothing says optional: true)"));
  }

  void check_constants() const {
    std::vector<std::string> faults;
    for (const auto& [name, constant] : result_.constants) {
      if (!constant.spec) continue;
      const bool one_scale = constant.spec->granularity == Granularity::kTensor;
      if (const auto other = two_axes_.find(name); other != two_axes_.end() && !one_scale) {
        faults.push_back(quote_text(name) + ": " + text_of(graph_.nodes[constant.node]) + " and " +
                         text_of(graph_.nodes[other->second]) +
                         " have their outputs on different axes of it; one scale for the tensor fits both");
        continue;
      }
      const auto misfit = constant.spec->misfit(shape_for(name, constant));
      if (misfit)
        faults.push_back(quote_text(name) + " of " + text_of(graph_.nodes[constant.node]) + ": " + *misfit);
    }
    if (faults.empty()) return;
    std::string message = std::to_string(faults.size()) +
                          (faults.size() == 1 ? " tensor does" : " tensors do") +
                          " not fit the spec (the output axis comes first):";
    for (std::size_t i = 0; i < std::min(faults.size(), kMostListed); ++i) message += "\n  " + faults[i];
    if (faults.size() > kMostListed)
      message += "\n  and " + std::to_string(faults.size() - kMostListed) + " more";
    throw Error(message +
                "\ngive these tensors another spec with --set or --exclude, or by a rule of the recipe");
  }

  std::vector<std::uint64_t> shape_for(const std::string& name, const RuledConstant& constant) const {
    const std::vector<std::int64_t>& shape = graph_.initializers.at(name).shape();
    if (constant.output_axis >= shape.size()) return {shape.begin(), shape.end()};
    const auto order = inverse(axes_with_output(shape.size(), constant.output_axis));
    const auto sizes = permuted_shape(shape, order);
    return {sizes.begin(), sizes.end()};
  }

  const Graph& graph_;
  const Constants& constants_;
  const Recipe& recipe_;
  RuledGraph result_;
  std::map<std::string, std::vector<std::size_t>> users_;  // of values, by index of node
  std::map<std::string, std::size_t> two_axes_;            // constants, and the node that wants another axis
  std::set<std::string_view> layers_with_weights_;         // whose names stand for these weights
  int number_ = 0;
};

}  // namespace

RuledGraph apply_rules(const Graph& graph, const Constants& constants, const Recipe& recipe) {
  return Ruling(graph, constants, recipe).run();
}

}  // namespace crumb::graph
