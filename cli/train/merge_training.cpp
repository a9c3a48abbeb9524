#include "cli/train/merge_training.h"

#include <limits>

#include "base/error.h"
#include "cli/flags/flag_group.h"
#include "cli/flags/number_checks.h"
#include "cli/flags/threads_flag.h"
#include "cli/train/language_training.h"

namespace crumb::cli {

std::vector<CLI::Option*> add_merge_training_flags(CLI::App& verb, jobs::MergeTraining& flags) {
  flag_group(verb, "Training (--train)");
  verb.add_option("--train", flags.train,
                  "A text, texts or conversations (.jsonl), lines of a sentence encoder, synthetic or "
                  "synthetic-chat, on which merged codes learn what the network computes with its adapters; "
                  "-o is a folder then, as crumb train lm writes it (none: codes as they are merged)")
      ->type_name("FILE|synthetic|synthetic-chat");
  const std::size_t before = verb.get_options().size();
  verb.add_option("--valid", flags.valid, "A text to measure by (none)")->type_name("FILE");
  add_language_training_flags(verb, flags.how);
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
  verb.add_option("--checkpoint-every", flags.how.checkpoint_every,
                  "Steps between two states of an unfinished run (every ten minutes)")
      ->check(at_least(1))
      ->type_name("STEPS");
  verb.add_flag("--restart", flags.how.restart, "Drop an unfinished run that lies there");
  add_language_running_flags(verb, flags.how);
  add_threads_flag(verb, flags.how.threads, "Threads (those that the machine has)");
  const std::vector<CLI::Option*> all = verb.get_options();
  return {all.begin() + static_cast<std::ptrdiff_t>(before), all.end()};
}

void refuse_without_train(const std::vector<CLI::Option*>& options) {
  for (const CLI::Option* option : options)
    if (option->count() > 0)
      throw usage_error(option->get_name() + " says how merged codes are trained: give --train TEXT");
}

}  // namespace crumb::cli
