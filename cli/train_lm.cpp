#include "cli/train_lm.h"

#include <array>
#include <iostream>
#include <utility>

#include "base/files/text.h"
#include "cli/notes.h"
#include "cli/open_engine.h"
#include "cli/output.h"
#include "cli/packed_files.h"
#include "models/checkpoint_graph.h"
#include "models/encoder_inputs.h"
#include "models/weight_source.h"
#include "quant/tensor_source.h"
#include "training/language_run.h"

namespace crumb::cli {
namespace {

constexpr double kRate = 5e-4;

constexpr std::array kOfLanguage = {"--model",          "--teacher",        "--temperature", "--length",
                                    "--steps",          "--warm-up",        "--tokens",      "--products",
                                    "--teacher-logits", "--top-k",          "--at-once",     "--recompute",
                                    "--block-wise",     "--block-sequences"};
constexpr std::array kOfDecoders = {"--teacher", "--temperature", "--tokens",     "--teacher-logits",
                                    "--top-k",   "--recompute",   "--block-wise", "--block-sequences"};
constexpr std::array kOfOthers = {"--labels",     "--profile",  "--network", "--epochs", "--float-epochs",
                                  "--all-layers", "--data-dir", "--sweep",   "--seeds"};

/// What --loss and --teacher say together.
tasks::LanguageLoss loss_of(const LanguageWish& wish) {
  const std::string& teacher = wish.flags.teacher;
  if (!teacher.empty() && teacher != "float" && teacher != "none")
    throw usage_error("--teacher " + quote_text(teacher) + ": expected float or none");
  if (wish.loss.empty() && wish.task == kSentenceTask) return tasks::LanguageLoss::kMix;
  if (wish.loss.empty())
    return teacher == "none" ? tasks::LanguageLoss::kNextToken : tasks::LanguageLoss::kDivergence;
  const auto loss = tasks::chosen<tasks::LanguageLoss>(tasks::kLanguageLossNames, wish.loss, "--loss");
  if (!teacher.empty() && (teacher == "none") != (loss == tasks::LanguageLoss::kNextToken))
    throw usage_error("--loss " + wish.loss + " with --teacher " + teacher +
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

}  // namespace

void add_language_flags(CLI::App& verb, LanguageFlags& flags) {
  verb.add_option("--model", flags.model,
                  "Of lm and embed: the model in floats, a Hugging Face folder or (lm) a GGUF file");
  verb.add_option(
      "--teacher", flags.teacher,
      "Of lm: whose predictions are learned: float, the network's own in floats, or none, then the text's "
      "tokens, as --loss ce (float)");
  add_language_training_flags(verb, flags.training, "Of lm: ");
  verb.add_option("--block-wise", flags.block_passes,
                  "Of lm: first each layer by itself, so many passes over the text's first sequences (0)")
      ->check(CLI::NonNegativeNumber);
  verb.add_option("--block-sequences", flags.block_sequences, "Of lm: these sequences (40)")
      ->check(CLI::PositiveNumber);
}

void refuse_flags_of_others(const CLI::App& verb, const std::string& task) {
  const auto refuse = [&](const auto& names, const char* why) {
    for (const char* name : names)
      if (verb.get_option(name)->count() > 0) throw usage_error(std::string(name) + why);
  };
  if (task == kSentenceTask) refuse(kOfDecoders, " is for training a decoder (crumb train lm)");
  if (task == kLanguageTask || task == kSentenceTask)
    refuse(kOfOthers, " is not for training a language model");
  else
    refuse(kOfLanguage, " is for training a language model (crumb train lm, crumb train embed)");
}

void train_language_model(const LanguageWish& wish) {
  const LanguageFlags& flags = wish.flags;
  const bool is_encoder = wish.task == kSentenceTask;
  const auto needs = [&](const std::string& given, const char* what) {
    if (given.empty()) throw usage_error("training " + wish.task + " needs " + what);
  };
  needs(flags.model, is_encoder ? "--model FOLDER" : "--model FOLDER or FILE.gguf");
  needs(wish.data, is_encoder ? "--data LINES" : "--data TEXT");
  const Recipe recipe = language_recipe(wish.recipe, wish.task);
  const TensorSource source = TensorSource::open(flags.model);
  if (source.checkpoint() == nullptr)
    throw usage_error(
        "--model " + quote_text(flags.model) +
        " is a packed file; training begins with floats (crumb dequantize makes a folder of it)");
  Notes notes;
  note_folder(*source.checkpoint(), notes);
  const auto weights = models::weights_of(source);
  const auto read = [&](std::string_view path) { return weights->file(path); };
  graph::Graph network = models::graph_of_checkpoint(source, quote_text(flags.model)).graph;
  if (models::is_encoder(network) != is_encoder)
    throw usage_error(
        "--model " + quote_text(flags.model) +
        (is_encoder ? " is a decoder: crumb train lm" : " is a sentence encoder: crumb train embed"));
  training::LanguageRun run{
      .request = {.network = std::move(network),
                  .recipe = recipe,
                  .loss = loss_of(wish),
                  .batch = wish.batch > 0 ? wish.batch : batch_of(is_encoder),
                  .block_wise = {.passes = flags.block_passes, .sequences = flags.block_sequences},
                  .rate = wish.rate > 0 ? wish.rate : kRate,
                  .seed = wish.seed,
                  .threads = wish.threads},
      .files = packed_files(*source.checkpoint(), recipe),
      .folder = wish.output,
      .keep_every = wish.keep_every,
      .restart = wish.restart};
  read_language_training(flags.training, wish.data, wish.valid, read, run.request);
  keep_memory();
  Json report;
  {
    LanguageProgressLine line;
    run.progress = [&](const tasks::LanguageProgress& progress) { line.update(progress); };
    run.predicted = [&](std::int64_t done, std::int64_t sequences) { line.predicted(done, sequences); };
    run.layer_done = [&](const tasks::LayerLine& layer, std::int64_t layers) {
      line.layer_done(layer, layers);
    };
    report = training::train_language_into(run, open_language_trainer());
  }
  wish.json ? print_json(report) : print_report(report, wish.output);
}

}  // namespace crumb::cli
