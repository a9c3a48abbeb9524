// crumb train: a float network, the same with quantizers in the loop, and the files that it ends in.
#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <limits>
#include <thread>

#include "base/files/text.h"
#include "base/text/nearest_name.h"
#include "base/text/number.h"
#include "cli/data_folder.h"
#include "cli/number_checks.h"
#include "cli/open_engine.h"
#include "cli/output.h"
#include "cli/recipe_flags.h"
#include "cli/threads_flag.h"
#include "cli/train_lm.h"
#include "cli/train_own.h"
#include "cli/train_progress.h"
#include "cli/train_report.h"
#include "cli/training_inputs.h"
#include "cli/verb.h"
#include "export/lint/lint.h"
#include "quant/integer_width.h"
#include "training/run.h"
#include "training/sweep.h"
#include "training/table.h"

namespace crumb::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeights = "int4:channel";
constexpr const char* kActivations = "uint4:tensor";
constexpr int kSeeds = 3;

struct TrainOptions {
  std::string task, network, output, data, sweep, profile;
  RecipeFlags recipe;
  OwnNetworkFlags own;
  LanguageFlags language;
  std::int64_t batch = 0;
  double rate = 0;
  int epochs = -1, float_epochs = -1, seeds = kSeeds, threads = 0, keep_every = 0;
  std::uint64_t seed = 0;
  bool all_layers = false, float_only = false, restart = false, json = false;
};

/// With four bits where it has eight.
std::string in_four_bits(const SpecOrKeep& spec) {
  const bool has_eight = spec && spec->number->grid == Grid::kInteger && spec->number->bits == 8;
  return has_eight ? with_bits(*spec, 4).to_string() : to_string(spec);
}

/// W4A4 where nothing else is said, in the form of the profile's recipe.
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

tasks::TrainRequest request_of(const TrainOptions& options) {
  using tasks::kTasks;
  const bool is_own = is_own_network(options.task);
  if (is_own) {
    std::vector<std::string> inputs{options.task, options.own.data, options.own.labels};
    inputs.insert(inputs.end(), options.own.valid.begin(), options.own.valid.end());
    refuse_training_over(inputs, options.output,
                         options.float_only ? training::kFloatFiles : training::kTaskFiles);
  }
  if (!is_own && std::ranges::find(kTasks, options.task) == std::end(kTasks)) {
    throw usage_error("there is no task and no file " + quote_text(options.task) +
                      "; expected digits, jets, ocr, sr or a file MODEL.onnx; did you mean '" +
                      nearest_name(options.task, kTasks) + "'?");
  }
  if (!is_own) refuse_own_network_flags(options.task, options.own);
  if (is_own && !options.network.empty()) throw usage_error("--network is for the task digits");
  if (is_own && !options.data.empty())
    throw usage_error("--data-dir is for tasks, found the file " + quote_text(options.task) +
                      ", whose samples are --data and --labels");
  return {.task = is_own ? std::string(tasks::kOwnTask) : options.task,
          .own = is_own ? read_own_network(options.task, options.own) : nullptr,
          .network = options.network,
          .data = data_folder(options.data),
          .recipe = training_recipe(options.recipe, options.profile),
          .fixed_point_input = options.profile == "hls4ml" || options.profile == "finn",
          .all_layers = options.all_layers,
          .epochs = options.epochs,
          .float_epochs = options.float_epochs,
          .batch = options.batch,
          .rate = options.rate,
          .seed = options.seed,
          .float_only = options.float_only,
          .wrap_bits = {}};
}

void train_once(const TrainOptions& options, const tasks::TrainRequest& request) {
  Json report;
  {
    TrainLine line;
    const training::TrainRun run{
        .request = request,
        .folder = options.output,
        .keep_every = options.keep_every,
        .restart = options.restart,
        .profile = options.profile,
        .progress = [&](const tasks::TrainProgress& progress) { line.update(progress); }};
    report = training::train_into(run, open_trainer());
  }
  report.erase("request");
  if (options.json) return print_json(report);
  if (options.float_only) return print_float_report(report, options.output);
  print_train_report(report, options.output);
}

