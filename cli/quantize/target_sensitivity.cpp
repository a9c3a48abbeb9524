#include "cli/quantize/target_sensitivity.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/files/text.h"
#include "cli/output.h"
#include "graph/quantize/apply.h"
#include "jobs/samples/calibration_samples.h"
#include "models/checkpoint_graph.h"
#include "models/decoder.h"
#include "models/encoder_inputs.h"
#include "ptq/precision/sensitivity.h"
#include "quant/tensor_source.h"
#include "runtime/engine.h"

namespace crumb::cli {
namespace {

Recipe of_all_weights() {
  Recipe recipe;
  recipe.weights = recipe.embeddings = QuantSpec::parse("int8:tensor");
  return recipe;
}

/// Replaces the tensor's own loss by that of its layer's outputs.
void weigh_by_outputs(const ptq::OutputErrors& errors, const std::string& tensor,
                      std::vector<MeasuredFormat>& formats) {
  const auto layer = errors.find(tensor);
  if (layer == errors.end()) return;
  for (MeasuredFormat& format : formats)
    if (const auto found = layer->second.find(format.spec.to_string()); found != layer->second.end())
      format.loss = found->second;
}

}  // namespace

std::size_t probes_of(bool is_text) { return is_text ? 1 : 16; }

ptq::Distance distance_for(const graph::Graph& graph) {
  const bool predicts = !models::is_encoder(graph) && !models::layer_outputs(graph).empty();
  return predicts ? ptq::prediction_distance : ptq::relative_distance;
}

Weigh weigh_by_sensitivity(const std::string& sensitivity, const std::string& input, const GraphFlags& flags,
                           const std::vector<QuantSpec>& formats, int threads) {
  if (sensitivity == "error") return {};
  if (flags.data.empty())
    throw usage_error("--sensitivity " + sensitivity + " is measured on samples: give --data");
  const TensorSource source = TensorSource::open(input);
  const graph::Graph graph = models::graph_of_checkpoint(source, quote_text(input)).graph;
  const runtime::Engine engine(threads);
  const Recipe recipe = of_all_weights();
  ptq::Setting setting{.graph = graph::prepare(graph, recipe, &engine), .plan = {}, .threads = threads};
  setting.plan = graph::plan_quantizers(setting.graph, recipe);
  const jobs::CalibrationSamples samples(flags.data, flags.tokens, &source, graph, setting.graph, terminal(),
                                         flags.batch_axes, flags.pairs);
  setting.engine = &engine;
  setting.samples = samples.batches();
  setting.batch_axes = samples.batch_axes();
  std::optional<Progress> progress;
  std::string what = "measuring layers";
  setting.progress = [&](std::size_t done, std::size_t all) {
    if (!progress) progress.emplace(what, "tensors", all, 0);
    progress->update(done, 0);
  };
  const auto errors = std::make_shared<ptq::OutputErrors>(ptq::output_errors(setting, formats));
  if (sensitivity == "hessian")
    return [errors](const std::string& tensor, std::vector<MeasuredFormat>& of) {
      weigh_by_outputs(*errors, tensor, of);
    };
  progress.reset();
  what = "measuring predictions";
  const QuantSpec probe = ptq::probe_of(formats);
  const ptq::FloatResults floats(setting, distance_for(graph), probes_of(samples.is_text()));
  const auto probed = std::make_shared<std::map<std::string, double>>(ptq::distances(setting, probe, floats));
  ptq::Proportion proportion;  // over all layers that were probed
  for (const auto& [tensor, by_spec] : *errors) {
    const auto found = probed->find(tensor);
    if (found == probed->end()) continue;
    proportion.add(found->second, by_spec.at(probe.to_string()));
  }
  return [=](const std::string& tensor, std::vector<MeasuredFormat>& of) {
    weigh_by_outputs(*errors, tensor, of);
    const auto found = probed->find(tensor);
    const auto at_probe = std::ranges::find(of, probe, &MeasuredFormat::spec);
    const bool is_known = found != probed->end() && at_probe != of.end();
    const double factor = is_known ? proportion.factor(found->second, at_probe->loss) : proportion.usual();
    for (MeasuredFormat& format : of) format.loss *= factor;
  };
}

}  // namespace crumb::cli
