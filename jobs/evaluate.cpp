#include "jobs/evaluate.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/inputs.h"
#include "base/files/text.h"
#include "jobs/evaluate/network_evaluation.h"
#include "jobs/evaluate/text_evaluation.h"
#include "jobs/evaluate/text_layers.h"
#include "jobs/samples/calibration_samples.h"
#include "models/encoder_inputs.h"
#include "models/read_graph.h"

namespace crumb::jobs {

bool EvaluateReport::fails() const {
  return std::ranges::any_of(models, [](const ModelEvaluation& model) {
    return std::ranges::any_of(model.conditions, &ConditionResult::holds);
  });
}

EvaluateReport evaluate(const EvaluateRequest& request, Observer& observer) {
  const InputWatch watch;
  if (request.models.empty()) throw usage_error("models names no model");
  if (request.baseline.empty()) throw usage_error("give " + observer.spelled("baseline"));
  const auto texts = std::ranges::count_if(request.data, names_text);
  const bool is_of_texts = request.task == "lm" || request.task == "embed";
  if (texts == 0 && is_of_texts)
    throw usage_error("the task " + request.task + " takes a text as " + observer.spelled("data"));
  if (texts == 0) return NetworkEvaluation(request, observer).run();
  if (!request.task.empty() && !is_of_texts)
    throw usage_error("the task " + request.task + " takes arrays as " + observer.spelled("data") + ", and " +
                      quote_text(request.data[0]) + " is a text");
  const bool embeds = request.task.empty() ? models::is_encoder(models::open_graph(request.baseline))
                                           : request.task == "embed";
  EvaluateReport report =
      embeds ? evaluate_sentences(request, observer) : evaluate_language(request, observer);
  if (request.layers) measure_text_layers(request, report, observer);
  return report;
}

}  // namespace crumb::jobs
