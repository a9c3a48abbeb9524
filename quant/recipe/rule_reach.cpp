#include "quant/recipe/rule_reach.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "base/text/nearest_name.h"
#include "quant/recipe/name_pattern.h"

namespace crumb {
namespace {

/// A tensor that a pattern matches.
struct Hit {
  bool by_name =
      false;  ///< by its own name, or by a layer that has no weights; not only by other layers or by a node
  bool in_full = false;  ///< by its own name, written without wildcards
};

struct Hits {
  std::map<std::size_t, Hit> tensors;
  std::set<std::size_t> nodes, inputs;
  bool is_left_out = false;  ///< a tensor that the network does not take

  bool any() const { return !tensors.empty() || !nodes.empty() || !inputs.empty() || is_left_out; }
};

class RuleReach {
 public:
  RuleReach(const RuleSubjects& subjects, const RuleEffects& effects)
      : subjects_(subjects), effects_(effects) {}

  void apply(const Rule& rule, int number) {
    if (rule.match.name.empty()) {
      const std::string who = described(rule, nullptr);
      return apply({.rule = rule, .number = number, .who = who}, nullptr, everything());
    }
    for (const std::string& name : rule.match.name) {
      const std::string who = described(rule, &name);
      apply({.rule = rule, .number = number, .who = who}, &name, hits_of(name));
    }
  }

 private:
  /// What has a name, or belongs to a layer of that name.
  struct Named {
    std::vector<std::size_t> own;     ///< tensors of this name
    std::vector<std::size_t> around;  ///< tensors in a layer of this name, weights of nodes of this name
    std::vector<std::size_t> nodes, inputs;
    bool is_left_out = false;
  };

  static bool is_weight(const RuleSubjects::Tensor& tensor) { return tensor.role != Rule::Role::kAny; }
  static bool is_by_kind(const Rule& rule) { return !rule.match.op.empty() || rule.match.depthwise; }

  /// Calls `call` for a name and its layers; not at all for an empty name.
  template <class F>
  static void each_name(std::string_view name, F&& call) {
    if (name.empty()) return;
    call(name);
    for (const std::string_view layer : layers_of(name)) call(layer);
  }

  void index() {
    if (is_indexed_) return;
    is_indexed_ = true;
    for (std::size_t i = 0; i < subjects_.tensors.size(); ++i) {
      const RuleSubjects::Tensor& tensor = subjects_.tensors[i];
      named_[tensor.name].own.push_back(i);
      for (const std::string_view layer : layers_of(tensor.name)) named_[layer].around.push_back(i);
      if (!is_weight(tensor)) continue;
      for (const std::string_view layer : layers_of(tensor.name)) layers_with_weights_.insert(layer);
      for (const std::size_t node : tensor.users) {
        each_name(subjects_.nodes[node], [&](std::string_view name) { named_[name].around.push_back(i); });
        each_name(tensor.name, [&](std::string_view name) { named_[name].nodes.push_back(node); });
      }
    }
    for (std::size_t i = 0; i < subjects_.nodes.size(); ++i)
      each_name(subjects_.nodes[i], [&](std::string_view name) { named_[name].nodes.push_back(i); });
    for (std::size_t i = 0; i < subjects_.inputs.size(); ++i)
      each_name(subjects_.inputs[i], [&](std::string_view name) { named_[name].inputs.push_back(i); });
    for (const std::string& tensor : subjects_.left_out)
      each_name(tensor, [&](std::string_view name) { named_[name].is_left_out = true; });
  }

  Hits everything() const {
    Hits hits;
    for (std::size_t i = 0; i < subjects_.tensors.size(); ++i) hits.tensors[i] = {.by_name = true};
    for (std::size_t i = 0; i < subjects_.nodes.size(); ++i) hits.nodes.insert(i);
    return hits;
  }

  Hits hits_of(const std::string& text) {
    index();
    const NamePattern pattern(text);
    Hits hits;
    const auto take = [&](std::string_view name, const Named& named) {
      for (const std::size_t i : named.own)
        hits.tensors[i] = {.by_name = true, .in_full = pattern.literal().has_value()};
      const bool is_bare = !layers_with_weights_.contains(name);
      for (const std::size_t i : named.around) hits.tensors[i].by_name |= is_bare;
      hits.nodes.insert(named.nodes.begin(), named.nodes.end());
      hits.inputs.insert(named.inputs.begin(), named.inputs.end());
      hits.is_left_out |= named.is_left_out;
    };
    if (pattern.literal()) {
      if (const auto found = named_.find(*pattern.literal()); found != named_.end())
        take(found->first, found->second);
      return hits;
    }
    for (const auto& [name, named] : named_)
      if (pattern.matches(std::string(name))) take(name, named);
    return hits;
  }

  bool is_of_kind(const Rule& rule, std::size_t node) const {
    return !is_by_kind(rule) || (subjects_.is_kind && subjects_.is_kind(rule.match, node));
  }

  bool is_of_kind(const Rule& rule, const RuleSubjects::Tensor& tensor) const {
    return !is_by_kind(rule) ||
           std::ranges::any_of(tensor.users, [&](std::size_t node) { return is_of_kind(rule, node); });
  }

  /// Whether the rule is meant for a tensor that it matches, whatever its dtype.
  static bool reaches(const Rule& rule, const RuleSubjects::Tensor& tensor, const Hit& hit) {
    if (rule.match.role.empty()) return hit.in_full || rule.skips() || is_weight(tensor);
    if (!hit.by_name && !rule.skips() && !is_weight(tensor)) return false;
    return std::ranges::any_of(rule.match.role, [&](Rule::Role role) {
      return role == Rule::Role::kAny || (is_weight(tensor) && role == tensor.role);
    });
  }

