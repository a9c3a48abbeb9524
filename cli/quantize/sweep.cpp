// crumb sweep: quantizes one network in many formats by many methods, and measures each.
#include "jobs/sweep.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

#include "cli/flags/flag_group.h"
#include "cli/flags/not_empty.h"
#include "cli/flags/number_checks.h"
#include "cli/flags/report_flag.h"
#include "cli/flags/shape_flags.h"
#include "cli/flags/threads_flag.h"
#include "cli/flags/torchscript_flags.h"
#include "cli/flags/verb.h"
#include "cli/notes.h"
#include "cli/output.h"
#include "cli/quantize/sweep_grid.h"
#include "cli/quantize/sweep_lines.h"
#include "eval/grid_table.h"

namespace crumb::cli {
namespace {

struct SweepFlags {
  jobs::SweepRequest request;
  SweepGridFlags grid;
  std::vector<std::string> shapes;
  double peak = 0;  ///< 0: not given
  bool json = false;
};

void sweep_verb(const SweepFlags& flags) {
  jobs::SweepRequest request = flags.request;
  request.cells = sweep_cells(flags.grid);
  request.include = flags.grid.recipe.include;
  request.shapes = read_shapes(flags.shapes);
  if (flags.peak > 0) request.peak = flags.peak;
  std::optional<RowLines> lines;
  const auto print_row = [&](const eval::GridTable& row) {
    if (!lines) lines.emplace(request.cells, row);
    lines->print(row, 0);
  };
  const eval::GridTable table =
      jobs::sweep(request, terminal(), flags.json ? jobs::RowSink() : jobs::RowSink(print_row));
  if (flags.json) {
    print_json(eval::json_of(table));
  } else {
    std::cout << "\n";
    print_grid(table);
    std::cout << "written: " << request.output << "/{sweep.json, sweep.csv, sweep.svg}\n";
  }
  const auto failed = std::ranges::count_if(table.rows, &eval::GridRow::failed);
  if (static_cast<std::size_t>(failed) < request.cells.size()) return;
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
  jobs::SweepRequest& request = flags->request;
  CLI::App* verb = app.add_subcommand(
      "sweep", "Quantize a network in many formats by many methods, and tell what each is worth");
  const auto several = [](CLI::Option* option) { option->expected(1)->allow_extra_args(false)->take_all(); };
  verb->add_option("model", request.input,
                   "An ONNX graph, or a Hugging Face folder or GGUF file of a known architecture")
      ->type_name("MODEL")
      ->required();
  verb->add_option("--formats", flags->grid.formats,
                   "Specs for weights, between commas, as in int3:group=64,e2m1:group=32")
      ->type_name("SPEC,...")
      ->group("The grid")
      ->required()
      ->check(not_empty);
  verb->add_option(
          "--activations", flags->grid.activations,
          "Specs for activations; keep; or same, the numbers of the format, one scale a tensor (keep)")
      ->type_name("SPEC,...|keep|same")
      ->group("The grid")
      ->check(not_empty);
  verb->add_option("--methods", flags->grid.methods,
                   "rounding, or stages joined by +, as in rounding,gptq,equalize+gptq:sweeps=2 (rounding)")
      ->type_name("METHOD,...")
      ->group("The grid")
      ->check(not_empty);
  several(verb->add_option("--data", request.data,
                           "Samples for methods and activations, as crumb quantize takes them")
              ->type_name("DATA")
              ->group(kSampleFlags));
  several(verb->add_option("--batch-axis", request.batch_axes, kBatchAxisHelp)
              ->type_name("NAME=AXIS")
              ->group(kSampleFlags));
  add_several(*verb, "--set-argument", request.arguments, kArgumentHelp, "NAME=VALUE")->group(kSampleFlags);
  verb->add_option("--tokens", request.tokens, "Of a text as --data: its first N tokens (all)")
      ->type_name("TOKENS")
      ->group(kSampleFlags)
      ->check(at_least(1));
  verb->add_flag("--pairs", request.pairs, kPairsHelp)->group(kSampleFlags);
  several(verb->add_option("--valid", request.valid,
                           "Samples to score by: arrays, sentences or a text (those of --data)")
              ->type_name("DATA")
              ->group(kSampleFlags));
  verb->add_option("--valid-tokens", request.valid_tokens,
                   "Of a language model's text to score by: its first N tokens (all)")
      ->type_name("TOKENS")
      ->group(kSampleFlags)
      ->check(at_least(1));
  verb->add_option("--context", request.context,
                   "Of a language model's text to score by: tokens of a window (1024)")
      ->type_name("TOKENS")
      ->group(kSampleFlags)
      ->check(at_least(1));
  verb->add_option(
          "--labels", request.labels,
          "Y.npy: the classes of rows of the output, for accuracy; or numbers as it should be, for psnr")
      ->type_name("FILE")
      ->group(kSampleFlags);
  verb->add_option("--metric", request.metric,
                   "Of the table and the front: accuracy (without labels: agreement with the float network), "
                   "psnr, cosine, kl, perplexity (accuracy)")
      ->group("The table")
      ->check(CLI::IsMember(names_in(eval::metrics())));
  verb->add_option("--peak", flags->peak,
                   "The largest number of a psnr (from the least to the greatest of what is compared with)")
      ->type_name("NUMBER")
      ->group("The table")
      ->check(above_zero());
  verb->add_option("--against", request.against, "Of the front: bits, bytes, accumulator or bops (bits)")
      ->group("The table")
      ->check(CLI::IsMember(names_in(eval::costs())));
  several(verb->add_option("--shape", flags->shapes, std::string("Of costs: ") + kShapeHelp)
              ->type_name("NAME=SIZES")
              ->group("The table"));
  verb->add_option("--device", request.device, "Where samples for methods run: cpu or cuda (cpu)")
      ->type_name("DEVICE")
      ->group(kRunningFlags);
  add_shared_recipe_flags(*verb, flags->grid.recipe, {"activations", "stages"});
  verb->add_option("-o,--output", request.output,
                   "The folder for sweep.json, sweep.csv, sweep.svg and the finished cells")
      ->type_name("FOLDER")
      ->group(kOutputFlags)
      ->required();
  verb->add_flag("--keep-files", request.keep_files, "Keep each cell's packed file: cells/NUMBER.crumb")
      ->group(kOutputFlags);
  verb->add_flag("--restart", request.restart, "Drop what another command left in the folder")
      ->group(kOutputFlags);
  add_threads_flag(*verb, request.threads, "Threads, which never change the result (those the machine has)");
  add_report_flag(*verb, request.report);
  verb->add_flag("--json", flags->json, "Print one JSON object at the end")->group(kOutputFlags);
  verb->footer(
      "A run that was cut off goes on behind its last finished cell. What cannot be done is a row that says "
      "why; the exit\ncode is 1 where no cell could be done.\n\nExample:\n"
      "  crumb sweep digits.onnx --formats int3:channel,int4:channel,e2m1:channel --activations keep,uint4 "
      "--methods\n  rounding,equalize+gptq --data x.npy --valid v.npy --labels y.npy -o grid");
  verb->callback([flags] { sweep_verb(*flags); });
}

}  // namespace crumb::cli
