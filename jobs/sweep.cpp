#include "jobs/sweep.h"

#include <filesystem>
#include <memory>

#include "base/files/inputs.h"
#include "base/files/text.h"
#include "jobs/folder_files.h"
#include "jobs/network_quantization.h"
#include "jobs/report/report_output.h"
#include "jobs/report/sweep_page.h"
#include "jobs/samples/calibration_data.h"
#include "jobs/sweep/cell.h"
#include "jobs/sweep/command.h"
#include "jobs/sweep/folder.h"
#include "jobs/sweep/measure.h"

namespace crumb::jobs {
namespace {

namespace fs = std::filesystem;
using eval::GridRow;

std::string names_of(const eval::Scores& scores) {
  std::string names;
  for (const auto& [name, value] : scores) names += (names.empty() ? "" : ", ") + name;
  return names;
}

/// Returns the request's metric; in place of accuracy, where there are no labels, agreement.
const eval::Metric& metric_of(const SweepRequest& request, const eval::Scores& scores,
                              const Observer& observer) {
  const std::string name =
      request.metric == "accuracy" && !scores.contains("accuracy") ? "agreement" : request.metric;
  if (!scores.contains(name))
    throw usage_error(observer.spelled("metric") + " " + request.metric + " is not known of " +
                      quote_text(request.input) + "; what is measured there is " + names_of(scores));
  return eval::metric_named(name);
}

/// Fills in what follows from other fields.
SweepRequest completed(SweepRequest request, Notes& notes) {
  if (!request.valid.empty()) return request;
  const std::string data = notes.observer().spelled("data"), valid = notes.observer().spelled("valid");
  if (request.data.empty())
    throw usage_error("sweep needs " + data + ", samples like those that the network will see, or " + valid);
  request.valid = request.data;
  notes.say("what is scored are the samples of " + data + ", which codes are made for; " + valid +
            " names others");
  return request;
}

/// Checks the output before anything is read.
void claim(const SweepRequest& request) {
  std::vector<fs::path> inputs{request.input, request.labels};
  add_sample_paths(request.data, inputs);
  add_sample_paths(request.valid, inputs);
  claim_folder_files(inputs, request.output, kSweepFiles);
}

/// Returns nothing also where the file is another cell's.
std::optional<GridRow> finished_row(const SweepFolder& folder, std::size_t number, const SweepCell& cell,
                                    bool wants_file) {
  auto row = folder.finished(number, wants_file);
  const bool is_its =
      row && row->format == cell.format && row->activations == cell.activations && row->method == cell.method;
  return is_its ? row : std::nullopt;
}

}  // namespace

eval::GridTable sweep(const SweepRequest& asked, Observer& observer, const RowSink& row) {
  const InputWatch watch;
  for (const SweepCell& cell : asked.cells) refuse_training_fields(cell.recipe);
  refuse_packed(asked.input);
  Notes notes(observer);
  const SweepRequest request = completed(asked, notes);
  claim(request);
  claim_report(request.report, outputs_in(request.output, kSweepFiles), observer);
  const bool has_data = !request.data.empty();
  const NetworkSource source = open_network(request.input, "it is to be measured", notes,
                                            {.inputs = has_data ? request.data : request.valid,
                                             .inputs_field = observer.spelled(has_data ? "data" : "valid"),
                                             .arguments = request.arguments,
                                             .batch_axes = request.batch_axes});
  const std::unique_ptr<Measure> measure = measure_of(source, request, observer);
  SweepFolder folder(request.output, command_of(request, source), request.restart, observer);
  const SweptNetwork network(request, source, *measure, observer);

  std::vector<GridRow> rows;
  const auto finished_float = folder.finished(0, false);
  rows.push_back(finished_float ? *finished_float : network.float_row());
  const eval::Metric& metric = metric_of(request, rows.front().scores, observer);
  if (!finished_float) folder.keep(0, rows.front());
  const auto table_of = [&](std::vector<GridRow> of) {
    return eval::grid_table(request.input, metric, eval::cost_named(request.against), std::move(of));
  };
  const auto tell_last = [&] {
    if (row) row(table_of({rows.back()}));
  };
  tell_last();
  for (std::size_t i = 0; i < request.cells.size(); ++i) {
    const SweepCell& cell = request.cells[i];
    const auto finished = finished_row(folder, i + 1, cell, request.keep_files);
    rows.push_back(finished ? *finished : network.row(cell, folder.file_of(i + 1)));
    if (!finished) folder.keep(i + 1, rows.back());
    tell_last();
  }
  eval::GridTable table = table_of(std::move(rows));
  folder.write(table);
  if (!request.report.path.empty()) write_report(request.report, page_of(request, table));
  return table;
}

}  // namespace crumb::jobs
