#include "quant/checkpoint/checkpoint_plan.h"

#include "base/files/text.h"
#include "quant/codes/code_layout.h"
#include "quant/misfits.h"
#include "quant/recipe/rule_reach.h"

namespace crumb {
namespace {

Rule::Role role_of(TensorRole role) {
  return role == TensorRole::kWeight      ? Rule::Role::kWeight
         : role == TensorRole::kEmbedding ? Rule::Role::kEmbedding
                                          : Rule::Role::kAny;
}

void assign(PlannedTensor& planned, const SpecOrKeep& spec, const std::string& kept_because) {
  planned.spec = spec;
  planned.kept_because = spec ? "" : kept_because;
}

void follow_rules(const std::vector<Rule>& rules, std::vector<PlannedTensor>& plan) {
  RuleSubjects subjects;
  for (const PlannedTensor& planned : plan)
    subjects.tensors.push_back({.name = planned.entry->name,
                                .role = role_of(planned.role),
                                .is_floating = is_floating(planned.entry->dtype)});
  for_each_reached(rules, subjects, {.tensor = [&](const RuleReached& by, size_t index) {
                     PlannedTensor& planned = plan[index];
                     if (by.rule.weights && !subjects.tensors[index].is_floating) {
                       planned.kept_because = "not floating point (" +
                                              std::string(dtype_name(planned.entry->dtype)) + "), though " +
                                              by.who + " names it";
                       return false;
                     }
                     assign(planned, by.rule.weights, "excluded by " + by.who);
                     return true;
                   }});
}

void check_shapes(const std::vector<PlannedTensor>& plan) {
  std::vector<std::string> misfits;
  for (const PlannedTensor& planned : plan) {
    if (!planned.spec) continue;
    if (const auto misfit =
            planned.spec->misfit(planned.entry->shape, planned.stack_axes, planned.inputs_first))
      misfits.push_back(quote_text(planned.entry->name) + ": " + *misfit);
  }
  refuse_misfits(misfits);
}

/// Refuses what a recipe says of operators and edges, which tensors alone do not have.
void refuse_graph_fields(const Recipe& recipe) {
  const std::string found = graph_field_of(recipe);
  if (found.empty()) return;
  throw usage_error(
      "the recipe has " + found +
      ", and tensors alone have no operators; expected a graph (.onnx) or a model folder or file "
      "of a known architecture");
}

}  // namespace

TensorClass class_of(const TensorEntry& entry, const nlohmann::json* config) {
  TensorClass known = classify_tensor(entry.name, entry.dtype, entry.shape, config);
  if (known.stack_axes == 0) return known;
  const auto matrix = matrix_shape(std::span(entry.shape).subspan(known.stack_axes));
  if (!matrix.ok() || matrix.value().size() * dtype_bits(entry.dtype) % 8 != 0) {
    known.stack_axes = 0;
    known.inputs_first = false;
  }
  return known;
}

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
  std::vector<PlannedTensor> plan;
  for (const TensorEntry& entry : tensors) {
    TensorClass known = class_of(entry, config);
    plan.push_back({&entry, std::nullopt, std::move(known.kept_because), known.role, known.stack_axes,
                    known.inputs_first});
    if (known.role == TensorRole::kWeight)
      assign(plan.back(), recipe.weights, "the recipe says weights: keep");
    if (known.role == TensorRole::kEmbedding)
      assign(plan.back(), recipe.embeddings, "the recipe says embeddings: keep");
  }
  follow_rules(recipe.rules, plan);
  check_shapes(plan);
  for (PlannedTensor& planned : plan) {
    if (planned.spec && planned.role == TensorRole::kWeight && !planned.inputs_first &&
        fits_tiles(planned.entry->shape, planned.stack_axes))
      planned.codes = recipe.layout;
  }
  return plan;
}

std::vector<PlannedTensor> plan_checkpoint(const Checkpoint& checkpoint, const Recipe& recipe) {
  return plan_tensors(checkpoint.tensors(), checkpoint.config(), recipe);
}

}  // namespace crumb
