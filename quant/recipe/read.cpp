// Reads YAML into a Recipe, driven by the table of fields.
#include <algorithm>
#include <map>
#include <type_traits>

#include "base/files/mapped_file.h"
#include "base/files/text.h"
#include "base/text/nearest_name.h"
#include "quant/recipe/fields.h"
#include "quant/recipe/recipe.h"
#include "quant/recipe/yaml_tree.h"

namespace crumb {
namespace {

class Reader {
 public:
  explicit Reader(const std::string& name) : name_(name) {}

  Recipe read(const YamlNode& root) {
    if (root.kind == YamlNode::Kind::kNull) {
      throw usage_error(quote_text(name_) +
                        ": the recipe is empty, expected at least 'weights', as in weights: int4:group=128");
    }
    Recipe recipe;
    (void)section(root, "recipe", recipe);
    return recipe;
  }

 private:
  [[noreturn]] void fail(size_t line, const std::string& message) const {
    throw usage_error(yaml_place(name_, line) + ": " + message);
  }

  /// Reads a map into its owner; returns the line of each key.
  template <class T>
  std::map<std::string_view, size_t> section(const YamlNode& node, const std::string& what, T& owner) {
    if (node.kind != YamlNode::Kind::kMap) {
      fail(node.line, what + ": expected a map of keys and values, found " + node.describe());
    }
    std::map<std::string_view, size_t> lines;
    for (size_t i = 0; i < node.keys.size(); ++i) {
      const YamlNode& key = node.keys[i];
      const Field<T>& field = find<T>(key, what);
      const auto [first, added] = lines.try_emplace(field.key, key.line);
      if (!added) {
        fail(key.line, "the key '" + std::string(field.key) + "' of the " + what +
                           " is given twice, first in line " + std::to_string(first->second));
      }
      read_field(field, key.line, node.items[i], owner);
    }
    for (const Field<T>& field : fields_of<T>()) {
      if (!field.required || lines.contains(field.key)) continue;
      fail(node.line, "the " + what + " has no '" + std::string(field.key) + "'; expected " +
                          std::string(field.key) + ": " + std::string(field.type) + ", as in " +
                          std::string(field.key) + ": " + std::string(field.example));
    }
    return lines;
  }

  template <class T>
  const Field<T>& find(const YamlNode& key, const std::string& what) const {
    std::vector<std::string_view> known;
    for (const Field<T>& field : fields_of<T>()) {
      known.push_back(field.key);
      if (field.key == key.text) return field;
    }
    if constexpr (std::is_same_v<T, Rule>) {
      for (const Field<Rule::Match>& field : fields_of<Rule::Match>()) {
        if (field.key != key.text) continue;
        fail(key.line, "unknown key '" + key.text + "' of the rule; it belongs to match, as in match: {" +
                           key.text + ": " + std::string(field.example) + "}");
      }
    }
    fail(key.line, "unknown key " + quote_text(key.text) + " of the " + what + ", did you mean '" +
                       nearest_name(key.text, known) + "'?");
  }

  template <class T>
  void read_field(const Field<T>& field, size_t line, const YamlNode& value, T& owner) {
    const std::string key(field.key);
    if (field.kind == FieldKind::kMatch) {
      if constexpr (std::is_same_v<T, Rule>) read_match(value, owner.match);
      return;
    }
    if (field.kind == FieldKind::kRules) {
      if constexpr (std::is_same_v<T, Recipe>) read_rules(value, owner.rules);
      return;
    }
    if (field.kind == FieldKind::kGoal && value.kind == YamlNode::Kind::kMap) {
      return read_goal<AccumulatorGoal>(field, value, owner);
    }
    if (field.kind == FieldKind::kPrune && value.kind == YamlNode::Kind::kMap) {
      return read_goal<PruneGoal>(field, value, owner);
    }
    if (field.kind == FieldKind::kBitBudget && value.kind == YamlNode::Kind::kMap) {
      return read_goal<BitBudget>(field, value, owner);
    }
    const bool stages = field.kind == FieldKind::kStages;
    const bool list = (stages || field.kind == FieldKind::kList) && value.kind == YamlNode::Kind::kList;
    std::vector<std::string> values;
    for (const YamlNode& item : list ? std::span(value.items) : std::span(&value, 1)) {
      const std::string text = stages && item.kind == YamlNode::Kind::kMap ? stage_text(item) : item.text;
      if (item.kind != YamlNode::Kind::kScalar && text.empty()) {
        fail(item.line, key + ": expected " + std::string(field.type) + ", found " + item.describe());
      }
      try {
        field.set(owner, {text});  // one by one: an error belongs to the item's line
      } catch (const Error& error) {
        fail(item.line, key + ": " + error.what());
      }
      values.push_back(text);
    }
    if (values.empty()) fail(line, key + ": expected " + std::string(field.type) + ", found an empty list");
    if (values.size() > 1) field.set(owner, values);
  }

