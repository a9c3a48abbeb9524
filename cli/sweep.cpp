// crumb sweep: one network in many formats by many methods, and what each is worth.
#include <algorithm>
#include <iostream>
#include <memory>

#include "base/files/text.h"
#include "cli/flag_group.h"
#include "cli/not_empty.h"
#include "cli/notes.h"
#include "cli/number_checks.h"
#include "cli/output.h"
#include "cli/shape_flags.h"
#include "cli/sweep_cell.h"
#include "cli/sweep_folder.h"
#include "cli/sweep_grid.h"
#include "cli/sweep_lines.h"
#include "cli/sweep_measure.h"
#include "cli/sweep_options.h"
#include "cli/threads_flag.h"
#include "cli/training_inputs.h"
#include "cli/verb.h"
#include "eval/grid_table.h"
#include "jobs/network_quantization.h"

namespace crumb::cli {
namespace {

using eval::GridRow;

struct SweepFlags {
  SweepOptions sweep;
  std::string output, metric = "accuracy", against = "bits";
  double peak = 0;  ///< 0: none is given
  bool restart = false, json = false;
};

std::string names_of(const eval::Scores& scores) {
  std::string names;
  for (const auto& [name, value] : scores) names += (names.empty() ? "" : ", ") + name;
  return names;
}

/// With --metric accuracy, and without labels, agreement.
const eval::Metric& metric_of(const SweepFlags& flags, const eval::Scores& scores) {
  const std::string name =
      flags.metric == "accuracy" && !scores.contains("accuracy") ? "agreement" : flags.metric;
  if (!scores.contains(name))
    throw usage_error("--metric " + flags.metric + " is not known of " + quote_text(flags.sweep.input) +
                      "; what is measured there is " + names_of(scores));
  return eval::metric_named(name);
}

/// What follows from other flags.
SweepOptions completed(const SweepFlags& flags, Notes& notes) {
  SweepOptions options = flags.sweep;
  if (options.measure.valid.empty()) {
    if (options.data.empty())
      throw usage_error("sweep needs --data, samples like those that the network will see, or --valid");
    options.measure.valid = options.data;
    notes.say("what is scored are the samples of --data, which codes are made for; --valid names others");
  }
  options.measure.input = options.input;
  options.measure.threads = options.threads;
  if (flags.peak > 0) options.measure.peak = flags.peak;
  return options;
}

/// Every path that a flag may name.
std::vector<std::string> inputs_of(const SweepOptions& options) {
  std::vector<std::string> inputs{options.input, options.measure.labels};
  for (const std::vector<std::string>& wishes : {options.data, options.measure.valid}) {
    for (const std::string& wish : wishes) {
      inputs.push_back(wish);
      inputs.push_back(wish.substr(wish.find('=') + 1));
    }
  }
  return inputs;
}

/// Nothing, too, where the file is another cell's.
std::optional<GridRow> finished_row(const SweepFolder& folder, std::size_t place, const SweepGridCell& cell,
                                    bool wants_file) {
  auto row = folder.finished(place, wants_file);
  const bool is_its =
      row && row->format == cell.format && row->activations == cell.activations && row->method == cell.method;
  return is_its ? row : std::nullopt;
}

void sweep_verb(const SweepFlags& flags) {
  const std::vector<SweepGridCell> cells = sweep_cells(flags.sweep.grid);
  for (const SweepGridCell& cell : cells) refuse_training_fields(cell.recipe);
  (void)read_shapes(flags.sweep.shapes);
  jobs::refuse_packed(flags.sweep.input);
  Notes notes;
  const SweepOptions options = completed(flags, notes);
  refuse_training_over(inputs_of(options), flags.output, kSweepFiles);
  const jobs::NetworkSource source = jobs::open_network(options.input, "it is to be measured", notes);
  const std::unique_ptr<Measure> measure = measure_of(source, options.measure);
  SweepFolder folder(flags.output, command_of(options, source, cells), flags.restart);
  const Sweep sweep(options, source, *measure);

  std::vector<GridRow> rows;
  const auto finished_float = folder.finished(0, false);
  rows.push_back(finished_float ? *finished_float : sweep.float_row());
  const eval::Metric& metric = metric_of(flags, rows.front().scores);
  if (!finished_float) folder.keep(0, rows.front());
  const auto table_of = [&](std::vector<GridRow> of) {
    return eval::grid_table(options.input, metric, eval::cost_named(flags.against), std::move(of));
  };
  std::optional<RowLines> lines;
  if (!flags.json) lines.emplace(cells, table_of({rows.front()}));
  const auto print_last = [&] {
    if (lines) lines->print(table_of({rows.back()}), 0);
  };
  print_last();
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const auto finished = finished_row(folder, i + 1, cells[i], options.keep_files);
    rows.push_back(finished ? *finished : sweep.row(cells[i], folder.file_of(i + 1)));
    if (!finished) folder.keep(i + 1, rows.back());
    print_last();
  }
  const auto failed = std::ranges::count_if(rows, &GridRow::failed);
  const eval::GridTable table = table_of(std::move(rows));
  folder.write(table);
  if (flags.json) {
    print_json(eval::json_of(table));
  } else {
    std::cout << "\n";
    print_grid(table);
    std::cout << "written: " << flags.output << "/{sweep.json, sweep.csv, sweep.svg}\n";
  }
  if (static_cast<std::size_t>(failed) < cells.size()) return;
  std::cerr << "crumb: no cell could be done\n";
  throw CLI::RuntimeError(1);
}

template <class Rows>
std::vector<std::string> names_in(const Rows& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.emplace_back(row.name);
  return names;
}

}  // namespace

