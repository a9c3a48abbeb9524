#include "quant/checkpoint/checkpoint_plan.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/files/text.h"
#include "base/text/nearest_name.h"
#include "quant/code_layout.h"
#include "quant/recipe/name_pattern.h"

namespace crumb {
namespace {

constexpr size_t kMostListed = 20;

class CheckpointPlanner {
 public:
  CheckpointPlanner(const std::vector<TensorEntry>& tensors, const nlohmann::json* config,
                    const Recipe& recipe)
      : recipe_(recipe) {
    for (const TensorEntry& entry : tensors) {
      TensorClass known = classify_tensor(entry.name, entry.dtype, entry.shape, config);
      plan_.push_back({&entry, std::nullopt, std::move(known.kept_because), known.role});
    }
  }

  std::vector<PlannedTensor> plan() {
    for (PlannedTensor& planned : plan_) {
      if (planned.role == TensorRole::kWeight)
        assign(planned, recipe_.weights, "the recipe says weights: keep");
      if (planned.role == TensorRole::kEmbedding)
        assign(planned, recipe_.embeddings, "the recipe says embeddings: keep");
    }
    for (const Rule& rule : recipe_.rules) apply(rule);
    check_shapes();
    for (PlannedTensor& planned : plan_) {
      if (planned.spec && planned.role == TensorRole::kWeight && fits_tiles(planned.entry->shape))
        planned.codes = recipe_.layout;
    }
    return std::move(plan_);
  }

 private:
  static void assign(PlannedTensor& planned, const SpecOrKeep& spec, const std::string& kept_because) {
    planned.spec = spec;
    planned.kept_because = spec ? "" : kept_because;
  }

  /// A tensor that a pattern matches: in_full where the pattern has no wildcards and is its whole name, by_layer where it
  /// only matches the layer that owns it.
  struct Hit {
    size_t index;
    bool in_full = false, by_layer = false;
  };

  void apply(const Rule& rule) {
    if (rule.match.name.empty()) {
      std::vector<Hit> all;
      for (size_t i = 0; i < plan_.size(); ++i) all.push_back({.index = i});
      return apply(rule, nullptr, all);
    }
    for (const std::string& name : rule.match.name) apply(rule, &name, hits(name));
  }

  std::vector<Hit> hits(const std::string& text) {
    if (names_.empty()) index_names();
    const NamePattern pattern(text);
    std::vector<Hit> found;
    if (pattern.literal()) {
      if (const auto named = names_.find(*pattern.literal()); named != names_.end()) {
        for (const size_t i : named->second) {
          const bool in_full = plan_[i].entry->name == *pattern.literal();
          found.push_back({.index = i, .in_full = in_full, .by_layer = !in_full});
        }
      }
      return found;
    }
    for (size_t i = 0; i < plan_.size(); ++i) {
      const std::string& name = plan_[i].entry->name;
      const std::string layer(layer_of(name));
      if (pattern.matches(name)) {
        found.push_back({.index = i});
      } else if (!layer.empty() && pattern.matches(layer)) {
        found.push_back({.index = i, .by_layer = true});
      }
    }
    return found;
  }

  void index_names() {
    for (size_t i = 0; i < plan_.size(); ++i) {
      const std::string& name = plan_[i].entry->name;
      names_[name].push_back(i);
      const std::string_view layer = layer_of(name);
      if (!layer.empty()) names_[layer].push_back(i);
      if (plan_[i].role != TensorRole::kKept) layers_with_weights_.insert(layer);
    }
  }

  /// Whether the rule is meant for a tensor that its pattern matches, whatever the type of its elements.
  bool reaches(const Rule& rule, const Hit& hit) const {
    const PlannedTensor& planned = plan_[hit.index];
    if (rule.match.role.empty()) {
      return hit.in_full || !rule.weights || planned.role != TensorRole::kKept;
    }
    if (hit.by_layer && rule.weights && planned.role == TensorRole::kKept &&
        layers_with_weights_.contains(layer_of(planned.entry->name))) {
      return false;  // the layer's name stands for its weights
    }
    return std::ranges::any_of(rule.match.role, [&](Rule::Role role) {
      switch (role) {
        case Rule::Role::kWeight: return planned.role == TensorRole::kWeight;
        case Rule::Role::kEmbedding: return planned.role == TensorRole::kEmbedding;
        case Rule::Role::kAny: break;
      }
      return true;
    });
  }

  void apply(const Rule& rule, const std::string* name, const std::vector<Hit>& found) {
    const std::string rule_text = describe(rule, name);
    size_t reached = 0, applied = 0;
    for (const Hit& hit : found) {
      PlannedTensor& planned = plan_[hit.index];
      if (!reaches(rule, hit)) continue;
      ++reached;
      const DType dtype = planned.entry->dtype;
      if (rule.weights && !is_floating(dtype)) {
        planned.kept_because =
            "not floating point (" + std::string(dtype_name(dtype)) + "), though " + rule_text + " names it";
        continue;
      }
      ++applied;
      assign(planned, rule.weights, "excluded by " + rule_text);
    }
    if (applied > 0 || rule.optional) return;
    if (found.empty()) refuse_unmatched(rule, rule_text, name);
    if (reached > 0) {
      throw usage_error(rule_text +
                        " matches only tensors that are not floating point and cannot be quantized");
    }
    refuse_roles(rule, rule_text, *plan_[found[0].index].entry, plan_[found[0].index].role);
  }

