#include "cli/quantize/target_network.h"

#include <algorithm>
#include <iostream>
#include <optional>

#include "base/error.h"
#include "base/files/counted.h"
#include "base/files/text.h"
#include "cli/flags/shape_flags.h"
#include "cli/notes.h"
#include "cli/quantize/target_sensitivity.h"
#include "graph/quantize/apply.h"
#include "jobs/network_quantization.h"
#include "jobs/samples/calibration_samples.h"
#include "runtime/engine.h"

namespace crumb::cli {
namespace {

using graph::Graph;

ptq::Sensitivity sensitivity_of(const std::string& name) {
  if (name == "hessian") return ptq::Sensitivity::kHessian;
  return name == "kl" ? ptq::Sensitivity::kKl : ptq::Sensitivity::kError;
}

void refuse_without_data(const NetworkTarget& request) {
  if (!request.graph.data.empty()) return;
  if (request.sensitivity != "error")
    throw usage_error("--sensitivity " + request.sensitivity + " is measured on samples: give --data");
  if (!request.requested.activations.empty())
    throw usage_error("--activation-formats: what layers take in is measured on samples: give --data");
}

/// Refuses open sizes other than the first axis, which is of samples; one sample is counted.
void refuse_open_sizes(const Graph& graph, const NetworkTarget& request) {
  if (request.requested.target.bops == 0 || !request.graph.shapes.empty()) return;
  for (const std::string& input : graph.inputs) {
    const graph::Value* value = graph.find(input);
    if (!value || !value->shape) continue;
    const graph::Shape& shape = *value->shape;
    const auto is_open = [](const graph::Dim& dim) { return !dim.known(); };
    if (!shape.empty() && std::any_of(shape.begin() + 1, shape.end(), is_open))
      throw usage_error("bit operations depend on sizes that the network leaves open: its input " +
                        quote_text(input) + " is " + graph::text_of(shape) +
                        "; give --shape NAME=SIZES, as in --shape " + input +
                        "=1x128 (what stays open is 1)");
  }
}

Recipe recipe_with(const RecipeFlags& flags, const QuantSpec& weights, const QuantSpec& embeddings) {
  Recipe recipe;
  if (!flags.base.empty()) recipe = preset_recipe(flags.base);
  recipe.weights = weights;
  recipe.embeddings = embeddings;
  apply_flags(flags, recipe);
  return recipe;
}

std::string amount_text(const Target& target, double amount) {
  if (target.bops > 0) return fixed(amount, 0) + " bit operations";
  if (target.accumulator_bits > 0) return fixed(amount, 0) + " bits in the widest register";
  return fixed(amount, 4) + " bits per weight";
}

}  // namespace

ptq::MixedChoice choose_for_network(const NetworkTarget& request) {
  refuse_without_data(request);
  RecipeFlags flags = request.recipe;
  use_profile(request.graph.profile, flags);
  ptq::MixedRequest requested{.target = request.requested.target,
                              .formats = {.weights = request.requested.formats,
                                          .activations = request.requested.activations,
                                          .tables = request.requested.target.bits_per_weight > 0,
                                          .recipe = {},
                                          .plan = {}},
                              .losses = {.sensitivity = sensitivity_of(request.sensitivity), .distance = {}},
                              .shapes = read_shapes(request.graph.shapes)};
  requested.formats.recipe = [flags](const QuantSpec& weights, const QuantSpec& embeddings) {
    return recipe_with(flags, weights, embeddings);
  };
  const Recipe usual = requested.formats.recipe(request.requested.formats[0], request.requested.formats[0]);
  if (usual.average_pools == Recipe::AveragePools::kTruncate && !request.requested.activations.empty())
    throw usage_error(
        "--activation-formats: average pools that truncate give formats of their own; leave --average-pools");
  if (request.requested.target.accumulator_bits > 0 && request.requested.activations.empty() &&
      !jobs::quantizes_activations(usual))
    throw usage_error(
        "a target of accumulators: registers are of integers or minifloats, and what layers take in stays "
        "float; give --activation-formats SPEC,... or --activations SPEC, as in uint8:tensor");
  Notes notes;
  const jobs::NetworkSource source =
      jobs::open_network(request.input, "a target of bit operations or accumulators is given", notes,
                         {.inputs = request.graph.data,
                          .inputs_field = "--data",
                          .shapes = read_shapes(request.graph.shapes),
                          .arguments = request.graph.arguments,
                          .batch_axes = request.graph.batch_axes});
  refuse_open_sizes(source.graph, request);

  const runtime::Engine runtime(request.threads);
  const graph::Engine* engine = nullptr;
  if (!request.graph.data.empty()) engine = &jobs::engine_for(source.graph, runtime, request.graph.device);
  ptq::Setting setting{.graph = graph::prepare(source.graph, usual, engine ? engine : &runtime),
                       .plan = {},
                       .threads = request.threads};
  std::optional<jobs::CalibrationSamples> samples;
  if (engine) {
    samples.emplace(request.graph.data, request.graph.tokens, source.tensors.get(), source.graph,
                    setting.graph, terminal(), request.graph.batch_axes, request.graph.pairs);
    setting.engine = engine;
    setting.samples = samples->batches();
    setting.batch_axes = samples->batch_axes();
    requested.losses.probes = probes_of(samples->is_text());
  }
  if (request.memory > 0) setting.memory = request.memory;
  requested.losses.distance = distance_for(source.graph);
  requested.formats.plan.left_out = source.left_out;
  requested.formats.plan.unsigned_after_relu_only = request.graph.profile == "finn";
  std::optional<Progress> progress;
  std::size_t last = 0;
  setting.progress = [&](std::size_t done, std::size_t all) {
    if (!progress || done < last) progress.emplace("measuring", "layers", all, 0);
    progress->update(last = done, 0);
  };
  return ptq::choose_formats(setting, requested);
}

Json assignment_json(const ptq::MixedChoice& choice, const std::string& target) {
  Json json{{"target", target},
            {"used", json_number(choice.used)},
            {"loss", json_number(choice.loss)},
            {"bound", json_number(choice.bound)},
            {"layers", Json::object()}};
  for (const auto& [formats, count] : choice.uses) json["layers"][formats] = count;
  return json;
}

void print_choice(const ptq::MixedChoice& choice, const NetworkTarget& request, const std::string& target) {
  std::size_t layers = 0;
  for (const auto& [formats, count] : choice.uses) layers += count;
  std::cout << "chosen for " << layers << " layers, which lose " << fixed(choice.loss, 6) << " in all of "
            << measured_as(request.sensitivity);
  if (choice.bound < choice.loss) {
    std::cout << " (no choice loses less than " << fixed(choice.bound, 6) << ")\n";
  } else {
    std::cout << " (no choice loses less)\n";
  }
  for (const auto& [formats, count] : choice.uses) std::cout << "  " << count << ": " << formats << "\n";
  std::cout << "within " << target << ": " << amount_text(request.requested.target, choice.used)
            << (choice.best_everywhere ? ", every layer in the formats that lose least" : "") << "\n";
  if (!choice.without_register.empty())
    std::cout << count_text(choice.without_register.size(), "node")
              << (choice.without_register.size() > 1 ? " add up floats and have" : " adds up floats and has")
              << " no register, the first is " << quote_text(choice.without_register[0]) << "\n";
}

}  // namespace crumb::cli