void add_sweep(CLI::App& app) {
  auto flags = std::make_shared<SweepFlags>();
  SweepOptions& options = flags->sweep;
  CLI::App* verb = app.add_subcommand(
      "sweep", "Quantize a network in many formats by many methods, and tell what each is worth");
  const auto several = [](CLI::Option* option) { option->expected(1)->allow_extra_args(false)->take_all(); };
  verb->add_option("model", options.input,
                   "An ONNX graph, or a Hugging Face folder or GGUF file of a known architecture")
      ->type_name("MODEL")
      ->required();
  verb->add_option("--formats", options.grid.formats,
                   "Specs for weights, between commas, as in int3:group=64,e2m1:group=32")
      ->type_name("SPEC,...")
      ->group("The grid")
      ->required()
      ->check(not_empty);
  verb->add_option(
          "--activations", options.grid.activations,
          "Specs for activations; keep; or same, the numbers of the format, one scale a tensor (keep)")
      ->type_name("SPEC,...|keep|same")
      ->group("The grid")
      ->check(not_empty);
  verb->add_option("--methods", options.grid.methods,
                   "rounding, or stages joined by +, as in rounding,gptq,equalize+gptq:sweeps=2 (rounding)")
      ->type_name("METHOD,...")
      ->group("The grid")
      ->check(not_empty);
  several(verb->add_option("--data", options.data,
                           "Samples for methods and activations, as crumb quantize takes them")
              ->type_name("DATA")
              ->group(kSampleFlags));
  verb->add_option("--tokens", options.tokens, "Of a text as --data: its first N tokens (all)")
      ->type_name("TOKENS")
      ->group(kSampleFlags)
      ->check(at_least(1));
  several(verb->add_option("--valid", options.measure.valid,
                           "Samples to score by: arrays, sentences or a text (those of --data)")
              ->type_name("DATA")
              ->group(kSampleFlags));
  verb->add_option("--valid-tokens", options.measure.tokens,
                   "Of a language model's text to score by: its first N tokens (all)")
      ->type_name("TOKENS")
      ->group(kSampleFlags)
      ->check(at_least(1));
  verb->add_option("--context", options.measure.context,
                   "Of a language model's text to score by: tokens of a window (1024)")
      ->type_name("TOKENS")
      ->group(kSampleFlags)
      ->check(at_least(1));
  verb->add_option(
          "--labels", options.measure.labels,
          "Y.npy: the classes of rows of the output, for accuracy; or numbers as it should be, for psnr")
      ->type_name("FILE")
      ->group(kSampleFlags);
  verb->add_option("--metric", flags->metric,
                   "Of the table and the front: accuracy (without labels: agreement with the float network), "
                   "psnr, cosine, kl, perplexity (accuracy)")
      ->group("The table")
      ->check(CLI::IsMember(names_in(eval::metrics())));
  verb->add_option("--peak", flags->peak,
                   "The largest number of a psnr (from the least to the greatest of what is compared with)")
      ->type_name("NUMBER")
      ->group("The table")
      ->check(above_zero());
  verb->add_option("--against", flags->against, "Of the front: bits, bytes, accumulator or bops (bits)")
      ->group("The table")
      ->check(CLI::IsMember(names_in(eval::costs())));
  several(verb->add_option("--shape", options.shapes, std::string("Of costs: ") + kShapeHelp)
              ->type_name("NAME=SIZES")
              ->group("The table"));
  verb->add_option("--device", options.device, "Where samples for methods run: cpu or cuda (cpu)")
      ->type_name("DEVICE")
      ->group(kRunningFlags);
  add_shared_recipe_flags(*verb, options.grid.recipe, {"activations", "stages"});
  verb->add_option("-o,--output", flags->output,
                   "The folder for sweep.json, sweep.csv, sweep.svg and the finished cells")
      ->type_name("FOLDER")
      ->group(kOutputFlags)
      ->required();
  verb->add_flag("--keep-files", options.keep_files, "Keep each cell's packed file: cells/NUMBER.crumb")
      ->group(kOutputFlags);
  verb->add_flag("--restart", flags->restart, "Drop what another command left in the folder")
      ->group(kOutputFlags);
  add_threads_flag(*verb, options.threads, "Threads, which never change the result (those the machine has)");
  verb->add_flag("--json", flags->json, "Print one JSON object at the end")->group(kOutputFlags);
  verb->footer(
      "A run that was cut off goes on behind its last finished cell. What cannot be done is a row that says "
      "why; the exit\ncode is 1 where no cell could be done.\n\nExample:\n"
      "  crumb sweep digits.onnx --formats int3:channel,int4:channel,e2m1:channel --activations keep,uint4 "
      "--methods\n  rounding,equalize+gptq --data x.npy --valid v.npy --labels y.npy -o grid");
  verb->callback([flags] { sweep_verb(*flags); });
}

}  // namespace crumb::cli
