// crumb recover: a low-rank adapter learns, on frozen codes, to win back what quantizing took.
#include "jobs/recover.h"

#include <iostream>
#include <limits>
#include <memory>

#include "cli/flags/flag_group.h"
#include "cli/flags/number_checks.h"
#include "cli/flags/report_flag.h"
#include "cli/flags/threads_flag.h"
#include "cli/flags/verb.h"
#include "cli/notes.h"
#include "cli/output.h"
#include "cli/train/language_training.h"

namespace crumb::cli {
namespace {

struct RecoverFlags {
  jobs::RecoverRequest request;
  bool json = false;
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

void recover_verb(const RecoverFlags& flags) {
  const Json report = jobs::recover(flags.request, terminal()).training;
  if (report.is_null()) return;  // another process has it
  flags.json ? print_json(report) : print_recovered(report, flags.request.output);
}

}  // namespace

void add_recover(CLI::App& app) {
  auto flags = std::make_shared<RecoverFlags>();
  CLI::App* verb =
      app.add_subcommand("recover", "Train a low-rank adapter (LoRA) beside a language model's frozen codes");
  verb->add_option("model", flags->request.input, "The quantized model, a packed file")
      ->type_name("FILE")
      ->required();
  verb->add_option("--baseline", flags->request.baseline,
                   "The same model in floats, which it learns from: a Hugging Face folder or a GGUF file")
      ->type_name("MODEL")
      ->group(kInputFlags);
  verb->add_option("--data", flags->request.data,
                   "A text, or texts or conversations (.jsonl), to train by; of a sentence encoder lines; "
                   "synthetic: a "
                   "text that the float model draws; synthetic-chat: conversations that it draws")
      ->type_name("FILE|synthetic|synthetic-chat")
      ->group(kInputFlags)
      ->required();
  verb->add_option("--valid", flags->request.valid, "A text to measure by")
      ->type_name("FILE")
      ->group(kInputFlags);
  verb->add_option("-o,--output", flags->request.output,
                   "The folder for the model with its adapter, the adapter by "
                   "itself (PEFT), log and report")
      ->type_name("FOLDER")
      ->group(kOutputFlags)
      ->required();
  verb->add_option("--rank", flags->request.rank, "Of the adapter's matrices (16)")
      ->type_name("COUNT")
      ->group("The adapter")
      ->check(at_least(1));
  verb->add_option("--ranks", flags->request.ranks,
                   "With --init svd or whitened: even, the same for each layer; or error, of an adapter as "
                   "large those "
                   "directions of all layers that win most (even)")
      ->type_name("even|error")
      ->group("The adapter");
  verb->add_option("--alpha", flags->request.alpha, "Scales the adapter by alpha / rank (the rank)")
      ->type_name("FACTOR")
      ->group("The adapter")
      ->check(above_zero());
  verb->add_flag("--rslora", flags->request.rslora, "Scale it by alpha / sqrt(rank)")->group("The adapter");
  verb->add_option(
          "--targets", flags->request.targets,
          "Matrices or layers that get one, by name: a glob, or re:REGEX; once for each (all that are "
          "quantized)")
      ->type_name("GLOB")
      ->group("The adapter")
      ->allow_extra_args(false);
  verb->add_option(
          "--init", flags->request.init,
          "zero, as if it were not there; svd, the nearest of its rank to what rounding took from each "
          "matrix; whitened, that as the layers' inputs see it; or kept, the adapter that the file has goes "
          "on "
          "(zero)")
      ->type_name("zero|svd|whitened|kept")
      ->group("The adapter");
  verb->add_option(
          "--loss", flags->request.loss,
          "kl, from what the float model predicts; hidden, from what its last layer gives; ce, the text's "
          "tokens; or mix, half of the last two (kl). Of sentence encoders: hidden; cosine, from their "
          "vectors; "
          "or "
          "mix, half of both (mix)")
      ->type_name("kl|hidden|ce|mix|cosine")
      ->group(kTrainingFlags);
  verb->add_option("--type", flags->request.type,
                   "What the adapter is kept as: f32, f16, bf16 or int8 (bf16)")
      ->type_name("f32|f16|bf16|int8")
      ->group("The adapter");
  verb->add_option("--name", flags->request.name, "Of the adapter (recovery)")
      ->type_name("NAME")
      ->group("The adapter");
  flag_group(*verb, kTrainingFlags);
  add_language_training_flags(*verb, flags->request.how);
  verb->add_option("--batch", flags->request.batch, "Sequences, or lines, of a step (4, 32)")
      ->type_name("SEQUENCES")
      ->group(kTrainingFlags)
      ->check(batch_size());
  verb->add_option("--rate", flags->request.rate, "The highest learning rate (0.001)")
      ->type_name("RATE")
      ->group(kTrainingFlags)
      ->check(learning_rate());
  verb->add_option("--seed", flags->request.seed,
                   "Of the order of sequences and of the adapter's first values (0)")
      ->type_name("NUMBER")
      ->group(kTrainingFlags)
      ->check(at_least(0, std::numeric_limits<std::uint32_t>::max()));
  verb->add_option(
          "--checkpoint-every", flags->request.how.checkpoint_every,
          "Steps between two states of an unfinished run, from which the same command goes on (every ten "
          "minutes)")
      ->type_name("STEPS")
      ->group(kOutputFlags)
      ->check(at_least(1));
  verb->add_flag("--restart", flags->request.how.restart, "Drop an unfinished run that lies there")
      ->group(kOutputFlags);
  flag_group(*verb, kRunningFlags);
  add_language_running_flags(*verb, flags->request.how);
  add_threads_flag(*verb, flags->request.how.threads, "Threads (those that the machine has)");
  add_report_flag(*verb, flags->request.report);
  verb->add_flag("--json", flags->json, "Print the report as JSON")->group(kOutputFlags);
  verb->footer(
      "Examples:\n"
      "  crumb recover smollm2_w2/model.crumb --baseline SmolLM2 --data text.txt --valid valid.txt -o "
      "recovered\n"
      "  crumb generate recovered/model.crumb --chat --prompt \"What is the capital of France?\"");
  verb->callback([flags] {
    flags->request.how.keeps_memory = true;
    recover_verb(*flags);
  });
}

}  // namespace crumb::cli