  /// "--exclude '*.query'", "'mine.yaml' line 7: the rule for '*.query'".
  static std::string describe(const Rule& rule, const std::string* name) {
    if (rule.origin.starts_with("--")) return rule.origin + (name ? " " + quote_text(*name) : "");
    const std::string what = name ? "the rule for " + quote_text(*name) : "the rule by role";
    return rule.origin.empty() ? what : what + " (" + rule.origin + ")";
  }

  [[noreturn]] void refuse_unmatched(const Rule& rule, const std::string& rule_text,
                                     const std::string* name) const {
    if (!name || plan_.empty()) throw usage_error(rule_text + " matches nothing: there are no tensors");
    std::vector<std::string_view> names;
    for (const PlannedTensor& planned : plan_) {
      names.push_back(planned.entry->name);
      if (const std::string_view layer = layer_of(planned.entry->name); !layer.empty())
        names.push_back(layer);
    }
    const std::string part = unknown_part(*name);
    throw usage_error(
        rule_text + " matches none of the " + std::to_string(plan_.size()) + " tensors; " +
        (part.empty() ? "the nearest name is " + quote_text(nearest_name(*name, names)) : part) +
        (rule.origin.starts_with("--") ? "" : " (a rule that may match nothing says optional: true)"));
  }

  /// Of a glob the first part between dots that is no part of any name, and the one that is nearest to it; empty
  /// for a plain name, and where it is not that which is wrong.
  std::string unknown_part(const std::string& glob) const {
    if (NamePattern(glob).literal() || glob.starts_with("re:")) return "";
    std::set<std::string_view> known;
    for (const PlannedTensor& planned : plan_) add_parts(planned.entry->name, known);
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

  [[noreturn]] static void refuse_roles(const Rule& rule, const std::string& rule_text,
                                        const TensorEntry& first, TensorRole role) {
    static constexpr std::string_view kRoles[] = {"a weight", "an embedding table", "neither of the two"};
    throw usage_error(rule_text + " reaches no tensor: none that it matches has " +
                      (rule.match.role.empty() ? "the role weight or embedding" : "a role that it asks for") +
                      "; " + quote_text(first.name) + ", the first, is " +
                      std::string(kRoles[static_cast<size_t>(role)]) +
                      " (role: any reaches every floating tensor)");
  }

  void check_shapes() const {
    std::vector<std::string> misfits;
    for (const PlannedTensor& planned : plan_) {
      if (!planned.spec) continue;
      if (const auto misfit = planned.spec->misfit(planned.entry->shape)) {
        misfits.push_back(quote_text(planned.entry->name) + ": " + *misfit);
      }
    }
    if (misfits.empty()) return;
    std::string message = std::to_string(misfits.size()) +
                          (misfits.size() == 1 ? " tensor does" : " tensors do") + " not fit the spec:";
    for (size_t i = 0; i < std::min(misfits.size(), kMostListed); ++i) message += "\n  " + misfits[i];
    if (misfits.size() > kMostListed)
      message += "\n  and " + std::to_string(misfits.size() - kMostListed) + " more";
    throw Error(message +
                "\nchoose another size, add ':pad' to allow a smaller last group, or give these tensors "
                "another spec with --set or --exclude, or by a rule of the recipe");
  }

  const Recipe& recipe_;
  std::vector<PlannedTensor> plan_;
  std::unordered_map<std::string_view, std::vector<size_t>> names_;  // full names and layers
  std::set<std::string_view> layers_with_weights_;
};

/// What a recipe says of operators and edges cannot be done to tensors.
void refuse_graph_fields(const Recipe& recipe) {
  const std::string found = graph_field_of(recipe);
  if (found.empty()) return;
  throw usage_error(
      "the recipe has " + found +
      ", and tensors alone have no operators; expected a graph (.onnx) or a model folder or file "
      "of a known architecture");
}

}  // namespace

std::string graph_field_of(const Recipe& recipe) {
  std::string found;
  if (recipe.activations) found = "activations: " + recipe.activations->to_string();
  if (recipe.inputs && *recipe.inputs) found = "inputs: " + to_string(*recipe.inputs);
  if (!recipe.stages.empty()) found = "the stage " + to_string(recipe.stages[0]);
  if (recipe.bias_bits > 0) found = "biases: int" + std::to_string(recipe.bias_bits);
  for (const Rule& rule : recipe.rules) {
    if (!rule.is_for_graphs()) continue;
    found = "a rule for operators or activations" + (rule.origin.empty() ? "" : " (" + rule.origin + ")");
  }
  return found;
}

std::vector<PlannedTensor> plan_tensors(const std::vector<TensorEntry>& tensors, const nlohmann::json* config,
                                        const Recipe& recipe) {
  refuse_training_fields(recipe);
  refuse_graph_fields(recipe);
  return CheckpointPlanner(tensors, config, recipe).plan();
}

std::vector<PlannedTensor> plan_checkpoint(const Checkpoint& checkpoint, const Recipe& recipe) {
  return plan_tensors(checkpoint.tensors(), checkpoint.config(), recipe);
}

}  // namespace crumb
