#include "cli/train/train_lm.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <utility>

#include "base/files/inputs.h"
#include "base/files/text.h"
#include "cli/notes.h"
#include "cli/output.h"
#include "cli/quantize/quantize_graph_report.h"
#include "cli/train/language_training.h"
#include "cli/train/training_start.h"
#include "cli/train/usual_rate.h"
#include "graph/adapters.h"
#include "graph/packed/crumb_graph.h"
#include "graph/qonnx/quantized_constants.h"
#include "jobs/checkpoint_notes.h"
#include "jobs/engines/open_engine.h"
#include "jobs/folder_files.h"
#include "jobs/language/training_request.h"
#include "jobs/language/training_texts.h"
#include "jobs/packed_files.h"
#include "jobs/same_network.h"
#include "jobs/training_report.h"
#include "models/checkpoint_graph.h"
#include "models/encoder_inputs.h"
#include "models/fresh_network.h"
#include "models/read_graph.h"
#include "quant/tensor_source.h"
#include "training/language_run.h"
#include "training/run_folder.h"

namespace crumb::cli {
namespace {

/// Returns the loss that --loss and --teacher mean together.
tasks::LanguageLoss loss_of(const LanguageTrainingCommand& requested) {
  const bool is_fresh = !requested.flags.from_scratch.empty();
  const std::string teacher = requested.flags.teacher.empty() && is_fresh ? "none" : requested.flags.teacher;
  if (is_fresh && teacher != "none")
    throw usage_error("--teacher float: a network that begins from scratch has no float one to learn from");
  if (!teacher.empty() && teacher != "float" && teacher != "none")
    throw usage_error("--teacher " + quote_text(teacher) + ": expected float or none");
  if (requested.loss.empty() && requested.task == kSentenceTask) return tasks::LanguageLoss::kMix;
  if (requested.loss.empty())
    return teacher == "none" ? tasks::LanguageLoss::kNextToken : tasks::LanguageLoss::kDivergence;
  const auto loss = tasks::chosen<tasks::LanguageLoss>(tasks::kLanguageLossNames, requested.loss, "--loss");
  if (!teacher.empty() && (teacher == "none") != (loss == tasks::LanguageLoss::kNextToken))
    throw usage_error("--loss " + requested.loss + " with --teacher " + teacher +
                      ": ce learns the text's tokens, the others learn from the float network");
  return loss;
}

Recipe language_recipe(const RecipeFlags& flags, const std::string& task) {
  if (!flags.has_base())
    throw usage_error("training " + task + " needs --weights SPEC, --scheme or --recipe");
  return recipe_of(flags);
}

void print_report(const Json& report, const std::string& folder) {
  std::vector<std::string> head{report.at("metric"), "float", "rounded"},
      row{"", measure_text(report, "float"), measure_text(report, "rounded")};
  if (report.contains("block_wise")) {
    head.emplace_back("layer by layer");
    row.push_back(measure_text(report, "block_wise"));
  }
  head.emplace_back("trained");
  row.push_back(measure_text(report, "quantized"));
  print_table({head, row});
  std::cout << report.at("steps") << " steps, " << report.at("trained_tokens") << " tokens, "
            << fixed(report.at("seconds"), 0) << " s: " << folder
            << "/{model.crumb, log.jsonl, report.json}, " << fixed(report.at("bytes").get<double>() / 1e6, 2)
            << " MB\n";
}

/// Where training begins.
struct Beginning {
  graph::Graph network;                      ///< in floats
  std::map<std::string, std::string> files;  ///< the model's other files
};

/// Throws where anything but weights is quantized. `source`: the flag and its value.
void refuse_quantized_values(const graph::Graph& graph, const std::string& source) {
  const auto quantizer = std::ranges::find_if(graph.nodes, graph::is_quantizer);
  if (quantizer != graph.nodes.end())
    throw usage_error(source + " has quantizers of activations or of its cache (" +
                      graph::text_of(*quantizer) + "); training begins with a network in floats");
}

Beginning beginning_of(const LanguageTrainingCommand& requested) {
  const LanguageFlags& flags = requested.flags;
  if (!flags.from_scratch.empty()) {
    models::FreshNetwork fresh = models::fresh_network(flags.from_scratch, requested.seed);
    return {std::move(fresh.graph), std::move(fresh.files)};
  }
  const TensorSource source = TensorSource::open(flags.model);
  if (!source.checkpoint()) {
    graph::Graph packed = models::open_graph(flags.model);
    refuse_quantized_values(packed, "--model " + quote_text(flags.model));
    return {graph::fold_quantized(std::move(packed)), jobs::packed_files(source)};
  }
  Notes notes;
  jobs::note_folder(*source.checkpoint(), notes);
  models::CheckpointGraph read = models::graph_of_checkpoint(source, quote_text(flags.model));
  note_unused(read.unused, notes);
  return {std::move(read.graph), jobs::packed_files(source)};
}

/// Returns the network of --start, whose weights are to be learned.
graph::Graph start_of(const LanguageTrainingCommand& requested, const Beginning& model) {
  const std::string& path = requested.flags.start;
  if (!requested.flags.from_scratch.empty())
    throw usage_error("--start has codes of a model, and --from-scratch draws one; give --model");
  graph::Graph start = models::open_graph(path);
  if (start.quantized.empty())
    throw usage_error("--start " + quote_text(path) + " has no codes, which crumb quantize writes");
  refuse_quantized_values(start, "--start " + quote_text(path));
  jobs::expect_same_network(
      {.graph = start,
       .name = "--start " + quote_text(path),
       .files = jobs::packed_files(TensorSource::open(path))},
      {.graph = model.network, .name = "--model " + quote_text(requested.flags.model), .files = model.files});
  return start;
}

void check_beginning(const LanguageTrainingCommand& requested, const graph::Graph& network) {
  const bool is_encoder = requested.task == kSentenceTask;
  if (models::is_encoder(network) == is_encoder) return;
  const bool is_fresh = !requested.flags.from_scratch.empty();
  throw usage_error((is_fresh ? "--from-scratch " + quote_text(requested.flags.from_scratch)
                              : "--model " + quote_text(requested.flags.model)) +
                    (is_encoder ? " is a decoder: crumb train lm"
                     : is_fresh ? " is a sentence encoder, which begins with a float one"
                                : " is a sentence encoder: crumb train embed"));
}

/// Moves the recipe's stages, which replace flags, into the request. Returns those before training.
std::vector<Stage> take_stages(const LanguageTrainingCommand& requested, tasks::LanguageRequest& request) {
  const std::vector<Stage> stages = std::exchange(request.recipe.stages, {});
  std::vector<Stage> before;
  if (stages.empty()) return before;
  if (!requested.given.empty())
    throw usage_error(requested.given[0] + ": the recipe has stages, which say it (" + to_string(stages[0]) +
                      ")");
  const auto count = [](const Stage& stage, const char* option) {
    return static_cast<std::int64_t>(stage.value(option));
  };
  request.steps.count = 0;
  std::string last;
  for (const Stage& stage : stages) {
    if (stage.name == last || last == "end_to_end" || (!stage.info().trains && !last.empty()))
      throw usage_error(
          "the stage " + stage.name + " comes behind " + last +
          "; expected stages of crumb quantize, then block_wise, then end_to_end, each of these "
          "once at most");
    if (!stage.info().trains) {
      before.push_back(stage);
      continue;
    }
    last = stage.name;
    if (stage.name == "block_wise") {
      request.block_wise = {.passes = count(stage, "passes"),
                            .sequences = count(stage, "sequences"),
                            .rate = stage.value("rate"),
                            .scale_rate = stage.value("scale_rate"),
                            .scales_alone = stage.value("scales_alone") != 0,
                            .signs = stage.value("signs") != 0};
    } else {
      request.steps.count = count(stage, "steps");
      request.optimizer.rate = stage.options.contains("rate") ? stage.value("rate") : 0;
      request.optimizer.scale_rate = stage.options.contains("scale_rate") ? stage.value("scale_rate") : 0;
      request.optimizer.warm_up = count(stage, "warm_up");
      request.steps.scales_alone = stage.value("scales_alone") != 0;
      request.steps.learn_adapters = stage.value("learn_adapters") != 0;
    }
  }
  if (last.empty())
    throw usage_error("the recipe's stages are all of crumb quantize (" + to_string(stages[0]) +
                      "); training has block_wise and end_to_end");
  return before;
}

/// Throws usage Error where adapters are to be learned too, but the network has none and no stage makes one.
void check_learned_adapters(const std::vector<Stage>& stages, const tasks::LanguageRequest& request) {
  const bool makes_one =
      std::ranges::any_of(stages, [](const Stage& stage) { return stage.name == "low_rank"; });
  const graph::Graph& start = request.start.network ? *request.start.network : request.network;
  if (request.steps.learn_adapters && !makes_one && graph::adapter_names(start).empty())
    throw usage_error(
        "adapters are to learn along, the network has none, and no stage before it makes an adapter "
        "(low_rank)");
}

/// Applies the stages before training to the network: they give the codes that it begins with. A run that
/// goes on has these in its folder.
void begin_by_stages(const LanguageTrainingCommand& requested, const std::vector<Stage>& stages,
                     training::LanguageRun& run) {
  if (stages.empty()) return;
  if (!requested.flags.from_scratch.empty())
    throw usage_error("the stage " + to_string(stages[0]) +
                      " is for a model that there is, and --from-scratch draws one");
  if (!requested.flags.start.empty())
    throw usage_error("--start " + quote_text(requested.flags.start) + ": the recipe has the stage " +
                      to_string(stages[0]) + ", which makes the codes that training begins with");
  for (const Stage& stage : stages)
    run.request.start.by += (run.request.start.by.empty() ? "" : ",") + to_string(stage);
  const std::filesystem::path kept = start_in(run.folder);
  std::error_code none;
  if (!requested.flags.training.restart &&
      std::filesystem::exists(training::RunFolder::state_in(run.folder), none) &&
      std::filesystem::exists(kept, none)) {
    const OwnFiles own;
    run.request.start.network = models::open_graph(kept.string());
    return;
  }
  jobs::open_language_trainer().check(run.request);
  std::vector<ptq::StageReport> reports;
  run.request.start.network = start_by_stages(stages, run.request, reports);
  for (const ptq::StageReport& report : reports) std::cerr << text_of(report);
  if (!jobs::is_writer()) return;
  std::filesystem::create_directories(run.folder);
  graph::write_crumb_graph(*run.request.start.network, kept, {.files = run.files});
}

/// Returns the flags of training as stages; a rate that is not given follows from the network.
std::vector<Stage> stages_of_flags(const LanguageTrainingCommand& requested) {
  const LanguageFlags& flags = requested.flags;
  std::vector<Stage> stages;
  if (flags.block_passes > 0) {
    Stage& stage = stages.emplace_back(parse_stage("block_wise"));
    stage.options["passes"] = static_cast<double>(flags.block_passes);
    const auto sequences = static_cast<double>(flags.block_sequences);
    if (sequences != stage.value("sequences")) stage.options["sequences"] = sequences;
  }
  if (flags.training.steps > 0)
    stages.push_back(jobs::end_to_end_stage(flags.training, {.rate = requested.rate,
                                                             .scale_rate = flags.scale_rate,
                                                             .scales_alone = flags.scales_alone,
                                                             .learn_adapters = flags.learn_adapters}));
  return stages;
}

/// Returns all stages that make the network, those that made --start first.
std::vector<Stage> all_stages(const LanguageTrainingCommand& requested, const Recipe& recipe) {
  std::vector<Stage> stages;
  if (!requested.flags.start.empty())
    stages = jobs::stages_that_made(jobs::packed_files(TensorSource::open(requested.flags.start)),
                                    quote_text(requested.flags.start));
  stages.insert(stages.end(), recipe.stages.begin(), recipe.stages.end());
  if (!recipe.stages.empty()) return stages;
  for (Stage& stage : stages_of_flags(requested)) stages.push_back(std::move(stage));
  return stages;
}

Recipe with_stages(Recipe recipe, std::vector<Stage> stages) {
  recipe.stages = std::move(stages);
  return recipe;
}

/// Chooses the rate where neither a flag nor a stage gives it.
void choose_rate(tasks::LanguageRequest& request) {
  if (request.optimizer.rate > 0) return;
  const UsualRate usual = request.steps.count > 0 ? usual_rate(request) : UsualRate{};
  request.optimizer.rate = usual.rate;
  if (usual.lost > 0 && jobs::is_writer())
    std::cerr << "rate " << fixed(usual.rate, 6) << ", by rounding's error, "
              << fixed(100 * std::sqrt(usual.lost), 1) << " % of the weights (--rate)\n";
}

}  // namespace

void train_language_model(const LanguageTrainingCommand& requested) {
  const LanguageFlags& flags = requested.flags;
  const bool is_encoder = requested.task == kSentenceTask, is_fresh = !flags.from_scratch.empty();
  const auto needs = [&](const std::string& given, const char* what) {
    if (given.empty()) throw usage_error("training " + requested.task + " needs " + what);
  };
  if (is_fresh && !flags.model.empty())
    throw usage_error("--from-scratch draws the weights, and --model has them; give one");
  if (!is_fresh)
    needs(flags.model, is_encoder ? "--model FOLDER" : "--model FOLDER, FILE.gguf or FILE.crumb");
  needs(requested.data, is_encoder ? "--data LINES" : "--data TEXT");
  if (is_fresh && flags.block_passes > 0)
    throw usage_error("--block-wise learns from a float network's layers, and --from-scratch has none");
  if (is_fresh && jobs::is_drawn(requested.data))
    throw usage_error("--data " + requested.data +
                      " is drawn from a float network, and --from-scratch has none");
  jobs::claim_folder_files(
      {flags.model, flags.start, requested.data, requested.valid, flags.training.teacher_logits},
      requested.output, training::kLanguageFiles);
  jobs::claim_training_report(requested.report, requested.output, terminal());
  Recipe recipe = language_recipe(requested.recipe, requested.task);
  const tasks::LanguageLoss loss = loss_of(requested);
  Beginning beginning = beginning_of(requested);
  check_beginning(requested, beginning.network);
  const std::vector<Stage> stages = all_stages(requested, recipe);
  beginning.files[std::string(kRecipePath)] = to_yaml(with_stages(recipe, stages));
  const auto read = [files = beginning.files](std::string_view path) {
    const auto found = files.find(std::string(path));
    return found == files.end() ? std::nullopt : std::optional(found->second);
  };
  std::optional<graph::Graph> start;
  if (!flags.start.empty()) start = start_of(requested, beginning);
  training::LanguageRun run{
      .request = {.network = std::move(beginning.network),
                  .recipe = std::move(recipe),
                  .supervision = {.loss = loss, .has_floats = !is_fresh},
                  .block_wise = {.passes = flags.block_passes, .sequences = flags.block_sequences},
                  .steps = {.batch = requested.batch > 0 ? requested.batch : jobs::batch_of(is_encoder),
                            .seed = requested.seed},
                  .optimizer = {.rate = requested.rate}},
      .files = std::move(beginning.files),
      .folder = requested.output};
  run.request.start.network = std::move(start);
  jobs::take_training(flags.training, run.request, terminal());
  run.request.steps.scales_alone = flags.scales_alone;
  run.request.steps.learn_adapters = flags.learn_adapters;
  run.request.optimizer.scale_rate = flags.scale_rate;
  const std::vector<Stage> before = take_stages(requested, run.request);
  jobs::refuse_rotated_states(stages, run.request, terminal());
  check_learned_adapters(before, run.request);
  jobs::read_training_texts(flags.training,
                            {.data = requested.data, .valid = requested.valid, .folder = requested.output},
                            read, run.request, terminal());
  begin_by_stages(requested, before, run);
  choose_rate(run.request);
  jobs::LanguageTraining how = flags.training;
  how.keeps_memory = true;
  const Json report = jobs::train_with(how, std::move(run), terminal());
  if (report.is_null()) return;  // another process has it
  jobs::write_training_report(requested.report, "train", report, requested.output);
  requested.json ? print_json(report) : print_report(report, requested.output);
}

}  // namespace crumb::cli
