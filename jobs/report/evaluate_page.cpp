#include "jobs/report/evaluate_page.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/files/counted.h"
#include "base/text/fixed.h"
#include "jobs/report/page_parts.h"
#include "jobs/report/sample_pictures.h"
#include "jobs/report/stored_layers.h"

namespace crumb::jobs {
namespace {

using report::Cell;
using report::Column;
using report::Fact;
using report::Table;

std::string with_unit(const eval::MetricName& name) {
  return std::string(name.name) + (name.unit.empty() ? "" : " " + std::string(name.unit));
}

std::string p_text(double p) {
  constexpr double kLeast = 0.0001;
  return p < kLeast ? "< 0.0001" : fixed(p, 4);
}

/// "-1.00 (95 %: -3.00 to 0.50)"
std::string difference_text(const EvaluateMetric& metric) {
  const eval::PairedFigures& figures = metric.figures;
  const int digits = metric.name.digits;
  std::string text = (figures.difference > 0 ? "+" : "") + fixed(figures.difference, digits);
  if (!std::isnan(figures.low))
    text += " (95 %: " + fixed(figures.low, digits) + " to " + fixed(figures.high, digits) + ")";
  return text;
}

bool is_within_chance(const eval::PairedFigures& figures) { return !(figures.low > 0 || figures.high < 0); }

std::string sentence_of(const EvaluateReport& report) {
  const ModelEvaluation& model = report.models[0];
  if (report.models.size() > 1) return "";
  if (!model.metrics.empty()) {
    const EvaluateMetric& first = model.metrics[0];
    const eval::PairedFigures& figures = first.figures;
    const int digits = first.name.digits;
    std::string text = with_unit(first.name) + " is " + fixed(figures.model, digits) +
                       " where the baseline has " + fixed(figures.baseline, digits) + ": " +
                       difference_text(first) + ". ";
    if (std::isnan(figures.low)) return text;
    const bool is_better = (figures.difference > 0) == first.name.more_is_better;
    return text + (is_within_chance(figures) ? "These samples do not show that the models differ by it."
                   : is_better               ? "The model is better by more than chance."
                                             : "The model is worse by more than chance.");
  }
  const EvaluateOutput& output = model.outputs[0];
  if (output.figures.rows)
    return "The largest element is the baseline's in " + fixed(output.figures.rows->agreement, 2) +
           " % of rows, and the mean divergence is " + fixed(output.figures.rows->kl_mean, 5) + " nats.";
  return "The signal of output " + output.name + " is " + fixed(output.figures.sqnr_db, 2) +
         " dB above what was lost.";
}

struct Sizes {
  std::optional<std::uint64_t> baseline;
  std::vector<std::optional<std::uint64_t>> models;
};

void add_size(const std::optional<std::uint64_t>& bytes, const Sizes& sizes, const StoredModel& stored,
              report::Report& page) {
  if (bytes) {
    std::string note;
    if (sizes.baseline && *bytes > 0)
      note = "of " + bytes_cell(*sizes.baseline).text + ", " +
             fixed(static_cast<double>(*sizes.baseline) / static_cast<double>(*bytes), 2) + " times smaller";
    page.summary.push_back({"size", bytes_cell(*bytes), note});
  }
  if (stored.bits_a_weight > 0)
    page.summary.push_back(
        {"bits a weight", number_cell(stored.bits_a_weight, 3), "of what is quantized, scales included"});
}

void add_figures(const ModelEvaluation& model, report::Report& page) {
  for (const EvaluateMetric& metric : model.metrics)
    page.summary.push_back({with_unit(metric.name), number_cell(metric.figures.model, metric.name.digits),
                            "baseline " + fixed(metric.figures.baseline, metric.name.digits) + ", " +
                                difference_text(metric) + ", p " + p_text(metric.figures.p)});
  if (model.outputs.empty()) return;
  const eval::OutputFigures& first = model.outputs[0].figures;
  if (!std::isnan(first.sqnr_db))
    page.summary.push_back({"SQNR dB", sqnr_cell(first.sqnr_db), "of output " + model.outputs[0].name});
  if (!first.rows) return;
  page.summary.push_back({"same largest element %", number_cell(first.rows->agreement, 2), "of rows"});
  page.summary.push_back({"KL divergence, nats", number_cell(first.rows->kl_mean, 5),
                          "mean; 99 %: " + fixed(first.rows->kl_p99, 5)});
}

void add_conditions(const EvaluateReport& report, report::Report& page) {
  for (const ModelEvaluation& model : report.models)
    for (const ConditionResult& condition : model.conditions)
      page.summary.push_back({condition.condition.text, Cell(condition.holds ? "fails" : "passes"),
                              number_text(static_cast<float>(condition.value)) +
                                  (report.models.size() > 1 ? ", " + file_name(model.model) : "")});
}

/// A line for each of several models.
Table models_of(const EvaluateReport& report, const Sizes& sizes, const std::vector<StoredModel>& stored) {
  Table table{.key = "models",
              .title = "Models",
              .note = "",
              .columns = {{"model", "model"},
                          {"bytes", "size", true},
                          {"bits", "bits a weight", true},
                          {"value", "value", true},
                          {"difference", "difference", true},
                          {"low", "95 % from", true},
                          {"high", "to", true},
                          {"p", "p", true},
                          {"sqnr_db", "SQNR dB", true},
                          {"kl_mean", "KL mean", true}}};
  for (std::size_t i = 0; i < report.models.size(); ++i) {
    const ModelEvaluation& model = report.models[i];
    std::vector<Cell> row{Cell(file_name(model.model)),
                          sizes.models[i] ? bytes_cell(*sizes.models[i]) : Cell(),
                          stored[i].bits_a_weight > 0 ? number_cell(stored[i].bits_a_weight, 3) : Cell()};
    if (model.metrics.empty()) {
      row.resize(row.size() + 5);
    } else {
      const eval::PairedFigures& figures = model.metrics[0].figures;
      for (const double value : {figures.model, figures.difference, figures.low, figures.high})
        row.push_back(number_cell(value, model.metrics[0].name.digits));
      row.push_back(std::isnan(figures.p) ? Cell() : Cell(p_text(figures.p), figures.p));
      table.note = "By " + with_unit(model.metrics[0].name) + ", of which the baseline has " +
                   fixed(figures.baseline, model.metrics[0].name.digits) + "; all metrics are below.";
    }
    row.resize(row.size() + 2);
    if (!model.outputs.empty()) {
      row[8] = sqnr_cell(model.outputs[0].figures.sqnr_db);
      if (model.outputs[0].figures.rows) row[9] = number_cell(model.outputs[0].figures.rows->kl_mean, 5);
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table metrics_of(const EvaluateReport& report) {
  Table table{.key = "metrics",
              .title = "Metrics",
              .note =
                  "The difference is the model's less the baseline's; 95 % of such intervals hold the true "
                  "one. p: how "
                  "likely so large a difference is between models that do not differ.",
              .columns = {{"model", "model"},
                          {"metric", "metric"},
                          {"baseline", "baseline", true},
                          {"value", "value", true},
                          {"difference", "difference", true},
                          {"low", "95 % from", true},
                          {"high", "to", true},
                          {"p", "p", true}}};
  for (const ModelEvaluation& model : report.models)
    for (const EvaluateMetric& metric : model.metrics) {
      const eval::PairedFigures& figures = metric.figures;
      const auto number = [&](double value) { return number_cell(value, metric.name.digits); };
      table.rows.push_back({Cell(file_name(model.model)), Cell(with_unit(metric.name)),
                            number(figures.baseline), number(figures.model), number(figures.difference),
                            number(figures.low), number(figures.high),
                            std::isnan(figures.p) ? Cell() : Cell(p_text(figures.p), figures.p)});
    }
  return table;
}

Table outputs_of(const EvaluateReport& report) {
  Table table{.key = "outputs",
              .title = "Outputs beside the baseline's",
              .note = "KL divergence in nats, of samples.",
              .columns = {{"model", "model"},
                          {"output", "output"},
                          {"sqnr_db", "SQNR dB", true},
                          {"cosine", "cosine", true},
                          {"least_cosine", "least cosine", true},
                          {"max_abs_error", "largest error", true},
                          {"agreement", "same largest element %", true},
                          {"kl_mean", "KL mean", true},
                          {"kl_median", "median", true},
                          {"kl_p90", "90 %", true},
                          {"kl_p99", "99 %", true},
                          {"kl_p999", "99.9 %", true},
                          {"kl_largest", "largest", true},
                          {"not_finite", "not finite", true}}};
  for (const ModelEvaluation& model : report.models)
    for (const EvaluateOutput& output : model.outputs) {
      const eval::OutputFigures& figures = output.figures;
      std::vector<Cell> row{Cell(file_name(model.model)),         Cell(output.name),
                            sqnr_cell(figures.sqnr_db),           number_cell(figures.cosine, 6),
                            number_cell(figures.least_cosine, 6), number_cell(figures.max_abs_error, 6)};
      if (figures.rows) {
        row.push_back(number_cell(figures.rows->agreement, 2));
        for (const double kl : {figures.rows->kl_mean, figures.rows->kl_median, figures.rows->kl_p90,
                                figures.rows->kl_p99, figures.rows->kl_p999, figures.rows->kl_largest})
          row.push_back(number_cell(kl, 5));
      } else {
        row.resize(row.size() + 7);
      }
      row.push_back(count_cell(figures.not_finite));
      table.rows.push_back(std::move(row));
    }
  return table;
}

Table classes_of(const EvaluateReport& report) {
  Table table{.key = "classes",
              .title = "Classes",
              .note = report.class_figure + " of each class, in percent.",
              .columns = {{"model", "model"},
                          {"class", "class", true},
                          {"count", "labels", true},
                          {"baseline", "baseline %", true},
                          {"value", "model %", true},
                          {"difference", "difference", true}}};
  for (const ModelEvaluation& model : report.models)
    for (const EvaluateClass& one : model.classes)
      table.rows.push_back({Cell(file_name(model.model)), count_cell(one.id), count_cell(one.count),
                            number_cell(one.baseline, 2), number_cell(one.model, 2),
                            number_cell(one.model - one.baseline, 2)});
  return table;
}

/// What each layer costs, where that was measured.
Table layers_of(const EvaluateReport& report) {
  Table table{.key = "layers",
              .title = "Layers",
              .note =
                  "SQNR in dB: of its weights; of the network's result where this layer alone is quantized; "
                  "of what it "
                  "gives with all before it quantized. Worst first by what they cost alone.",
              .columns = {{"layer", "layer"},
                          {"model", "model"},
                          {"operator", "operator"},
                          {"weights", "weights"},
                          {"input", "input"},
                          {"weights_sqnr_db", "weights dB", true},
                          {"alone_db", "alone dB", true},
                          {"accumulated_db", "accumulated dB", true},
                          {"low", "takes in from", true},
                          {"high", "to", true},
                          {"clipped", "clipped %", true},
                          {"dead_channels", "dead channels", true},
                          {"channels", "of", true},
                          {"bits_needed", "accumulator bits", true},
                          {"bits_there", "there", true}}};
  const auto decibels = [](const std::optional<double>& value) { return value ? sqnr_cell(*value) : Cell(); };
  const auto number = [](const auto& value, int digits) {
    return value ? number_cell(static_cast<double>(*value), digits) : Cell();
  };
  const auto bound = [](const std::optional<double>& value) {
    return value ? Cell(number_text(static_cast<float>(*value)), *value) : Cell();
  };
  for (const ModelEvaluation& model : report.models) {
    if (!model.layers) continue;
    for (const EvaluateLayer& layer : model.layers->layers)
      table.rows.push_back({Cell(layer.name), Cell(file_name(model.model)), Cell(layer.op),
                            Cell(layer.weights), Cell(layer.input), decibels(layer.weights_sqnr_db),
                            decibels(layer.alone_db), decibels(layer.accumulated_db), bound(layer.low),
                            bound(layer.high), number(layer.clipped, 2), number(layer.dead_channels, 0),
                            number(layer.channels, 0), number(layer.bits_needed, 0),
                            number(layer.bits_there, 0)});
  }
  return table;
}

/// What brings most back, as flags to paste.
Table advice_of(const EvaluateReport& report) {
  Table table{
      .key = "advice",
      .title = "Layers to put back",
      .note =
          "Each by itself, best first: flags for crumb quantize, the network's SQNR then, and by how many "
          "bytes the codes grow.",
      .columns = {{"layer", "layer"},
                  {"model", "model"},
                  {"set", "flags"},
                  {"sqnr_db", "SQNR dB", true},
                  {"gain_db", "more", true},
                  {"bytes", "bytes more", true}}};
  for (const ModelEvaluation& model : report.models) {
    if (!model.layers) continue;
    for (const LayerAdvice& advice : model.layers->advice)
      table.rows.push_back({Cell(advice.layer), Cell(file_name(model.model)), Cell(advice.set),
                            sqnr_cell(advice.sqnr_db), sqnr_cell(advice.gain_db),
                            number_cell(static_cast<double>(advice.bytes), 0)});
  }
  return table;
}

/// The confusions that the model makes more often than the baseline, most first.
Table confusions_of(const EvaluateReport& report) {
  constexpr std::size_t kMost = 100;
  Table table{.key = "confusions",
              .title = "Classes that are taken for others",
              .note = "Where it happens to the model or the baseline; at most " + std::to_string(kMost) +
                      " of a model.",
              .columns = {{"model", "model"},
                          {"label", "label", true},
                          {"found", "taken for", true},
                          {"baseline", "baseline", true},
                          {"value", "model", true},
                          {"more", "more", true}}};
  for (const ModelEvaluation& model : report.models) {
    std::vector<std::vector<Cell>> rows;
    for (std::size_t i = 0; i < model.confusion.size(); ++i)
      for (std::size_t j = 0; j < model.confusion[i].size(); ++j) {
        const std::uint64_t before = report.baseline_confusion[i][j], after = model.confusion[i][j];
        if (i == j || before + after == 0) continue;
        rows.push_back({Cell(file_name(model.model)), count_cell(i), count_cell(j), count_cell(before),
                        count_cell(after),
                        number_cell(static_cast<double>(after) - static_cast<double>(before), 0)});
      }
    std::ranges::stable_sort(rows, std::ranges::greater(),
                             [](const auto& row) { return std::pair(*row[5].number, *row[4].number); });
    if (rows.size() > kMost) rows.resize(kMost);
    std::ranges::move(rows, std::back_inserter(table.rows));
  }
  return table;
}

/// The first metric, else the signal, against the size.
void add_chart(const EvaluateReport& report, const Sizes& sizes, report::Report& page) {
  const bool scores = !report.models[0].metrics.empty();
  report::Chart chart{.title = "Quality against size"};
  const SizeUnit unit = size_unit(sizes.models);
  chart.x = "size in " + unit.name;
  chart.y = scores ? with_unit(report.models[0].metrics[0].name)
                   : "SQNR dB of output " + report.models[0].outputs[0].name;
  for (std::size_t i = 0; i < report.models.size(); ++i) {
    const ModelEvaluation& model = report.models[i];
    report::Point point{.name = file_name(model.model), .series = "models"};
    if (!sizes.models[i]) continue;
    point.x = static_cast<double>(*sizes.models[i]) / unit.bytes;
    if (scores) {
      const eval::PairedFigures& figures = model.metrics[0].figures;
      point.y = figures.model;
      // The baseline is taken as it is: what the interval is of is the difference.
      if (std::isfinite(figures.low) && std::isfinite(figures.high)) {
        point.low = figures.baseline + figures.low;
        point.high = figures.baseline + figures.high;
      }
    } else {
      point.y = model.outputs.empty() ? NAN : model.outputs[0].figures.sqnr_db;
    }
    if (std::isfinite(point.y)) chart.points.push_back(std::move(point));
  }
  if (scores && std::isfinite(report.models[0].metrics[0].figures.baseline)) {
    chart.level = report.models[0].metrics[0].figures.baseline;
    chart.level_name = "baseline";
    if (sizes.baseline) chart.level_name += ", " + bytes_cell(*sizes.baseline).text;
  }
  if (!chart.points.empty()) page.charts.push_back(std::move(chart));
}

void add_samples(const EvaluateReport& report, report::Report& page) {
  PictureBudget budget;
  for (const ModelEvaluation& model : report.models)
    for (const WorstSample& worst : model.worst) {
      report::Sample sample{.model = file_name(model.model), .number = worst.sample, .text = worst.text};
      sample.pictures = budget.pictures_of(worst.inputs);
      const auto add = [&](const std::string& name, Cell cell) {
        sample.facts.push_back({.name = name, .value = std::move(cell)});
      };
      if (!worst.label.empty()) {
        add("label", Cell(worst.label));
        add("baseline", Cell(worst.baseline_answer));
        add("model", Cell(worst.answer));
      }
      if (worst.baseline && worst.model && !model.metrics.empty()) {
        add(report.first_metric + ", baseline", number_cell(*worst.baseline, model.metrics[0].name.digits));
        add(report.first_metric + ", model", number_cell(*worst.model, model.metrics[0].name.digits));
      }
      add(report.distance == "kl" ? "KL divergence, nats" : "noise over signal",
          number_cell(worst.distance, 5));
      page.samples.push_back(std::move(sample));
    }
  page.samples_note = "By their number from 0. ";
  page.samples_note +=
      report.first_metric.empty() ? "" : "First those on which " + report.first_metric + " lost most, then ";
  page.samples_note += report.first_metric.empty() ? "Those whose outputs are farthest from the baseline's."
                                                   : "those whose outputs are farthest from the baseline's.";
  if (budget.left_out() > 0)
    page.samples_note += " " + count_text(budget.left_out(), "picture") + " would make the page too large.";
}

}  // namespace

report::Report page_of(const EvaluateRequest& request, const EvaluateReport& report) {
  const std::string of =
      request.models.size() == 1 ? file_name(request.models[0]) : count_text(request.models.size(), "model");
  report::Report page = begin_page("eval", of + " beside " + file_name(request.baseline), request.report);
  page.sentence = sentence_of(report);
  page.summary.push_back({"samples", count_cell(report.samples),
                          report.samples_are + (report.task.empty() ? "" : ", task " + report.task)});
  if (report.interrupted)
    page.notes.emplace_back("A person stopped it: these are the samples that were done.");
  Sizes sizes{.baseline = model_bytes(request.baseline)};
  std::vector<StoredModel> stored;
  for (const std::string& model : request.models) {
    sizes.models.push_back(model_bytes(model));
    stored.push_back(stored_model(model));
  }
  if (report.models.size() == 1) {
    add_figures(report.models[0], page);
    add_size(sizes.models[0], sizes, stored[0], page);
  } else {
    if (sizes.baseline)
      page.summary.push_back(
          {"size of the baseline", bytes_cell(*sizes.baseline), file_name(request.baseline)});
    add_chart(report, sizes, page);
    page.tables.push_back(models_of(report, sizes, stored));
  }
  add_conditions(report, page);
  for (Table table : {metrics_of(report), outputs_of(report), layers_of(report), advice_of(report),
                      classes_of(report), confusions_of(report)})
    if (!table.rows.empty()) page.tables.push_back(std::move(table));
  if (Table layers = stored_table(stored); !layers.rows.empty()) page.tables.push_back(std::move(layers));
  add_samples(report, page);
  add_histograms(stored, page);
  page.made_with.emplace_back("engine", request.engine);
  page.made_with.emplace_back("seed of intervals and tests", std::to_string(eval::PairedOptions().seed));
  return page;
}

}  // namespace crumb::jobs
