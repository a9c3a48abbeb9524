#include "jobs/evaluate_json.h"

#include <cmath>
#include <string>

#include "base/json/numbers.h"
#include "jobs/evaluate_layers_json.h"

namespace crumb::jobs {
namespace {

using Json = nlohmann::ordered_json;

/// null where there is none.
Json number_or_null(double value) { return std::isnan(value) ? Json(nullptr) : json_number(value); }

Json metrics_of(const ModelEvaluation& model) {
  Json json = Json::object();
  for (const EvaluateMetric& metric : model.metrics) {
    const eval::PairedFigures& figures = metric.figures;
    json[std::string(metric.name.name)] = {
        {"baseline", number_or_null(figures.baseline)},
        {"model", number_or_null(figures.model)},
        {"difference", number_or_null(figures.difference)},
        {"interval", {number_or_null(figures.low), number_or_null(figures.high)}},
        {"p", number_or_null(figures.p)}};
  }
  return json;
}

Json outputs_of(const ModelEvaluation& model) {
  Json json = Json::object();
  for (const EvaluateOutput& output : model.outputs) {
    const eval::OutputFigures& figures = output.figures;
    Json one = {
        {"sqnr_db", json_sqnr(figures.sqnr_db)},    {"max_abs_error", json_number(figures.max_abs_error)},
        {"cosine", number_or_null(figures.cosine)}, {"least_cosine", number_or_null(figures.least_cosine)},
        {"not_finite", figures.not_finite},         {"not_finite_baseline", figures.not_finite_baseline}};
    if (figures.rows) {
      one["agreement"] = json_number(figures.rows->agreement);
      one["kl_of"] = figures.rows->are_distributions ? "distributions" : "logits";
      one["kl_mean"] = number_or_null(figures.rows->kl_mean);
      one["kl_median"] = number_or_null(figures.rows->kl_median);
      one["kl_p90"] = number_or_null(figures.rows->kl_p90);
      one["kl_p99"] = number_or_null(figures.rows->kl_p99);
      one["kl_p999"] = number_or_null(figures.rows->kl_p999);
      one["kl_largest"] = number_or_null(figures.rows->kl_largest);
    }
    json[output.name] = std::move(one);
  }
  return json;
}

Json worst_of(const ModelEvaluation& model, const EvaluateReport& report) {
  Json json = Json::array();
  for (const WorstSample& worst : model.worst) {
    Json one = {{"sample", worst.sample}, {report.distance, json_number(worst.distance)}};
    if (worst.baseline && worst.model)
      one[report.first_metric] = {{"baseline", json_number(*worst.baseline)},
                                  {"model", json_number(*worst.model)}};
    if (!worst.label.empty()) {
      one["label"] = worst.label;
      one["baseline"] = worst.baseline_answer;
      one["model"] = worst.answer;
    }
    json.push_back(std::move(one));
  }
  return json;
}

Json model_json(const ModelEvaluation& model, const EvaluateReport& report) {
  Json json = {
      {"metrics", metrics_of(model)}, {"outputs", outputs_of(model)}, {"worst", worst_of(model, report)}};
  if (!model.classes.empty()) {
    json["classes"] = Json::array();
    for (const EvaluateClass& one : model.classes)
      json["classes"].push_back(
          {{"class", one.id},
           {"count", one.count},
           {report.class_figure,
            {{"baseline", json_number(one.baseline)}, {"model", json_number(one.model)}}}});
  }
  if (!model.confusion.empty())
    json["confusion"] = {{"baseline", report.baseline_confusion}, {"model", model.confusion}};
  if (!model.conditions.empty()) {
    json["conditions"] = Json::array();
    for (const ConditionResult& result : model.conditions)
      json["conditions"].push_back({{"condition", result.condition.text},
                                    {"value", number_or_null(result.value)},
                                    {"holds", result.holds}});
  }
  if (model.layers) json.update(json_of(*model.layers));
  return json;
}

}  // namespace

Json json_of(const EvaluateReport& report) {
  Json json = {{"schema", kEvaluateSchema},
               {"task", report.task.empty() ? Json(nullptr) : Json(report.task)},
               {"samples", report.samples},
               {"interrupted", report.interrupted}};
  if (report.models.size() == 1) {
    json.update(model_json(report.models[0], report));
    return json;
  }
  json["models"] = Json::array();
  for (const ModelEvaluation& model : report.models) {
    Json one = {{"model", model.model}};
    one.update(model_json(model, report));
    json["models"].push_back(std::move(one));
  }
  return json;
}

}  // namespace crumb::jobs