  void apply(const RuleReached& reached, const std::string* name, const Hits& hits) {
    const Rule& rule = reached.rule;
    std::size_t matched = 0, taken = 0, unfit = 0;
    for (const std::size_t node : hits.nodes) {
      if (!effects_.node || !is_of_kind(rule, node)) continue;
      ++matched;
      taken += effects_.node(reached, node);
    }
    for (const std::size_t input : hits.inputs) {
      if (!effects_.input || is_by_kind(rule)) continue;
      ++matched;
      taken += effects_.input(reached, input);
    }
    std::optional<std::size_t> first;
    for (const auto& [index, hit] : hits.tensors) {
      const RuleSubjects::Tensor& tensor = subjects_.tensors[index];
      if (!is_of_kind(rule, tensor)) continue;
      ++matched;
      if (!first) first = index;
      if (!reaches(rule, tensor, hit)) continue;
      if (effects_.tensor(reached, index)) {
        ++taken;
      } else {
        unfit += !tensor.is_floating;
      }
    }
    if (taken > 0 || rule.optional || hits.is_left_out) return;
    if (matched == 0) refuse_unmatched(reached, name);
    if (unfit > 0)
      throw usage_error(reached.who +
                        " matches only tensors that are not floating point and cannot be quantized");
    refuse_roles(reached, first);
  }

  static std::string described(const Rule& rule, const std::string* name) {
    if (rule.origin.starts_with("--")) return rule.origin + (name ? " " + quote_text(*name) : "");
    const std::string what = name                      ? "the rule for " + quote_text(*name)
                             : !rule.match.op.empty()  ? "the rule for " + quote_text(rule.match.op.front())
                             : rule.match.role.empty() ? "the rule by kind"
                                                       : "the rule by role";
    return rule.origin.empty() ? what : what + " (" + rule.origin + ")";
  }

  [[noreturn]] void refuse_unmatched(const RuleReached& reached, const std::string* name) {
    index();
    std::string what = count_text(subjects_.tensors.size(), "tensor");
    if (!subjects_.nodes.empty()) what = count_text(subjects_.nodes.size(), "node") + " and " + what;
    std::string nearest;
    if (name && !named_.empty()) {
      std::set<std::string_view> names;
      for (const auto& [known, named] : named_) names.insert(known);
      const std::string part = unknown_part(*name, names);
      nearest =
          "; " + (part.empty() ? "the nearest name is " + quote_text(nearest_name(*name, names)) : part);
    }
    throw usage_error(
        reached.who +
        (named_.empty() ? " matches nothing: there are no tensors" : " matches none of the " + what) +
        nearest +
        (reached.rule.origin.starts_with("--") ? ""
                                               : " (a rule that may match nothing says optional: true)"));
  }

  /// Returns the first part of a glob, between dots, that is no part of any name, and the nearest part; empty
  /// for a plain name, and where every part is in some name.
  static std::string unknown_part(const std::string& glob, const std::set<std::string_view>& names) {
    if (NamePattern(glob).literal() || glob.starts_with("re:")) return "";
    std::set<std::string_view> known;
    for (const std::string_view name : names) add_parts(name, known);
    std::set<std::string_view> wanted;
    add_parts(glob, wanted);
    for (std::string_view part : wanted) {
      while (part.starts_with('*') || part.starts_with('?')) part.remove_prefix(1);
      while (part.ends_with('*') || part.ends_with('?')) part.remove_suffix(1);
      if (part.empty() || part.find_first_of("*?[\\") != part.npos || known.contains(part)) continue;
      return "no name has the part " + quote_text(part) + ", the nearest is " +
             quote_text(nearest_name(part, known));
    }
    return "";
  }

  static void add_parts(std::string_view name, std::set<std::string_view>& parts) {
    for (size_t dot = name.find('.'); dot != name.npos; dot = name.find('.')) {
      parts.insert(name.substr(0, dot));
      name.remove_prefix(dot + 1);
    }
    parts.insert(name);
  }

  [[noreturn]] void refuse_roles(const RuleReached& reached, std::optional<std::size_t> first) const {
    if (!first)
      throw usage_error(reached.who +
                        " reaches nothing: what it matches has no weights (role: any reaches every "
                        "floating tensor)");
    const RuleSubjects::Tensor& tensor = subjects_.tensors[*first];
    static constexpr std::string_view kRoles[] = {"a weight", "an embedding table", "neither of the two"};
    throw usage_error(
        reached.who + " reaches no tensor: none that it matches has " +
        (reached.rule.match.role.empty() ? "the role weight or embedding" : "a role that it asks for") +
        "; " + quote_text(tensor.name) + ", the first, is " +
        std::string(kRoles[static_cast<std::size_t>(tensor.role)]) +
        " (role: any reaches every floating tensor)");
  }

  const RuleSubjects& subjects_;
  const RuleEffects& effects_;
  bool is_indexed_ = false;
  std::map<std::string_view, Named> named_;         ///< by names and layers
  std::set<std::string_view> layers_with_weights_;  ///< the layers whose names stand for their weights
};

}  // namespace

void for_each_reached(std::span<const Rule> rules, const RuleSubjects& subjects, const RuleEffects& effects) {
  RuleReach reach(subjects, effects);
  int number = 0;
  for (const Rule& rule : rules) reach.apply(rule, number++);
}

}  // namespace crumb
