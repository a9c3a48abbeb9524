#include "cli/train/train_network.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <limits>
#include <thread>

#include "base/files/text.h"
#include "cli/flags/flag_group.h"
#include "cli/flags/number_checks.h"
#include "cli/flags/report_flag.h"
#include "cli/flags/threads_flag.h"
#include "cli/output.h"
#include "cli/train/train_progress.h"
#include "cli/train/train_report.h"
#include "export/lint/lint.h"
#include "jobs/engines/open_engine.h"
#include "jobs/training_report.h"
#include "quant/accumulator/integer_width.h"
#include "training/run.h"
#include "training/sweep.h"
#include "training/table.h"

namespace crumb::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeights = "int4:channel";
constexpr const char* kActivations = "uint4:tensor";

/// Returns the spec with four bits where it has eight.
std::string in_four_bits(const SpecOrKeep& spec) {
  const bool has_eight = spec && spec->number->grid == Grid::kInteger && spec->number->bits == 8;
  return has_eight ? with_bits(*spec, 4).to_string() : to_string(spec);
}

/// Returns W4A4 where nothing else is said, in the form of the profile's recipe.
Recipe training_recipe(RecipeFlags flags, const std::string& profile) {
  use_profile(profile, flags);
  if (flags.recipe.empty() && flags.scheme.empty()) {
    const bool has_form = !flags.base.empty();
    const Recipe form = has_form ? preset_recipe(flags.base) : Recipe{};
    if (flags.weights.empty()) flags.weights = has_form ? in_four_bits(form.weights) : kWeights;
    if (flags.activations.empty())
      flags.activations = has_form ? in_four_bits(form.activations) : kActivations;
  }
  Recipe recipe = recipe_of(flags);
  refuse_stages(recipe);
  return recipe;
}

void train_once(const NetworkTrainingFlags& flags, const tasks::TrainRequest& request) {
  Json report;
  {
    TrainLine line;
    const training::TrainRun run{
        .request = request,
        .folder = flags.output,
        .keep_every = flags.keep_every,
        .restart = flags.restart,
        .profile = flags.profile,
        .progress = [&](const tasks::TrainProgress& progress) { line.update(progress); }};
    report = training::train_into(run, jobs::open_trainer());
  }
  jobs::write_training_report(flags.report, "train", report, flags.output);
  report.erase("request");
  if (flags.json) return print_json(report);
  if (flags.float_only) return print_float_report(report, flags.output);
  print_train_report(report, flags.output, request.own ? request.own->notes : std::vector<std::string>());
}

void train_grid(const NetworkTrainingFlags& flags, const tasks::TrainRequest& base) {
  const fs::path folder = flags.output;
  std::error_code error;
  fs::create_directories(folder, error);
  const training::SweepGrid grid = training::grid_of(flags.sweep, base, flags.seeds);
  const unsigned cores = std::max(std::thread::hardware_concurrency(), 1U);
  const double start = now_seconds();
  SweepLines lines;
  const std::vector<Json> reports = training::run_grid(
      grid, folder, flags.threads > 0 ? flags.threads : static_cast<int>(cores), jobs::open_trainer,
      [&](const training::GridProgress& progress) { lines.update(progress); });
  const training::SweepTable table = training::table_of(grid, reports);
  training::write_table(table, folder);
  jobs::write_training_report(flags.report, table);
  if (flags.json) return print_json(training::json_of(table));
  std::cout << table.task << " (" << table.network << "), " << table.metric << " of the test set against "
            << table.title << ", " << flags.seeds << (flags.seeds == 1 ? " seed, " : " seeds, ")
            << reports.at(0).at("float_epochs").get<int>() + reports.at(0).at("epochs").get<int>()
            << " epochs\n";
  if (!table.miniature_of.empty()) std::cout << "miniature of " << table.miniature_of << "\n";
  print_table(training::rows_of(table.references, table.metric));
  print_table(training::rows_of(table));
  if (!grid.note.empty()) std::cout << "note: " << grid.note << "\n";
  if (has_costs(table)) {
    std::cout << "BOPs, and the share of weights that are zero:\n";
    print_table(cost_rows_of(table));
  }
  std::cout << "written in " << fixed(now_seconds() - start, 0) << " s: " << folder.string()
            << "/{sweep.json, sweep.csv, sweep.svg, points/}\n";
}

/// The flags that a float network trains by; all others are for quantizers.
constexpr std::array kOfFloatOnly = {
    "--help",    "--data", "--labels",           "--loss",         "--loss-weight", "--batch-axis",
    "--valid",   "-o",     "--network",          "--float-epochs", "--batch",       "--seed",
    "task",      "model",  "--float-only",       "--keep-zeros",   "--data-dir",    "--threads",
    "--restart", "--json", "--checkpoint-every", "--report"};

