#include "cli/run/eval_report.h"

#include <algorithm>
#include <cmath>
#include <iostream>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "cli/output.h"
#include "cli/run/eval_layers_report.h"

namespace crumb::cli {
namespace {

std::string p_text(double p) {
  constexpr double kLeast = 0.0001;
  return p < kLeast ? "< 0.0001" : fixed(p, 4);
}

/// "samples", and "sample" of one; "pieces of a text", and "piece of a text".
std::string counted_noun(const jobs::EvaluateReport& report) {
  std::string noun = report.samples_are;
  if (report.samples == 1) noun.erase(std::min(noun.find(' '), noun.size()) - 1, 1);
  return noun;
}

void print_metrics(const jobs::ModelEvaluation& model) {
  if (model.metrics.empty()) return;
  std::vector<std::vector<std::string>> rows{
      {"metric", "baseline", "model", "difference", "95 % from", "to", "p"}};
  for (const jobs::EvaluateMetric& metric : model.metrics) {
    const eval::PairedFigures& figures = metric.figures;
    const auto number = [&](double value) { return fixed(value, metric.name.digits); };
    const std::string unit(metric.name.unit);
    rows.push_back({std::string(metric.name.name) + (unit.empty() ? "" : " " + unit),
                    number(figures.baseline), number(figures.model), number(figures.difference),
                    number(figures.low), number(figures.high), p_text(figures.p)});
  }
  print_table(std::move(rows));
}

void print_output(const jobs::EvaluateOutput& output) {
  const eval::OutputFigures& figures = output.figures;
  std::vector<std::string> parts;
  if (!std::isnan(figures.sqnr_db))
    parts = {"SQNR " + fixed(figures.sqnr_db, 2) + " dB",
             "cosine " + fixed(figures.cosine, 6) + " (least " + fixed(figures.least_cosine, 6) + ")",
             "largest error " + number_text(static_cast<float>(figures.max_abs_error))};
  if (figures.rows)
    parts.push_back("the same largest element in " + fixed(figures.rows->agreement, 2) + " % of rows");
  std::cout << "output " << printable(output.name) << ": ";
  for (std::size_t i = 0; i < parts.size(); ++i) std::cout << (i > 0 ? ", " : "") << parts[i];
  std::cout << "\n";
  if (figures.rows)
    std::cout << "  KL divergence of " << (figures.rows->are_distributions ? "distributions" : "logits")
              << ": " << fixed(figures.rows->kl_mean, 5) << " nats; median "
              << fixed(figures.rows->kl_median, 5) << ", 90 % " << fixed(figures.rows->kl_p90, 5) << ", 99 % "
              << fixed(figures.rows->kl_p99, 5) << ", 99.9 % " << fixed(figures.rows->kl_p999, 5)
              << ", largest " << fixed(figures.rows->kl_largest, 5) << "\n";
  if (figures.not_finite + figures.not_finite_baseline > 0)
    std::cout << "  not finite: " << count_text(figures.not_finite, "number") << " of the model, "
              << figures.not_finite_baseline << " of the baseline\n";
}

void print_worst(const jobs::ModelEvaluation& model, const jobs::EvaluateReport& report) {
  if (model.worst.empty()) return;
  const bool has_metric = model.worst[0].model.has_value(), has_answers = !model.worst[0].label.empty();
  std::vector<std::vector<std::string>> rows{{"worst sample"}};
  std::vector<std::string>& head = rows[0];
  if (has_answers) head.insert(head.end(), {"label", "baseline", "model"});
  if (has_metric && !has_answers) head.insert(head.end(), {report.first_metric + " baseline", "model"});
  head.push_back(report.distance);
  for (const jobs::WorstSample& worst : model.worst) {
    std::vector<std::string>& row = rows.emplace_back(std::vector{std::to_string(worst.sample)});
    const auto number = [&](const std::optional<double>& value) {
      return value ? fixed(*value, model.metrics[0].name.digits) : "-";
    };
    if (has_answers) row.insert(row.end(), {worst.label, worst.baseline_answer, worst.answer});
    if (has_metric && !has_answers) row.insert(row.end(), {number(worst.baseline), number(worst.model)});
    row.push_back(fixed(worst.distance, 5));
  }
  print_table(std::move(rows));
}

void print_confusion(const std::vector<std::vector<std::uint64_t>>& matrix, const std::string& whose) {
  constexpr std::size_t kMostClasses = 24;
  if (matrix.empty()) return;
  if (matrix.size() > kMostClasses) {
    std::cout << "the confusion matrix of " << matrix.size() << " classes is in --json\n";
    return;
  }
  std::vector<std::vector<std::string>> rows{{whose}};
  for (std::size_t i = 0; i < matrix.size(); ++i) rows[0].push_back(std::to_string(i));
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    rows.push_back({"class " + std::to_string(i)});
    for (const std::uint64_t count : matrix[i]) rows.back().push_back(std::to_string(count));
  }
  print_table(std::move(rows));
}

void print_classes(const jobs::ModelEvaluation& model, const jobs::EvaluateReport& report) {
  if (model.classes.empty()) return;
  std::vector<std::vector<std::string>> rows{
      {"class", "labels", report.class_figure + " % baseline", "model", "difference"}};
  for (const jobs::EvaluateClass& one : model.classes)
    rows.push_back({std::to_string(one.id), std::to_string(one.count), fixed(one.baseline, 2),
                    fixed(one.model, 2), fixed(one.model - one.baseline, 2)});
  print_table(std::move(rows));
  if (model.confusion.empty()) return;
  print_confusion(report.baseline_confusion, "baseline");
  print_confusion(model.confusion, "model");
}

void print_conditions(const jobs::ModelEvaluation& model) {
  for (const jobs::ConditionResult& result : model.conditions)
    std::cout << (result.holds ? "fails: " : "passes: ") << printable(result.condition.text) << " ("
              << number_text(static_cast<float>(result.value)) << ")\n";
}

}  // namespace

void print(const jobs::EvaluateReport& report, const EvalReportOptions& options) {
  std::cout << report.samples << " " << counted_noun(report)
            << (report.interrupted ? " until the interruption" : "");
  if (!report.task.empty()) std::cout << ", " << report.task;
  std::cout << "\n";
  for (const jobs::ModelEvaluation& model : report.models) {
    if (report.models.size() > 1) std::cout << "\n" << printable(model.model) << "\n";
    print_metrics(model);
    for (const jobs::EvaluateOutput& output : model.outputs) print_output(output);
    print_worst(model, report);
    if (options.per_class) print_classes(model, report);
    print_conditions(model);
    if (model.layers) print(*model.layers);
  }
}

}  // namespace crumb::cli