  /// Returns "NAME:OPTION=VALUE:..." for {NAME: {OPTION: VALUE, ...}}.
  std::string stage_text(const YamlNode& node) const {
    if (node.keys.size() != 1)
      fail(node.line,
           "stages: expected a stage's name and its options, as in {end_to_end: {steps: 400}}, found " +
               std::to_string(node.keys.size()) + " keys");
    std::string text = node.keys[0].text;
    const YamlNode& options = node.items[0];
    const bool is_bare = options.kind == YamlNode::Kind::kScalar && options.text.empty();
    if (options.kind != YamlNode::Kind::kMap && !is_bare)
      fail(options.line,
           "stages: expected the options of " + quote_text(text) + ", a map, found " + options.describe());
    for (std::size_t i = 0; i < options.keys.size(); ++i) {
      if (options.items[i].kind != YamlNode::Kind::kScalar)
        fail(options.items[i].line, "stages: expected a value of " + quote_text(options.keys[i].text) +
                                        ", found " + options.items[i].describe());
      for (const std::string& word : {options.keys[i].text, options.items[i].text})
        if (word.find_first_of(":=") != std::string::npos)
          fail(options.items[i].line, "stages: expected an option and its value, found " + quote_text(word));
      text += ":" + options.keys[i].text + "=" + options.items[i].text;
    }
    return text;
  }

  template <class Goal, class T>
  void read_goal(const Field<T>& field, const YamlNode& value, T& owner) {
    const std::string key(field.key);
    Goal goal;
    (void)section(value, key, goal);
    try {
      field.set(owner, {to_string(std::optional(goal))});
    } catch (const Error& error) {  // fields that contradict each other
      fail(value.line, key + ": " + error.what());
    }
  }

  void read_match(const YamlNode& node, Rule::Match& match) {
    if (section(node, "match", match).empty()) {
      fail(node.line, "match: expected a name, a role or an operator, found none of them");
    }
  }

  void read_rules(const YamlNode& node, std::vector<Rule>& rules) {
    if (node.kind != YamlNode::Kind::kList) {
      fail(node.line, "rules: expected a list of rules, found " + node.describe());
    }
    for (const YamlNode& item : node.items) {
      Rule rule;
      const auto lines = section(item, "rule", rule);
      check_rule(item.line, lines);
      rule.leaves_weights = !lines.contains("weights") && !lines.contains("skip");
      rule.origin = yaml_place(name_, item.line);
      rules.push_back(std::move(rule));
    }
  }

  void check_rule(size_t line, const std::map<std::string_view, size_t>& lines) const {
    const bool skips = lines.contains("skip");
    for (const char* key : {"weights", "activations", "accumulator", "scales", "prune", "learned_bits"}) {
      const std::string word(key);
      if (skips && lines.contains(key)) {
        fail(line, "the rule has both '" + word + "' and 'skip'; expected one of them");
      }
    }
    const auto given = [&](std::string_view key) { return lines.contains(key); };
    if (!skips && !given("weights") && !given("activations") && !given("accumulator") && !given("scales") &&
        !given("prune") && !given("learned_bits")) {
      fail(line,
           "the rule has neither 'weights' nor 'activations', 'accumulator', 'scales', 'prune', "
           "'learned_bits' nor 'skip: true'");
    }
  }

  const std::string& name_;
};

}  // namespace

Recipe parse_recipe(std::string_view text, const std::string& name) {
  return Reader(name).read(parse_yaml(text, name, Recipe::kMaxBytes));
}

Recipe Recipe::load(const std::filesystem::path& path) {
  const Result<std::string> text = read_text_file(path, kMaxBytes);
  if (!text.ok()) throw usage_error("the recipe cannot be read: " + text.failure().message);
  return parse_recipe(text.value(), path.string());
}

}  // namespace crumb
