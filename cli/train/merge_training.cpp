#include "cli/train/merge_training.h"

#include <limits>
#include <utility>

#include "base/files/text.h"
#include "cli/flags/flag_group.h"
#include "cli/flags/number_checks.h"
#include "cli/flags/threads_flag.h"
#include "cli/train/merged_recipe.h"
#include "graph/qonnx/quantized_constants.h"
#include "jobs/engines/open_engine.h"
#include "models/encoder_inputs.h"
#include "training/language_run.h"

namespace crumb::cli {
std::vector<CLI::Option*> add_merge_training_flags(CLI::App& verb, MergeTrainingFlags& flags) {
  flag_group(verb, "Training (--train)");
  verb.add_option("--train", flags.data,
                  "A text, texts or conversations (.jsonl), lines of a sentence encoder, synthetic or "
                  "synthetic-chat, on which merged codes learn what the network computes with its adapters; "
                  "-o is a folder then, as crumb train lm writes it (none: codes as they are merged)")
      ->type_name("FILE|synthetic|synthetic-chat");
  const std::size_t before = verb.get_options().size();
  verb.add_option("--valid", flags.valid, "A text to measure by (none)")->type_name("FILE");
  add_language_training_flags(verb, flags.training);
  verb.add_option("--batch", flags.batch, "Sequences, or lines, of a step (4, 32)")
      ->check(batch_size())
      ->type_name("SEQUENCES");
  verb.add_option("--rate", flags.rate, "The highest learning rate (0.0001)")
      ->check(learning_rate())
      ->type_name("RATE");
  verb.add_option("--scale-rate", flags.scale_rate, "That of the scales of codes (0.0005)")
      ->check(learning_rate())
      ->type_name("RATE");
  verb.add_flag("--scales-alone", flags.scales_alone, "Codes stay as they were merged, and scales learn");
  verb.add_option("--seed", flags.seed, "Of the order of sequences (0)")
      ->check(at_least(0, std::numeric_limits<std::uint32_t>::max()))
      ->type_name("NUMBER");
  verb.add_option("--checkpoint-every", flags.keep_every,
                  "Steps between two states of an unfinished run (every ten minutes)")
      ->check(at_least(1))
      ->type_name("STEPS");
  verb.add_flag("--restart", flags.restart, "Drop an unfinished run that lies there");
  add_language_running_flags(verb, flags.training);
  add_threads_flag(verb, flags.threads, "Threads (those that the machine has)");
  const std::vector<CLI::Option*> all = verb.get_options();
  return {all.begin() + static_cast<std::ptrdiff_t>(before), all.end()};
}

void refuse_without_train(const std::vector<CLI::Option*>& options) {
  for (const CLI::Option* option : options)
    if (option->count() > 0)
      throw usage_error(option->get_name() + " says how merged codes are trained: give --train TEXT");
}

Json train_merged(const MergeTrainingFlags& flags, graph::Graph adapted, graph::Graph merged,
                  std::map<std::string, std::string> files, const std::string& folder) {
  const bool is_encoder = models::is_encoder(merged);
  Recipe recipe = recipe_of_codes(merged);
  if (flags.training.steps > 0)
    add_stage(files, end_to_end_stage(flags.training, {.rate = flags.rate,
                                                       .scale_rate = flags.scale_rate,
                                                       .scales_alone = flags.scales_alone}));
  training::LanguageRun run{
      .request = {.network = graph::fold_quantized(std::move(adapted)),
                  .recipe = std::move(recipe),
                  .start = std::move(merged),
                  .loss = is_encoder ? tasks::LanguageLoss::kMix : tasks::LanguageLoss::kDivergence,
                  .batch = flags.batch > 0 ? flags.batch : batch_of(is_encoder),
                  .scales_alone = flags.scales_alone,
                  .rate = flags.rate,
                  .scale_rate = flags.scale_rate,
                  .seed = flags.seed,
                  .threads = flags.threads},
      .files = std::move(files),
      .folder = folder,
      .keep_every = flags.keep_every,
      .restart = flags.restart,
      .writes = is_writer()};
  LanguageTrainingFlags how = flags.training;
  how.restart = flags.restart;
  const auto read = [&](std::string_view path) {
    const auto found = run.files.find(std::string(path));
    return found == run.files.end() ? std::nullopt : std::optional(found->second);
  };
  take_training_flags(how, run.request);
  read_training_texts(how, flags.data, flags.valid, folder, read, run.request);
  keep_memory();
  LanguageProgressLine line;
  run.news = line.news(run.request.rate);
  return training::train_language_into(run, jobs::open_language_trainer());
}

}  // namespace crumb::cli
