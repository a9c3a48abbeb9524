#include "ptq/precision/fitting_specs.h"

#include <algorithm>
#include <cstdint>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "graph/quantize/rules.h"
#include "graph/quantized_constant.h"
#include "graph/strided_index.h"
#include "quant/quantized_tensor.h"

namespace crumb::ptq {
namespace {

constexpr double kFloatBits = 32;

double stored_bits(const QuantSpec& spec, const graph::Tensor& tensor, graph::MatrixAxes axes) {
  const auto layout = graph::code_layout_of(spec, tensor.shape(), axes);
  if (!layout.ok() || layout.value().matrix.size() == 0) return 0;
  return 8 * static_cast<double>(layout.value().total_bytes()) /
         static_cast<double>(layout.value().matrix.size());
}

std::string listed(const std::vector<std::string>& names) {
  return count_text(names.size(), "weight") + (names.size() > 1 ? ", the first " : " ") +
         quote_text(names.front());
}

}  // namespace

std::vector<std::string> pad_groups(const graph::Graph& graph, Recipe& recipe,
                                    const std::set<std::string>& left_out) {
  if (!recipe.weights || recipe.weights->pad || recipe.weights->block_cols == 0) return {};
  const QuantSpec whole = *recipe.weights;
  recipe.weights->pad = true;
  std::vector<std::string> names;
  const graph::RuledGraph ruled = graph::apply_rules(graph, graph::Constants(graph), recipe, left_out);
  for (const auto& [name, constant] : ruled.constants) {
    if (constant.spec != recipe.weights) continue;
    if (graph::misfit_of(whole, graph.initializers.at(name).shape(), constant.axes)) names.push_back(name);
  }
  if (names.empty()) {
    recipe.weights = whole;
    return {};
  }
  return {whole.to_string() + " does not divide the columns of " + listed(names) +
          ": the last group of their rows is smaller (" + recipe.weights->to_string() + ")"};
}

std::vector<std::string> share_costly_scales(const graph::Graph& graph, graph::QuantPlan& plan) {
  std::vector<std::string> shared, kept;
  for (graph::PlannedConstant& constant : plan.constants) {
    if (!constant.is_weight || !constant.spec || constant.spec->granularity != Granularity::kChannel)
      continue;
    const graph::Tensor& tensor = graph.initializers.at(constant.value);
    if (stored_bits(*constant.spec, tensor, constant.axes) < kFloatBits) continue;
    QuantSpec one = *constant.spec;
    one.granularity = Granularity::kTensor;
    if (stored_bits(one, tensor, constant.axes) < kFloatBits) {
      constant.spec = one;
      shared.push_back(constant.value);
    } else {
      constant.spec.reset();
      constant.kept_because = "with its scale it would take more than it has";
      kept.push_back(constant.value);
      std::erase_if(plan.biases,
                    [&](const graph::PlannedBias& bias) { return bias.weight == constant.value; });
    }
  }
  std::vector<std::string> notes;
  if (!shared.empty())
    notes.push_back("one scale for all channels of " + listed(shared) +
                    ": one for each would take as much as the weights do");
  if (!kept.empty()) notes.push_back(listed(kept) + " stays: with its scale it would take more than it has");
  return notes;
}

}  // namespace crumb::ptq
