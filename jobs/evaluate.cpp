#include "jobs/evaluate.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/inputs.h"
#include "base/files/text.h"
#include "jobs/engines/torchscript_file.h"
#include "jobs/evaluate/network_evaluation.h"
#include "jobs/evaluate/text_evaluation.h"
#include "jobs/evaluate/text_layers.h"
#include "jobs/report/evaluate_page.h"
#include "jobs/report/report_output.h"
#include "jobs/samples/calibration_samples.h"
#include "models/checkpoint_graph.h"
#include "models/encoder_inputs.h"
#include "models/read_graph.h"

namespace crumb::jobs {

namespace {

void check_no_model_options(const EvaluateRequest& request, const Observer& observer) {
  const ModelOptions& options = request.model_options;
  const std::string field = !options.kv_cache.empty()   ? "kv_cache"
                            : !options.adapters.empty() ? "adapters"
                            : options.without_adapters  ? "without_adapters"
                                                        : "";
  if (!field.empty()) throw usage_error(observer.spelled(field) + " is for language models (the task lm)");
}

/// Whether texts are for a sentence encoder, else for a language model. Throws usage Error where the baseline
/// is neither.
bool embeds_texts(const EvaluateRequest& request, const Observer& observer) {
  if (!request.task.empty()) return request.task == "embed";
  const bool is_archive = is_torchscript(request.baseline);
  const graph::Graph graph = is_archive ? graph::Graph() : models::open_graph(request.baseline);
  if (is_archive || !models::is_checkpoint(request.baseline))
    throw usage_error(observer.spelled("data") + " " + quote_text(request.data[0]) +
                      " is a text, which is for language models and sentence encoders, and " +
                      quote_text(request.baseline) + " is a graph: expected arrays (.npy)");
  return models::is_encoder(graph);
}

}  // namespace

bool EvaluateReport::fails() const {
  return std::ranges::any_of(models, [](const ModelEvaluation& model) {
    return std::ranges::any_of(model.conditions, &ConditionResult::holds);
  });
}

namespace {

EvaluateReport evaluated(const EvaluateRequest& request, Observer& observer) {
  if (request.models.empty()) throw usage_error("models names no model");
  if (request.baseline.empty()) throw usage_error("give " + observer.spelled("baseline"));
  const auto texts = std::ranges::count_if(request.data, names_text);
  const bool is_of_texts = request.task == "lm" || request.task == "embed";
  if (texts == 0 && is_of_texts)
    throw usage_error("the task " + request.task + " takes a text as " + observer.spelled("data"));
  if (texts == 0) {
    check_no_model_options(request, observer);
    if (!request.device.empty() && request.device != "cpu" && request.engine == "runtime")
      throw usage_error(observer.spelled("device") + " " + request.device + " is for the engine libtorch");
    return NetworkEvaluation(request, observer).run();
  }
  if (!request.task.empty() && !is_of_texts)
    throw usage_error("the task " + request.task + " takes arrays as " + observer.spelled("data") + ", and " +
                      quote_text(request.data[0]) + " is a text");
  for (const std::string& data : request.data) refuse_foreign_samples(data, observer.spelled("data"));
  if (!request.device.empty() && request.device != "cpu")
    throw usage_error(observer.spelled("device") + " " + request.device +
                      " is for networks, and texts run on the CPU");
  const bool embeds = embeds_texts(request, observer);
  if (embeds) check_no_model_options(request, observer);
  EvaluateReport report =
      embeds ? evaluate_sentences(request, observer) : evaluate_language(request, observer);
  if (request.layers) measure_text_layers(request, report, observer);
  return report;
}

}  // namespace

EvaluateReport evaluate(const EvaluateRequest& request, Observer& observer) {
  const InputWatch watch;
  claim_report(request.report, {}, observer);
  EvaluateReport report = evaluated(request, observer);
  if (!request.report.path.empty()) write_report(request.report, page_of(request, report));
  return report;
}

}  // namespace crumb::jobs
