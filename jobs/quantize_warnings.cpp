#include "jobs/quantize_warnings.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/files/text.h"
#include "base/text/fixed.h"
#include "quant/distortion.h"

namespace crumb::jobs {
namespace {

using graph::PlannedEdge;

constexpr std::size_t kNamed = 3;

double share_cut_off(const QuantizeReport& report, std::size_t edge) {
  if (!report.comparison) return 0;
  return report.comparison->edges[edge].share_saturated();
}

/// Returns a field of the recipe, or another step, that mends the loss.
std::string mending(const QuantizeReport& report, const graph::Graph& graph, std::size_t index,
                    const Observer& observer) {
  const PlannedEdge& edge = report.plan.edges[index];
  if (std::ranges::find(graph.inputs, edge.value) != graph.inputs.end())
    return observer.spelled("inputs") + " keep";
  if (share_cut_off(report, index) > kMuchCutOff && edge.spec.search != Search::kAbsmax) {
    QuantSpec all = edge.spec;
    all.search = Search::kAbsmax;
    return observer.spelled("activations") + " " + all.to_string() + ", whose range is all that samples hold";
  }
  if (edge.wanted_by_names.empty()) return "a rule for the operators that take it, with activations: keep";
  std::string flags;
  for (const std::string& name : edge.wanted_by_names)
    flags += (flags.empty() ? "" : " ") + (observer.spelled("skip") + " " + quote_text(name));
  const bool is_narrow = edge.spec.number->bits < 8;
  return is_narrow ? "8 bits for it (" + observer.spelled("activations") +
                         " uint8:tensor, or the rule that says otherwise), or " + flags
                   : flags;
}

std::string about(const QuantizeReport& report, const graph::Graph& graph, std::size_t index,
                  const Observer& observer) {
  const PlannedEdge& edge = report.plan.edges[index];
  std::string text = quote_text(edge.value) + " (" + edge.spec.to_string() + ", for " + edge.wanted_by + ") ";
  text += edge.cost ? "leaves " + fixed(sqnr_of(*edge.cost), 1) + " dB alone" : "was not measured alone";
  if (const double share = share_cut_off(report, index); share > kMuchCutOff)
    text += " and cuts off " + fixed(100 * share, 1) + " % of its values";
  return text + ": " + mending(report, graph, index, observer);
}

std::vector<std::size_t> worst_edges(const QuantizeReport& report) {
  std::vector<std::size_t> order(report.plan.edges.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) {
    return std::pair(report.plan.edges[i].cost.value_or(-1), share_cut_off(report, i));
  });
  order.resize(std::min(order.size(), kNamed));
  return order;
}

/// Names the worst weights where activations explain less than half of the loss.
std::string worst_weights(const QuantizeReport& report) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < report.tensors.size(); ++i)
    if (report.plan.constants[i].spec) order.push_back(i);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return report.tensors[i].sqnr_db; });
  order.resize(std::min(order.size(), kNamed));
  std::string text;
  for (const std::size_t i : order)
    text += (text.empty() ? "" : "; ") + quote_text(report.plan.constants[i].value) + " has " +
            fixed(report.tensors[i].sqnr_db, 1) + " dB";
  return text;
}

}  // namespace

std::vector<std::string> warnings_of(const QuantizeReport& report, const graph::Graph& graph,
                                     const Observer& observer) {
  std::vector<std::string> warnings;
  if (!report.comparison) return warnings;
  for (const std::string& output : report.comparison->reshaped)
    warnings.push_back("the shape of output " + quote_text(output) +
                       " depends on values, and is another one with quantized values: it is not compared");
  std::string outputs;
  double noise = 0;
  for (const graph::OutputAgreement& output : report.comparison->outputs) {
    if (!output.is_finite() || !(output.distortion.sqnr_db < kPoorOutput)) continue;
    outputs += (outputs.empty() ? "" : ", ") + quote_text(output.output) + " " +
               fixed(output.distortion.sqnr_db, 1) + " dB";
    noise = std::max(noise, std::pow(10, -output.distortion.sqnr_db / 10));
  }
  std::size_t cutting = 0;
  double of_activations = 0;
  for (std::size_t i = 0; i < report.plan.edges.size(); ++i) {
    cutting += share_cut_off(report, i) > kMuchCutOff;
    of_activations += report.plan.edges[i].cost.value_or(0);
  }
  for (std::size_t i = 0; i < report.biases.size(); ++i) {
    const graph::BiasUse& use = report.biases[i];
    if (static_cast<double>(use.saturated) > kMuchCutOff * static_cast<double>(use.values))
      warnings.push_back("the bias " + quote_text(report.plan.biases[i].value) + ": " +
                         std::to_string(use.saturated) + " of " + std::to_string(use.values) +
                         " numbers are cut off at int" + std::to_string(report.plan.biases[i].bits) + ": " +
                         observer.spelled("biases") + " int32");
  }
  if (outputs.empty() && cutting == 0) return warnings;
  std::string text =
      outputs.empty()
          ? std::to_string(cutting) + " quantizers of activations cut off more than 1 % of what they take"
          : "less than " + fixed(kPoorOutput, 0) + " dB are left of " + outputs;
  if (!report.plan.edges.empty()) {
    text += "; what costs most of activations:";
    for (const std::size_t i : worst_edges(report)) text += "\n  " + about(report, graph, i, observer);
  }
  if (!outputs.empty() && of_activations < noise / 2) {
    if (const std::string weights = worst_weights(report); !weights.empty())
      text += "\n  most is lost by weights, of which " + weights + ": more bits for them (" +
              observer.spelled("weights") + ", " + observer.spelled("rule") + " NAME=SPEC)";
  }
  warnings.push_back(text);
  return warnings;
}

}  // namespace crumb::jobs
