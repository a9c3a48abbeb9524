#include "ptq/rounding/rounding_stage.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/files/counted.h"
#include "base/files/text.h"
#include "graph/quantize/operators.h"
#include "ptq/rounding/layer_rounding.h"
#include "ptq/rounding/station_rounding.h"
#include "ptq/rounding/unrounded_layers.h"

namespace crumb::ptq {
namespace {

/// Returns the range of a layer's integer inputs, whatever calibration finds: that of the quantizer before
/// it, possibly in front of nodes that only move elements; with a zero point, of all differences.
InputRange input_range(const Setting& setting, const SampledLayer& layer) {
  const graph::Links links(setting.graph);
  std::string value = layer.input;
  const graph::Node* taker = &setting.graph.nodes[layer.node];
  while (true) {
    const auto edge = std::ranges::find_if(setting.plan.edges, [&](const graph::PlannedEdge& one) {
      return one.value == value && one.is_taken_by(*taker);
    });
    if (edge != setting.plan.edges.end() && edge->spec.number->grid == Grid::kInteger && !edge->truncation) {
      const std::int64_t least = edge->spec.number->least_code(edge->spec.range),
                         greatest = edge->spec.number->greatest_code(edge->spec.range);
      if (edge->spec.zero == ZeroPoint::kNone) return {.least = least, .greatest = greatest};
      return {.least = least - greatest, .greatest = greatest - least};
    }
    const std::size_t producer = links.producer(value);
    if (edge != setting.plan.edges.end() || producer == graph::Links::kNone ||
        !graph::moves_elements(setting.graph, setting.graph.nodes[producer]))
      throw Error("layer " + quote_text(setting.plan.constants[layer.constant].value) + " takes value " +
                  quote_text(layer.input) +
                  ", which no quantizer of integers makes: a register's bits need activations in integers, "
                  "or exclude it");
    taker = &setting.graph.nodes[producer];
    value = taker->inputs[0];
  }
}

/// Returns 0 if the stage has no such option: no damping of its own, columns in their order, no register.
double value_of(const Stage& stage, std::string_view option) {
  return std::ranges::find(stage.info().options, option, &StageOption::key) == stage.info().options.end()
             ? 0
             : stage.value(option);
}

int register_bits(const Stage& stage) { return static_cast<int>(value_of(stage, "accumulator")); }

std::optional<Register> register_of(const Stage& stage) {
  const int bits = register_bits(stage);
  if (bits == 0) return std::nullopt;
  return Register{.bits = bits, .tile = static_cast<std::size_t>(value_of(stage, "tile"))};
}

constexpr std::string_view kChosen = "by ";

/// Replaces the layers' notes on their choices by one note for all.
void count_choices(StageReport& report, const std::vector<Trial>& trials) {
  std::string text;
  for (const Trial& trial : trials) {
    const std::string end = ": " + std::string(kChosen) + std::string(trial.name);
    const std::size_t count =
        std::erase_if(report.notes, [&](const std::string& note) { return note.ends_with(end); });
    if (count > 0) text += (text.empty() ? "" : ", ") + std::string(trial.name) + " " + std::to_string(count);
  }
  report.notes.insert(report.notes.begin(), "layers that lose least by: " + text);
}

/// Returns the plan without the codes of palettes that a stage found, so that codes in these are chosen.
graph::QuantPlan open_palettes(const Setting& setting) {
  graph::QuantPlan plan = setting.plan;
  for (graph::PlannedConstant& constant : plan.constants)
    if (setting.palettes.contains(constant.value)) constant.rounded.reset();
  return plan;
}

/// Returns the codebook that a stage found for the constant; empty if none did.
std::vector<float> codebook_of(const Setting& setting, const graph::PlannedConstant& constant) {
  if (!setting.palettes.contains(constant.value)) return {};
  const std::vector<std::byte>& bytes = constant.rounded->tensor->codebook;
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// With the option `few`: layers whose second moments take more than the setting's memory keep rounding;
/// returns a note about them. Nobody requested the stage then, and a kernel of a hundred taps would take
/// minutes and gigabytes.
std::string leave_large(const Stage& stage, const Setting& setting, RoundedParts& parts) {
  if (!(value_of(stage, "few") > 0)) return "";
  const auto bytes_of = [](const SampledLayer& layer) {
    return static_cast<std::uint64_t>(layer.groups) * layer.columns * layer.columns * sizeof(double);
  };
  std::uint64_t most = 0;
  std::string names;
  const auto is_large = [&](const SampledLayer& layer) {
    if (bytes_of(layer) <= setting.memory) return false;
    most = std::max(most, bytes_of(layer));
    names += (names.empty() ? "" : ", ") + quote_text(setting.plan.constants[layer.constant].value);
    parts.left.push_back(layer.constant);
    return true;
  };
  std::erase_if(parts.layers, is_large);
  std::erase_if(parts.branched, is_large);
  if (names.empty()) return "";
  return names + " would take second moments of " + std::to_string(most >> 20) +
         " MiB: rounding stays (--memory " + std::to_string((most >> 20) + 1) + "MiB, or --stages " +
         stage.name + ", has them)";
}

}  // namespace

RoundingOptions options_of(const Stage& stage, const Setting& setting) {
  return {.damping = value_of(stage, "damp"),
          .few = value_of(stage, "few"),
          .by_size = value_of(stage, "order") != 0,
          .own_scales = stage.value("scales") != 0,
          .magnitudes = stage.value("magr"),
          .sweeps = static_cast<int>(stage.value("sweeps")),
          .is_lenient = setting.is_lenient,
          .threads = setting.threads};
}

void check_register(const Stage& stage, const Setting&) {
  const int bits = register_bits(stage);
  if (bits == 0 && stage.options.contains("tile"))
    throw usage_error("the stage " + stage.name + ": tile=" + number_text(stage.value("tile")) +
                      " says of how many terms accumulator=BITS is, which is not given");
  if (bits != 0 && (bits < 4 || bits > 62))
    throw usage_error("the stage " + stage.name + ": an accumulator has 4 to 62 bits, found " +
                      std::to_string(bits));
}

StageReport round_layers(const Stage& stage, Setting& setting, CodeWalkOf walk, const SoftRounding& soft) {
  RoundingOptions options = options_of(stage, setting);
  options.walk = walk;
  options.soft = soft;
  return round_layers_by_best(stage, setting, {{.name = stage.name, .options = options}});
}

StageReport round_layers_by_best(const Stage& stage, Setting& setting, const std::vector<Trial>& trials) {
  const std::optional<Register> accumulator = register_of(stage);
  const graph::QuantPlan open = open_palettes(setting);
  RoundedParts parts;
  if (accumulator)
    parts.layers = sampled_layers(setting.graph, open);
  else
    parts = {.layers = open_layers(setting.graph, open),
             .shared = shared_matrices(setting.graph, open),
             .branched = branch_layers(setting.graph, open)};
  const std::string large = leave_large(stage, setting, parts);
  if (parts.layers.empty() && parts.shared.empty() && parts.branched.empty() && parts.left.empty())
    throw Error("the stage " + stage.name + " finds no layer that becomes codes and has none yet" +
                reasons_of_unrounded_layers(setting));
  const std::string others = layers_beside(parts, setting);
  if (accumulator && !others.empty())
    throw Error("the stage " + stage.name + " would keep no register of " + others +
                ": exclude them, or leave out accumulator");
  std::map<std::size_t, Budget> budgets;  // by node
  if (accumulator)
    for (const SampledLayer& layer : parts.layers)
      budgets[layer.node] = {.input = input_range(setting, layer), .accumulator = *accumulator};
  StageReport report =
      round_stations(stage, setting, parts,
                     {.float_inputs = stage.value("float_inputs") != 0, .even = stage.value("even") != 0},
                     [&](const SampledLayer& layer, WeightRows rows, LayerMoments inputs) {
                       const graph::PlannedConstant& constant = setting.plan.constants[layer.constant];
                       const auto found = budgets.find(layer.node);
                       const std::optional<Budget> budget =
                           found == budgets.end() ? std::nullopt : std::optional(found->second);
                       const auto round = [&](const Trial& trial, WeightRows own, LayerMoments sums) {
                         RoundingOptions options = trial.options;
                         options.codebook = codebook_of(setting, constant);
                         return round_layer(*constant.spec, std::move(own), layer, std::move(sums), options,
                                            budget, constant.value);
                       };
                       if (trials.size() == 1) return round(trials[0], std::move(rows), std::move(inputs));
                       std::optional<RoundedLayer> best;
                       for (const Trial& trial : trials) {
                         RoundedLayer made = round(trial, rows, inputs);
                         if (best && !(made.after < best->after)) continue;
                         made.notes.push_back(std::string(kChosen) + std::string(trial.name));
                         best = std::move(made);
                       }
                       return std::move(*best);
                     });
  for (const std::vector<SampledLayer>* layers : {&parts.layers, &parts.branched})
    for (const SampledLayer& layer : *layers)
      setting.palettes.erase(setting.plan.constants[layer.constant].value);
  for (const SharedMatrix& matrix : parts.shared)
    setting.palettes.erase(setting.plan.constants[matrix.constant()].value);
  if (!others.empty()) report.notes.push_back("what keeps rounding: " + others);
  if (!large.empty()) report.notes.push_back(large);
  if (trials.size() > 1) count_choices(report, trials);
  return report;
}

}  // namespace crumb::ptq
