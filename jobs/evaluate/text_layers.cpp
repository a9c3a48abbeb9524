#include "jobs/evaluate/text_layers.h"

#include <algorithm>

#include "base/files/text.h"
#include "graph/onnx/infer_shapes.h"
#include "jobs/evaluate/layers/layer_evaluation.h"
#include "jobs/network_quantization.h"
#include "jobs/samples/calibration_samples.h"
#include "jobs/samples/read_lines.h"
#include "models/encoder_inputs.h"
#include "models/read_graph.h"

namespace crumb::jobs {
namespace {

constexpr std::size_t kUsualWindows = 2;

bool has_pairs(const std::string& path) {
  const std::vector<std::string> lines = read_lines(path);
  return !lines.empty() && lines[0].find('\t') != std::string::npos;
}

/// Says nothing: the evaluation said it already.
class Silent final : public Observer {
 public:
  explicit Silent(const Observer& asked) : asked_(asked) {}
  std::string spelled(std::string_view field) const override { return asked_.spelled(field); }

 private:
  const Observer& asked_;
};

}  // namespace

void measure_text_layers(const EvaluateRequest& request, EvaluateReport& report, Observer& observer) {
  Silent silent(observer);
  Notes notes(silent);
  const NetworkSource source = open_network(request.baseline, "its layers are to be measured", notes);
  const graph::Graph baseline = graph::infer_shapes(source.graph);
  const bool is_encoder = models::is_encoder(baseline);
  const CalibrationSamples samples(request.data, request.tokens, source.tensors.get(), baseline, baseline,
                                   silent, {}, is_encoder && has_pairs(request.data[0]));
  const graph::Batches batches = samples.batches();
  for (std::size_t i = 0; i < report.models.size() && !report.interrupted; ++i) {
    const graph::Graph model = graph::infer_shapes(models::open_graph(request.models[i]));
    report.models[i].layers = evaluate_layers(
        {.path = request.models[i],
         .model = model,
         .baseline = baseline,
         .batches = batches,
         .axes = {},
         .model_axes = {},
         .most = request.layer_samples.value_or(is_encoder ? kUsualLayerSamples : kUsualWindows),
         .prepare = prepare_on(request.engine, request.threads),
         .threads = request.threads},
        report.interrupted, observer);
  }
}

}  // namespace crumb::jobs
