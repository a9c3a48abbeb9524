#include "cli/train/language_training.h"

#include "cli/flags/number_checks.h"

namespace crumb::cli {

void add_language_training_flags(CLI::App& verb, jobs::LanguageTraining& flags, bool is_encoder) {
  verb.add_option("--length", flags.length,
                  is_encoder ? "Tokens of a line, at most (512)" : "Tokens of a sequence (512)")
      ->check(CLI::Range(2, 1 << 20))
      ->type_name("TOKENS");
  verb.add_option("--steps", flags.steps, "Steps (240)")->check(at_least(0))->type_name("STEPS");
  verb.add_option("--warm-up", flags.warm_up, "Steps in which the rate grows (15)")
      ->check(at_least(0))
      ->type_name("STEPS");
  verb.add_option("--schedule", flags.schedule,
                  "How the rate goes from there: cosine or linear, to 0, or constant (cosine)")
      ->type_name("cosine|linear|constant");
  verb.add_option(
          "--average", flags.average,
          "Keep the moving average of what learns, of which each step keeps so much of the old one, such as "
          "0.99 (none)")
      ->check(CLI::Range(0.0, 0.999999))
      ->type_name("SHARE");
  if (is_encoder) return;
  verb.add_option("--temperature", flags.temperature,
                  "Divides the logits of both networks, with the loss kl (1)")
      ->check(above_zero())
      ->type_name("FACTOR");
  verb.add_option("--tokens", flags.tokens,
                  "The first tokens of the text, so many (all; of one that is drawn 16384)")
      ->check(at_least(1))
      ->type_name("TOKENS");
  CLI::Option* const kept =
      verb.add_option(
              "--teacher-logits", flags.teacher_logits,
              "A file of what the float model predicts: made where there is none, and where there is one "
              "the float model stays out of memory (none)")
          ->type_name("FILE");
  verb.add_option("--top-k", flags.top_k, "So many tokens of each place, in a file that is made (64)")
      ->check(at_least(1))
      ->needs(kept)
      ->type_name("TOKENS");
}

void add_language_running_flags(CLI::App& verb, jobs::LanguageTraining& flags, bool is_encoder) {
  verb.add_option("--device", flags.device, "Where steps are computed: cpu, cuda or cuda:1 (cpu)")
      ->type_name("DEVICE");
  verb.add_option(
          "--products", flags.products,
          "What matrices are multiplied as in training steps: f32, bf16 (on a CPU) or tf32 (on a GPU) "
          "(the short one where the processor has it)")
      ->type_name("f32|bf16|tf32");
  verb.add_option(
          "--optimizer-states", flags.optimizer_states,
          "What AdamW keeps of each number that learns, twice: f32, bf16, or int8, codes in blocks of 256 "
          "(f32)")
      ->type_name("f32|bf16|int8");
  verb.add_option("--at-once", flags.at_once,
                  is_encoder ? "Lines of a step that run at a time; fewer take less memory (all)"
                             : "Sequences of a step that run at a time; fewer take less memory (all)")
      ->check(at_least(1))
      ->type_name(is_encoder ? "LINES" : "SEQUENCES");
  if (is_encoder) return;
  verb.add_flag("--recompute", flags.recompute,
                "Keep what layers give alone, and compute what is inside them again for the gradients: less "
                "memory, a third more time");
}

std::string measure_text(const Json& report, const char* name) {
  const Json& value = report.at(name);
  return value.is_number() ? fixed(value, report.at("metric") == "cosine" ? 4 : 2) : std::string("-");
}

}  // namespace crumb::cli
