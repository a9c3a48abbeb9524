// crumb recover: trains a low-rank adapter on frozen codes to win back what quantizing lost.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <limits>

#include "base/files/text.h"
#include "cli/flags/flag_group.h"
#include "cli/flags/number_checks.h"
#include "cli/flags/threads_flag.h"
#include "cli/flags/verb.h"
#include "cli/inspect/same_network.h"
#include "cli/notes.h"
#include "cli/output.h"
#include "cli/train/language_training.h"
#include "graph/adapters.h"
#include "jobs/checkpoint_notes.h"
#include "jobs/engines/open_engine.h"
#include "jobs/folder_files.h"
#include "jobs/packed_files.h"
#include "models/checkpoint_graph.h"
#include "models/encoder_inputs.h"
#include "models/read_graph.h"
#include "models/weight_source.h"
#include "quant/tensor_source.h"
#include "training/language_run.h"
#include "training/run_folder.h"

namespace crumb::cli {
namespace {

constexpr double kRate = 1e-3;

struct RecoverFlags {
  std::string model, baseline, data, valid, output, init = "zero", ranks = "even", loss, type = "bf16";
  qat::AdapterOptions adapter;
  LanguageTrainingFlags training;
  std::int64_t batch = 0;
  double rate = kRate;
  int threads = 0, keep_every = 0;
  bool restart = false, json = false;
  bool is_named = false;
  std::string of_fresh_ones;  ///< a given flag that only a fresh adapter has
};

void print_recovered(const Json& report, const std::string& folder) {
  std::vector<std::string> head{report.at("metric"), "float", "quantized"},
      row{"", measure_text(report, "float"), measure_text(report, "rounded")};
  if (report.contains("start")) {
    head.push_back(report.at("adapter").at("init"));
    row.push_back(measure_text(report, "start"));
  }
  head.emplace_back("recovered");
  row.push_back(measure_text(report, "quantized"));
  print_table({head, row});
  const Json& adapter = report.at("adapter");
  const bool is_even = !adapter.contains("ranks");
  std::cout << (is_even
                    ? "rank " + adapter.at("rank").dump()
                    : "ranks " + adapter.at("ranks").at(0).dump() + " to " + adapter.at("ranks").at(1).dump())
            << " beside " << adapter.at("layers")
            << " matrices: " << fixed(adapter.at("weights").get<double>() / 1e6, 2) << " million weights ("
            << adapter.at("type").get<std::string>() << ")\n"
            << report.at("steps") << " steps, " << report.at("trained_tokens") << " tokens, "
            << fixed(report.at("seconds"), 0) << " s: " << folder
            << "/{model.crumb, adapter/, log.jsonl, report.json}, "
            << fixed(report.at("bytes").get<double>() / 1e6, 2) << " MB\n";
}

/// Returns the adapter that goes on: the file's adapter of that name, or its only one.
qat::AdapterOptions kept_adapter(const RecoverFlags& flags, const graph::Graph& base) {
  if (!flags.of_fresh_ones.empty())
    throw usage_error(flags.of_fresh_ones +
                      " is for a fresh adapter; with --init kept the file's own goes on");
  const std::vector<std::string> names = graph::adapter_names(base);
  qat::AdapterOptions options = flags.adapter;
  if (names.size() == 1 && !flags.is_named) options.name = names[0];
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  if (std::ranges::find(names, options.name) == names.end())
    throw usage_error(quote_text(flags.model) +
                      (names.empty() ? " has no adapter that could go on"
                                     : " has the adapters " + all + ": say which with --name"));
  options.rank = graph::adapter_of(base, options.name).updates.at(0).rank;
  return options;
}

/// Throws unless codes are those of the baseline: such an adapter begins with the difference between the
/// float network's matrices and the codes. Where codes are of other numbers, or an adapter holds a part of
/// them already, that difference is no rounding error.
void expect_codes_of_the_baseline(const RecoverFlags& flags, const graph::Graph& base,
                                  const std::map<std::string, std::string>& files) {
  const std::string which = "--init " + flags.init + " begins with each matrix' error, and ";
  const std::string way =
      "; begin with --init zero" +
      std::string(graph::adapter_names(base).empty() ? "" : ", or go on with --init kept");
  if (!graph::adapter_names(base).empty())
    throw usage_error(which + quote_text(flags.model) + " has an adapter, " +
                      quote_text(graph::adapter_names(base)[0]) + ", which holds a part of it" + way);
  for (const Stage& stage : stages_that_made(files, quote_text(flags.model)))
    if (stage.info().in_floats != InFloats::kStays || stage.info().trains)
      throw usage_error(which + "the stage " + stage.name + " that made " + quote_text(flags.model) +
                        " changed its matrices before they were rounded: they are none of the baseline's" +
                        way);
}

/// Opens the float network whose answers the base shall match.
graph::Graph open_baseline(const std::string& path, const std::map<std::string, std::string>& files,
                           const graph::Graph& base, const std::string& name) {
  graph::Graph network = models::open_graph(path);
  expect_same_network({.graph = network,
                       .name = "--baseline " + quote_text(path),
                       .files = jobs::packed_files(TensorSource::open(path))},
                      {.graph = base, .name = quote_text(name), .files = files});
  return network;
}

void recover_verb(const RecoverFlags& flags) {
  jobs::claim_folder_files(
      {flags.model, flags.baseline, flags.data, flags.valid, flags.training.teacher_logits}, flags.output,
      training::kLanguageFiles);
  const TensorSource source = TensorSource::open(flags.model);
  graph::Graph base = models::open_graph(flags.model);
  const bool is_encoder = models::is_encoder(base);
  const auto loss = flags.loss.empty()
                        ? is_encoder ? tasks::LanguageLoss::kMix : tasks::LanguageLoss::kDivergence
                        : tasks::chosen<tasks::LanguageLoss>(tasks::kLanguageLossNames, flags.loss, "--loss");
  const auto start = tasks::chosen<tasks::AdapterStart>(tasks::kAdapterStartNames, flags.init, "--init");
  const auto ranks = tasks::chosen<tasks::AdapterRanks>(tasks::kAdapterRanksNames, flags.ranks, "--ranks");
  if (ranks != tasks::AdapterRanks::kEven && !tasks::begins_elsewhere(start))
    throw usage_error("--ranks " + flags.ranks +
                      " follow from each matrix' error: give --init svd or whitened");
  const graph::AdapterType type = graph::adapter_type_named(flags.type);
  const qat::AdapterOptions adapter =
      start == tasks::AdapterStart::kKept ? kept_adapter(flags, base) : flags.adapter;
  const bool needs_floats = loss != tasks::LanguageLoss::kNextToken || tasks::begins_elsewhere(start);
  const bool is_kept = !flags.training.teacher_logits.empty() && loss == tasks::LanguageLoss::kDivergence &&
                       std::filesystem::exists(flags.training.teacher_logits);
  if (flags.baseline.empty() && needs_floats && !(is_kept && !tasks::begins_elsewhere(start)))
    throw usage_error(
        "give --baseline FLOAT, the network in floats; only --loss ce and predictions that were kept "
        "(--teacher-logits), with --init zero or kept, go without");
  if (is_drawn(flags.data) && flags.baseline.empty())
    throw usage_error("--data " + flags.data + " is what the float network draws: give --baseline FLOAT");
  Notes notes;
  if (source.checkpoint()) jobs::note_folder(*source.checkpoint(), notes);
  const auto weights = models::weights_of(source);
  const std::map<std::string, std::string> files = jobs::packed_files(source);
  if (tasks::begins_elsewhere(start)) expect_codes_of_the_baseline(flags, base, files);
  graph::Graph network =
      flags.baseline.empty() ? base : open_baseline(flags.baseline, files, base, flags.model);
  training::LanguageRun run{.request = {.network = std::move(network),
                                        .recovery = tasks::Recovery{.base = std::move(base),
                                                                    .options = adapter,
                                                                    .start = start,
                                                                    .ranks = ranks,
                                                                    .type = type},
                                        .loss = loss,
                                        .has_floats = !flags.baseline.empty(),
                                        .batch = flags.batch > 0 ? flags.batch : batch_of(is_encoder),
                                        .rate = flags.rate,
                                        .seed = flags.adapter.seed,
                                        .threads = flags.threads},
                            .files = files,
                            .folder = flags.output,
                            .keep_every = flags.keep_every,
                            .restart = flags.restart,
                            .writes = is_writer()};
  LanguageTrainingFlags how = flags.training;
  how.restart = flags.restart;
  take_training_flags(how, run.request);
  if (run.request.has_floats)
    refuse_turned_states(stages_that_made(files, quote_text(flags.model)), run.request);
  read_training_texts(
      how, flags.data, flags.valid, flags.output, [&](std::string_view path) { return weights->file(path); },
      run.request);
  keep_memory();
  Json report;
  {
    LanguageProgressLine line;
    run.news = line.news(run.request.rate);
    report = training::train_language_into(run, jobs::open_language_trainer());
  }
  if (report.is_null()) return;  // another process has the report
  flags.json ? print_json(report) : print_recovered(report, flags.output);
}

}  // namespace

void add_recover(CLI::App& app) {
  auto flags = std::make_shared<RecoverFlags>();
  CLI::App* verb =
      app.add_subcommand("recover", "Train a low-rank adapter (LoRA) beside a language model's frozen codes");
  verb->add_option("model", flags->model, "The quantized model, a packed file")
      ->type_name("FILE")
      ->required();
  verb->add_option("--baseline", flags->baseline,
                   "The same model in floats, which it learns from: a Hugging Face folder or a GGUF file")
      ->type_name("MODEL")
      ->group(kInputFlags);
  verb->add_option("--data", flags->data,
                   "A text, or texts or conversations (.jsonl), to train by; of a sentence encoder lines; "
                   "synthetic: a "
                   "text that the float model draws; synthetic-chat: conversations that it draws")
      ->type_name("FILE|synthetic|synthetic-chat")
      ->group(kInputFlags)
      ->required();
  verb->add_option("--valid", flags->valid, "A text to measure by")->type_name("FILE")->group(kInputFlags);
  verb->add_option("-o,--output", flags->output,
                   "The folder for the model with its adapter, the adapter by "
                   "itself (PEFT), log and report")
      ->type_name("FOLDER")
      ->group(kOutputFlags)
      ->required();
  verb->add_option("--rank", flags->adapter.rank, "Of the adapter's matrices (16)")
      ->type_name("COUNT")
      ->group("The adapter")
      ->check(at_least(1));
  verb->add_option("--ranks", flags->ranks,
                   "With --init svd or whitened: even, the same for each layer; or error, of an adapter as "
                   "large those "
                   "directions of all layers that win most (even)")
      ->type_name("even|error")
      ->group("The adapter");
  verb->add_option("--alpha", flags->adapter.alpha, "Scales the adapter by alpha / rank (the rank)")
      ->type_name("FACTOR")
      ->group("The adapter")
      ->check(above_zero());
  verb->add_flag("--rslora", flags->adapter.rslora, "Scale it by alpha / sqrt(rank)")->group("The adapter");
  verb->add_option(
          "--targets", flags->adapter.targets,
          "Matrices or layers that get one, by name: a glob, or re:REGEX; once for each (all that are "
          "quantized)")
      ->type_name("GLOB")
      ->group("The adapter")
      ->allow_extra_args(false);
  verb->add_option(
          "--init", flags->init,
          "zero, as if it were not there; svd, the nearest of its rank to what rounding took from each "
          "matrix; whitened, that as the layers' inputs see it; or kept, the adapter that the file has goes "
          "on "
          "(zero)")
      ->type_name("zero|svd|whitened|kept")
      ->group("The adapter");
  verb->add_option(
          "--loss", flags->loss,
          "kl, from what the float model predicts; hidden, from what its last layer gives; ce, the text's "
          "tokens; or mix, half of the last two (kl). Of sentence encoders: hidden; cosine, from their "
          "vectors; "
          "or "
          "mix, half of both (mix)")
      ->type_name("kl|hidden|ce|mix|cosine")
      ->group(kTrainingFlags);
  verb->add_option("--type", flags->type, "What the adapter is kept as: f32, f16, bf16 or int8 (bf16)")
      ->type_name("f32|f16|bf16|int8")
      ->group("The adapter");
  verb->add_option("--name", flags->adapter.name, "Of the adapter (recovery)")
      ->type_name("NAME")
      ->group("The adapter");
  flag_group(*verb, kTrainingFlags);
  add_language_training_flags(*verb, flags->training);
  verb->add_option("--batch", flags->batch, "Sequences, or lines, of a step (4, 32)")
      ->type_name("SEQUENCES")
      ->group(kTrainingFlags)
      ->check(batch_size());
  verb->add_option("--rate", flags->rate, "The highest learning rate (0.001)")
      ->type_name("RATE")
      ->group(kTrainingFlags)
      ->check(learning_rate());
  verb->add_option("--seed", flags->adapter.seed,
                   "Of the order of sequences and of the adapter's first values (0)")
      ->type_name("NUMBER")
      ->group(kTrainingFlags)
      ->check(at_least(0, std::numeric_limits<std::uint32_t>::max()));
  verb->add_option(
          "--checkpoint-every", flags->keep_every,
          "Steps between two states of an unfinished run, from which the same command goes on (every ten "
          "minutes)")
      ->type_name("STEPS")
      ->group(kOutputFlags)
      ->check(at_least(1));
  verb->add_flag("--restart", flags->restart, "Drop an unfinished run that lies there")->group(kOutputFlags);
  flag_group(*verb, kRunningFlags);
  add_language_running_flags(*verb, flags->training);
  add_threads_flag(*verb, flags->threads, "Threads (those that the machine has)");
  verb->add_flag("--json", flags->json, "Print the report as JSON")->group(kOutputFlags);
  verb->footer(
      "Examples:\n"
      "  crumb recover smollm2_w2/model.crumb --baseline SmolLM2 --data text.txt --valid valid.txt -o "
      "recovered\n"
      "  crumb generate recovered/model.crumb --chat --prompt \"What is the capital of France?\"");
  verb->callback([flags, verb] {
    flags->is_named = verb->count("--name") > 0;
    for (const char* flag : {"--rank", "--alpha", "--rslora", "--targets"})
      if (verb->count(flag) > 0) flags->of_fresh_ones = flag;
    recover_verb(*flags);
  });
}

}  // namespace crumb::cli
