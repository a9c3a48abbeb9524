// crumb train lm and crumb train embed: declares their flags.
#include <limits>

#include "cli/flags/flag_group.h"
#include "cli/flags/number_checks.h"
#include "cli/flags/report_flag.h"
#include "cli/flags/threads_flag.h"
#include "cli/train/language_training.h"
#include "cli/train/train.h"
#include "cli/train/train_lm.h"

namespace crumb::cli {
namespace {

/// Returns those of the given flags that stages of a recipe replace.
std::vector<std::string> flags_of_stages(const CLI::App& verb) {
  std::vector<std::string> given;
  for (const char* flag : {"--block-wise", "--block-sequences", "--steps", "--warm-up", "--rate",
                           "--scale-rate", "--scales-alone", "--learn-adapters"}) {
    const CLI::Option* const option = verb.get_option_no_throw(flag);
    if (option && option->count() > 0) given.emplace_back(flag);
  }
  return given;
}

void add_start_flag(CLI::App& verb, LanguageFlags& flags) {
  verb.add_option("--start", flags.start,
                  "A packed file of the model in codes of the same specs (crumb quantize --method gptq, or "
                  "training before), which training begins with; --model is learned from (none: rounding)")
      ->type_name("FILE");
}

void add_decoder_inputs(CLI::App& verb, LanguageTrainingCommand& requested) {
  LanguageFlags& flags = requested.flags;
  verb.add_option("--model", flags.model,
                  "The model, a Hugging Face folder, a GGUF or a packed file; codes are decoded")
      ->type_name("MODEL");
  verb.add_option(
          "--from-scratch", flags.from_scratch,
          "Instead of --model, a folder with config.json and tokenizer whose weights are drawn (--seed)")
      ->type_name("FOLDER");
  add_start_flag(verb, flags);
  verb.add_option(
          "--data", requested.data,
          "A text, texts or conversations (.jsonl), or what the float model draws: synthetic, a text, or "
          "synthetic-chat, conversations")
      ->type_name("FILE|synthetic|synthetic-chat");
  verb.add_option("--valid", requested.valid, "A text to measure by (none)")->type_name("FILE");
}

void add_encoder_inputs(CLI::App& verb, LanguageTrainingCommand& requested) {
  verb.add_option("--model", requested.flags.model, "The sentence encoder, a Hugging Face folder")
      ->type_name("MODEL");
  add_start_flag(verb, requested.flags);
  verb.add_option("--data", requested.data, "Lines to train by, a file in UTF-8")->type_name("FILE");
  verb.add_option("--valid", requested.valid, "Lines to measure by (none)")->type_name("FILE");
}

void add_losses_of_decoders(CLI::App& verb, LanguageTrainingCommand& requested) {
  verb.add_option(
          "--loss", requested.loss,
          "What is learned: kl, what the float network predicts; hidden, what its last layer gives; ce, the "
          "text's tokens; or mix, half of the last two (kl)")
      ->type_name("kl|hidden|ce|mix");
  verb.add_option(
          "--teacher", requested.flags.teacher,
          "Whose predictions are learned: float, the network's own in floats, or none, then the text's "
          "tokens, as --loss ce (float)")
      ->type_name("float|none");
}

void add_learning_flags(CLI::App& verb, LanguageTrainingCommand& requested) {
  LanguageFlags& flags = requested.flags;
  const bool is_encoder = requested.task == kSentenceTask;
  add_language_training_flags(verb, flags.training, is_encoder);
  verb.add_option("--batch", requested.batch, is_encoder ? "Lines of a step (32)" : "Sequences of a step (4)")
      ->check(batch_size())
      ->type_name(is_encoder ? "LINES" : "SEQUENCES");
  verb.add_option("--rate", requested.rate, "The highest learning rate (in proportion to rounding's error)")
      ->check(learning_rate())
      ->type_name("RATE");
  verb.add_option("--scale-rate", flags.scale_rate,
                  "The highest learning rate of the scales of codes (--rate)")
      ->check(learning_rate())
      ->type_name("RATE");
  verb.add_flag("--scales-alone", flags.scales_alone,
                "Codes stay as they begin, and their scales learn, norms, and what is in floats");
  verb.add_flag(
      "--learn-adapters", flags.learn_adapters,
      "Adapters that the network begins with (the stage low_rank, crumb recover) learn along; else they "
      "stay as they are");
  verb.add_option(
          "--seed", requested.seed,
          is_encoder ? "Of the order of lines (0)" : "Of the order of sequences and of what is drawn (0)")
      ->check(at_least(0, std::numeric_limits<std::uint32_t>::max()))
      ->type_name("NUMBER");
  if (is_encoder) return;
  CLI::Option* const passes =
      verb.add_option("--block-wise", flags.block_passes,
                      "First each layer by itself, so many passes over the text's first "
                      "sequences (0)")
          ->check(at_least(0))
          ->type_name("PASSES");
  verb.add_option("--block-sequences", flags.block_sequences, "These sequences (40)")
      ->check(at_least(1))
      ->needs(passes)
      ->type_name("SEQUENCES");
}

void add_run_flags(CLI::App& verb, LanguageTrainingCommand& requested) {
  flag_group(verb, kOutputFlags);
  verb.add_option("-o,--output", requested.output, "The folder for model, log and report")
      ->required()
      ->type_name("FOLDER");
  verb.add_option("--checkpoint-every", requested.flags.training.checkpoint_every,
                  "Steps between two states to go on from (every ten minutes)")
      ->check(at_least(1))
      ->type_name("STEPS");
  verb.add_flag("--restart", requested.flags.training.restart, "Drop the state of an unfinished run");
  add_report_flag(verb, requested.report);
  verb.add_flag("--json", requested.json, "Print one JSON object");
  flag_group(verb, kRunningFlags);
  add_language_running_flags(verb, requested.flags.training, requested.task == kSentenceTask);
  add_threads_flag(verb, requested.flags.training.threads, "Threads of a step (as many as cores)");
}

/// Adds the flags that both verbs have after their inputs and losses.
void add_shared_flags(CLI::App& verb, LanguageTrainingCommand& requested) {
  add_learning_flags(verb, requested);
  add_recipe_flags(verb, requested.recipe);
  add_training_flags(verb, requested.recipe);
  add_run_flags(verb, requested);
}

constexpr const char* kGoesOn = "A run that was cut off goes on where it stood.\n\n";

/// Sets what both verbs do when they are called.
void set_callback(CLI::App& verb, const std::shared_ptr<LanguageTrainingCommand>& requested) {
  verb.callback([requested, &verb] {
    requested->given = flags_of_stages(verb);
    train_language_model(*requested);
  });
}

}  // namespace

void add_train_language_model(CLI::App& train) {
  auto requested = std::make_shared<LanguageTrainingCommand>();
  requested->task = kLanguageTask;
  CLI::App& verb = *train.add_subcommand("lm", "Train a language model to predict as its float one does");
  flag_group(verb, kInputFlags);
  add_decoder_inputs(verb, *requested);
  flag_group(verb, kTrainingFlags);
  add_losses_of_decoders(verb, *requested);
  add_shared_flags(verb, *requested);
  verb.footer(
      std::string(kGoesOn) +
      "Example:\n"
      "  crumb train lm --model SmolLM2 --data text.txt --valid valid.txt --weights int2h:group=32 -o "
      "smollm2_w2");
  set_callback(verb, requested);
}

void add_train_encoder(CLI::App& train) {
  auto requested = std::make_shared<LanguageTrainingCommand>();
  requested->task = kSentenceTask;
  CLI::App& verb = *train.add_subcommand("embed", "Train a sentence encoder to give its float one's vectors");
  flag_group(verb, kInputFlags);
  add_encoder_inputs(verb, *requested);
  flag_group(verb, kTrainingFlags);
  verb.add_option(
          "--loss", requested->loss,
          "What is learned: hidden, what the float network's last layer gives; cosine, its vectors; or mix, "
          "half of both (mix)")
      ->type_name("hidden|cosine|mix");
  add_shared_flags(verb, *requested);
  verb.footer(
      std::string(kGoesOn) +
      "Example:\n"
      "  crumb train embed --model all-MiniLM-L6-v2 --data lines.txt --weights int3:group=64 -o minilm_w3");
  set_callback(verb, requested);
}

}  // namespace crumb::cli