void refuse_what_quantizes(const CLI::App& verb) {
  for (const CLI::Option* option : verb.get_options())
    if (option->count() > 0 &&
        std::ranges::none_of(kOfFloatOnly, [&](const char* name) { return option->check_name(name); }))
      throw usage_error(option->get_name() + " is for networks with quantizers, found --float-only");
}

}  // namespace

void add_network_training_flags(CLI::App& verb, NetworkTrainingFlags& flags) {
  flag_group(verb, kTrainingFlags);
  verb.add_option("--epochs", flags.epochs, "Epochs with quantizers (the task's own)")
      ->check(at_least(0))
      ->type_name("EPOCHS");
  verb.add_option("--float-epochs", flags.float_epochs, "Epochs before, in float (the task's own)")
      ->check(at_least(0))
      ->type_name("EPOCHS");
  verb.add_option("--batch", flags.batch, "Samples of a step (the task's own; of graphs 32)")
      ->check(batch_size())
      ->type_name("SAMPLES");
  verb.add_option("--rate", flags.rate,
                  "The learning rate with quantizers, at the start (the task's own; of graphs 0.001)")
      ->check(learning_rate())
      ->type_name("RATE");
  verb.add_option("--seed", flags.seed, "Of weights and of the order of samples (0)")
      ->check(at_least(0, std::numeric_limits<std::uint32_t>::max()))
      ->type_name("NUMBER");
  verb.add_option("--float-longer", flags.float_longer,
                  "Whether the float network trains on for as many epochs as the quantized one, for "
                  "comparison; off saves that time (on)")
      ->check(CLI::IsMember({"on", "off"}))
      ->type_name("on|off");
  verb.add_flag("--float-only", flags.float_only,
                "Train the float network alone, and write it with its samples: what crumb quantize and crumb "
                "sweep take");
  add_recipe_flags(verb, flags.recipe);
  add_training_flags(verb, flags.recipe);
  verb.add_flag("--all-layers", flags.all_layers,
                "The accumulator is for the first and the last layer too, which are left out otherwise");
  verb.add_option("--profile", flags.profile,
                  "What shall take the network. Its defaults hold, and what it cannot take is refused (none)")
      ->type_name("finn|hls4ml|qonnx");
  flag_group(verb, "A grid of runs");
  verb.add_option("--sweep", flags.sweep, "Train a grid of networks, which differ in this (one network)")
      ->type_name("accumulator|bits|prune-bits|formats");
  verb.add_option("--seeds", flags.seeds, "Runs for each point (3)")->check(at_least(1))->type_name("RUNS");
  add_threads_flag(verb, flags.threads, "Of a grid: points that are trained at once (as many as cores)");
  flag_group(verb, kOutputFlags);
  verb.add_option("-o,--output", flags.output, "The folder for models, log and report")
      ->required()
      ->type_name("FOLDER");
  verb.add_option("--checkpoint-every", flags.keep_every,
                  "Steps between two states to go on from (every five seconds)")
      ->check(at_least(1))
      ->type_name("STEPS");
  verb.add_flag("--restart", flags.restart, "Drop the state of an unfinished run");
  add_report_flag(verb, flags.report);
  verb.add_flag("--json", flags.json, "Print one JSON object");
}

std::string network_training_footer() {
  return "Without a recipe or scheme: W4A4. The first and the last layer have 8-bit weights and inputs, "
         "unless\n"
         "a rule says otherwise of them, or the sweep is prune-bits. A run that was cut off goes on where "
         "it\n"
         "stood; a sweep keeps its finished points.\n\n";
}

void check_network_training_flags(const CLI::App& verb, const NetworkTrainingFlags& flags) {
  if (!flags.profile.empty()) (void)exporting::qonnx_profile_named(flags.profile);
  if (!flags.profile.empty() && !flags.sweep.empty()) {
    throw usage_error("--profile is for one network, found --sweep " + flags.sweep +
                      ", which varies what a tool may not take");
  }
  if (flags.float_only) refuse_what_quantizes(verb);
  if (flags.sweep.empty() && verb.get_option("--seeds")->count() > 0)
    throw usage_error("--seeds is of a grid of runs: give --sweep");
}

void train_network(const NetworkTrainingFlags& flags, tasks::TrainRequest request) {
  jobs::claim_training_report(flags.report, flags.output, terminal());
  request.recipe = training_recipe(flags.recipe, flags.profile);
  request.fixed_point_input = flags.profile == "hls4ml" || flags.profile == "finn";
  request.all_layers = flags.all_layers;
  request.epochs = flags.epochs;
  request.float_epochs = flags.float_epochs;
  request.batch = flags.batch;
  request.rate = flags.rate;
  request.seed = flags.seed;
  request.float_only = flags.float_only;
  request.float_longer = flags.float_longer == "on";
  if (flags.sweep.empty()) return train_once(flags, request);
  train_grid(flags, request);
}

}  // namespace crumb::cli
