#include "jobs/merged_recipe.h"

#include <utility>
#include <vector>

#include "quant/checkpoint/run_plan.h"

namespace crumb::jobs {
namespace {

void change_recipe(std::map<std::string, std::string>& files, const auto& change) {
  std::string& text = files[std::string(kRecipePath)];
  Recipe recipe = text.empty() ? Recipe() : parse_recipe(text, std::string(kRecipePath));
  change(recipe);
  text = to_yaml(recipe);
}

}  // namespace

Recipe recipe_of_codes(const graph::Graph& graph) {
  std::map<std::string, std::vector<std::string>> by_spec;
  for (const auto& [name, constant] : graph.quantized) by_spec[constant.tensor->spec].push_back(name);
  Recipe recipe;
  recipe.embeddings.reset();
  for (const auto& [spec, names] : by_spec)
    recipe.rules.push_back(rule_for_tensors(names, QuantSpec::parse(spec)));
  return recipe;
}

void name_codes(std::map<std::string, std::string>& files, const graph::Graph& graph) {
  change_recipe(files, [&](Recipe& recipe) {
    Recipe codes = recipe_of_codes(graph);
    recipe.weights = codes.weights;
    recipe.embeddings = codes.embeddings;
    std::erase_if(recipe.rules, [](const crumb::Rule& rule) { return !rule.leaves_weights; });
    recipe.rules.insert(recipe.rules.end(), codes.rules.begin(), codes.rules.end());
  });
}

void add_stage(std::map<std::string, std::string>& files, Stage stage) {
  change_recipe(files, [&](Recipe& recipe) { recipe.stages.push_back(std::move(stage)); });
}

}  // namespace crumb::jobs
