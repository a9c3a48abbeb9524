#include "jobs/evaluate/conditions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/files/text.h"
#include "base/text/nearest_name.h"
#include "base/text/number.h"

namespace crumb::jobs {
namespace {

constexpr std::string_view kDrop = "_drop";
constexpr std::string_view kMetricNames[] = {
    "top1", "top5", "balanced_accuracy", "pixel_accuracy", "mean_iou", "rmse", "mae", "r2", "psnr", "ssim",
    "cer",  "wer",  "spearman",          "perplexity"};

struct OutputName {
  std::string_view name;
  bool of_rows;
  double (*figure)(const eval::OutputFigures& figures);
};
constexpr OutputName kOutputNames[] = {
    {"sqnr_db", false, [](const eval::OutputFigures& of) { return of.sqnr_db; }},
    {"cosine", false, [](const eval::OutputFigures& of) { return of.cosine; }},
    {"least_cosine", false, [](const eval::OutputFigures& of) { return of.least_cosine; }},
    {"max_abs_error", false, [](const eval::OutputFigures& of) { return of.max_abs_error; }},
    {"agreement", true, [](const eval::OutputFigures& of) { return of.rows->agreement; }},
    {"kl_mean", true, [](const eval::OutputFigures& of) { return of.rows->kl_mean; }},
    {"kl_median", true, [](const eval::OutputFigures& of) { return of.rows->kl_median; }},
    {"kl_p90", true, [](const eval::OutputFigures& of) { return of.rows->kl_p90; }},
    {"kl_p99", true, [](const eval::OutputFigures& of) { return of.rows->kl_p99; }},
    {"kl_p999", true, [](const eval::OutputFigures& of) { return of.rows->kl_p999; }},
    {"kl_largest", true, [](const eval::OutputFigures& of) { return of.rows->kl_largest; }},
};

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const std::string_view name : kMetricNames) {
    names.emplace_back(name);
    names.push_back(std::string(name) + std::string(kDrop));
  }
  for (const OutputName& output : kOutputNames) names.emplace_back(output.name);
  return names;
}

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

bool compares(double value, const EvaluateCondition& condition) {
  if (std::isnan(value)) return true;
  if (condition.sign == ">") return value > condition.bound;
  if (condition.sign == ">=") return value >= condition.bound;
  if (condition.sign == "<") return value < condition.bound;
  return value <= condition.bound;
}

/// The figure of that name; nothing where the evaluation has none.
std::optional<double> figure_of(const std::string& name, const ModelEvaluation& evaluation,
                                std::optional<std::size_t> output) {
  for (const EvaluateMetric& metric : evaluation.metrics) {
    const std::string own(metric.name.name);
    if (name == own) return metric.figures.model;
    if (name != own + std::string(kDrop)) continue;
    return metric.name.more_is_better ? -metric.figures.difference : metric.figures.difference;
  }
  if (!output) return std::nullopt;
  const eval::OutputFigures& figures = evaluation.outputs.at(*output).figures;
  for (const OutputName& one : kOutputNames)
    if (name == one.name && (!one.of_rows || figures.rows)) return one.figure(figures);
  return std::nullopt;
}

}  // namespace

EvaluateCondition parse_evaluate_condition(const std::string& text, const std::string& field) {
  const std::string context = field + " " + quote_text(text) + ": ";
  const std::size_t at = text.find_first_of("<>");
  if (at == std::string::npos)
    throw usage_error(context + "expected NAME > NUMBER, or with >=, < or <=, as in 'top1_drop > 0.5'");
  const std::size_t length = at + 1 < text.size() && text[at + 1] == '=' ? 2 : 1;
  EvaluateCondition made{.text = text, .name = trimmed(text.substr(0, at)), .sign = text.substr(at, length)};
  const std::string number = trimmed(text.substr(at + length));
  const auto bound = parse_number<double>(number);
  if (!bound || std::isnan(*bound)) throw usage_error(context + quote_text(number) + " is no number");
  made.bound = *bound;
  const std::vector<std::string> names = all_names();
  if (std::ranges::find(names, made.name) == names.end())
    throw usage_error(context + unknown_name("figure", made.name, names));
  return made;
}

void check_conditions(const std::vector<EvaluateCondition>& conditions,
                      const std::vector<eval::MetricName>& metrics, OutputFiguresThere output,
                      const std::string& field) {
  std::vector<std::string> names;
  for (const eval::MetricName& metric : metrics) {
    names.emplace_back(metric.name);
    names.push_back(std::string(metric.name) + std::string(kDrop));
  }
  for (const OutputName& one : kOutputNames)
    if (output.are_there && (output.have_rows || !one.of_rows)) names.emplace_back(one.name);
  for (const EvaluateCondition& condition : conditions) {
    if (std::ranges::find(names, condition.name) != names.end()) continue;
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
    throw usage_error(field + " " + quote_text(condition.text) + ": this evaluation has no " +
                      quote_text(condition.name) + (list.empty() ? "" : ", but " + list));
  }
}

std::vector<ConditionResult> hold(const std::vector<EvaluateCondition>& conditions,
                                  const ModelEvaluation& evaluation, std::optional<std::size_t> output) {
  std::vector<ConditionResult> made;
  for (const EvaluateCondition& condition : conditions) {
    const double value =
        figure_of(condition.name, evaluation, output).value_or(std::numeric_limits<double>::quiet_NaN());
    made.push_back({.condition = condition, .value = value, .holds = compares(value, condition)});
  }
  return made;
}

}  // namespace crumb::jobs