void sweep(const TrainOptions& options, const tasks::TrainRequest& base) {
  const fs::path folder = options.output;
  std::error_code error;
  fs::create_directories(folder, error);
  const training::SweepGrid grid = training::grid_of(options.sweep, base, options.seeds);
  const unsigned cores = std::max(std::thread::hardware_concurrency(), 1U);
  const double start = now_seconds();
  SweepLines lines;
  const std::vector<Json> reports = training::run_grid(
      grid, folder, options.threads > 0 ? options.threads : static_cast<int>(cores), open_trainer,
      [&](const training::GridProgress& progress) { lines.update(progress); });
  const training::SweepTable table = training::table_of(grid, reports);
  training::write_table(table, folder);
  if (options.json) return print_json(training::json_of(table));
  std::cout << table.task << " (" << table.network << "), " << table.metric << " of the test set against "
            << table.title << ", " << options.seeds << (options.seeds == 1 ? " seed, " : " seeds, ")
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

/// What a float network is trained by; all other flags are of quantizers.
constexpr std::array kOfFloatOnly = {"--help",
                                     "--data",
                                     "--labels",
                                     "--loss",
                                     "--valid",
                                     "-o",
                                     "--network",
                                     "--float-epochs",
                                     "--batch",
                                     "--seed",
                                     "task",
                                     "--float-only",
                                     "--data-dir",
                                     "--threads",
                                     "--restart",
                                     "--json",
                                     "--checkpoint-every"};

void refuse_what_quantizes(const CLI::App& verb) {
  for (const CLI::Option* option : verb.get_options())
    if (option->count() > 0 &&
        std::ranges::none_of(kOfFloatOnly, [&](const char* name) { return option->check_name(name); }))
      throw usage_error(option->get_name() + " is for networks with quantizers, found --float-only");
}

LanguageWish language_wish_of(const CLI::App& verb, const TrainOptions& options) {
  return {.task = options.task,
          .flags = options.language,
          .recipe = options.recipe,
          .data = options.own.data,
          .valid = options.own.valid.empty() ? std::string() : options.own.valid[0],
          .loss = options.own.loss,
          .output = options.output,
          .given = flags_of_stages(verb),
          .batch = options.batch,
          .rate = options.rate,
          .seed = options.seed,
          .threads = options.threads,
          .keep_every = options.keep_every,
          .restart = options.restart,
          .json = options.json};
}

void train_verb(const CLI::App& verb, const TrainOptions& options) {
  const bool is_language = options.task == kLanguageTask || options.task == kSentenceTask;
  refuse_flags_of_others(verb, options.task);
  if (options.own.valid.size() == (is_language ? 2 : 1))
    throw usage_error(is_language ? "--valid takes one text here" : "--valid takes two files: X.npy Y.npy");
  if (is_language) return train_language_model(language_wish_of(verb, options));
  if (!options.profile.empty()) (void)exporting::qonnx_profile_named(options.profile);
  if (!options.profile.empty() && !options.sweep.empty()) {
    throw usage_error("--profile is for one network, found --sweep " + options.sweep +
                      ", which varies what a tool may not take");
  }
  if (options.float_only) refuse_what_quantizes(verb);
  if (options.sweep.empty() && verb.get_option("--seeds")->count() > 0)
    throw usage_error("--seeds is of a grid of runs: give --sweep");
  const tasks::TrainRequest request = request_of(options);
  if (options.sweep.empty()) return train_once(options, request);
  sweep(options, request);
}

}  // namespace

void add_train(CLI::App& app) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* verb =
      app.add_subcommand("train", "Train a network with quantizers in the loop: yours, or that of a task");
  verb->add_option(
          "task", options->task,
          "MODEL.onnx (a graph), lm (a language model), embed (a sentence encoder), or digits, jets, ocr, "
          "sr")
      ->required();
  add_own_network_flags(*verb, options->own);
  add_language_flags(*verb, options->language);
  verb->add_option("-o,--output", options->output, "The folder for models, log and report")->required();
  verb->add_option(
      "--profile", options->profile,
      "What shall take the network: finn, hls4ml or qonnx. Its defaults; refused is what it cannot take");
  verb->add_option("--network", options->network, "Of digits: mlp or cnn (mlp)");
  verb->add_option("--epochs", options->epochs, "Epochs with quantizers (the task's own)")
      ->check(at_least(0));
  verb->add_option("--float-epochs", options->float_epochs, "Epochs before, in float (the task's own)")
      ->check(at_least(0));
  verb->add_option("--batch", options->batch, "Samples of a step (the task's own; 32, of lm 4)")
      ->check(batch_size());
  verb->add_option("--rate", options->rate,
                   "Of learning, with quantizers, at the start (the task's own; 0.001); of lm and embed the "
                   "highest (in proportion to rounding's error)")
      ->check(learning_rate());
  verb->add_option("--seed", options->seed, "Of weights and of the order of samples (0)")
      ->check(at_least(0, std::numeric_limits<std::uint32_t>::max()));
  add_recipe_flags(*verb, options->recipe);
  add_training_flags(*verb, options->recipe);
  verb->add_flag("--all-layers", options->all_layers,
                 "The accumulator is for the first and the last layer too, which are left out otherwise");
  verb->add_flag(
      "--float-only", options->float_only,
      "Train the float network alone, and write it with its samples: what crumb quantize and crumb "
      "sweep take");
  verb->add_option("--data-dir", options->data,
                   "The folder with data sets (CRUMB_DATA, or what scripts/setup filled)");
  verb->add_option("--sweep", options->sweep, "A grid of runs: accumulator, bits, prune-bits or formats");
  verb->add_option("--seeds", options->seeds, "Of a sweep: runs for each point (3)")->check(at_least(1));
  add_threads_flag(
      *verb, options->threads,
      "Of a sweep: points that are trained at once; of lm and embed: threads of a step (as many as cores)");
  verb->add_option("--checkpoint-every", options->keep_every,
                   "Steps between two states to go on from (five seconds; of lm and embed ten minutes)")
      ->check(at_least(1));
  verb->add_flag("--restart", options->restart, "Drop the state of an unfinished run");
  verb->add_flag("--json", options->json, "Print one JSON object");
  verb->footer(
      "Without a recipe or scheme: W4A4. The first and the last layer have 8-bit weights and inputs, unless "
      "a rule says otherwise\n"
      "of them, or the sweep is prune-bits. A run that was cut off goes on where it stood; a sweep keeps its "
      "finished points.\n\n"
      "Example:\n"
      "  crumb train digits -o digits_w4a4 --accumulator 10:a2q_plus\n"
      "  crumb train net.onnx --data x.npy --labels y.npy --loss ce -o net_w4a4\n"
      "  crumb train lm --model SmolLM2 --data text.txt --valid valid.txt --weights int2h:group=32 -o "
      "smollm2_w2\n"
      "  crumb train embed --model all-MiniLM-L6-v2 --data lines.txt --weights int3:group=64 -o minilm_w3\n"
      "  crumb train digits -o sweep --sweep accumulator --seeds 3");
  verb->callback([options, verb] { train_verb(*verb, *options); });
}

}  // namespace crumb::cli
