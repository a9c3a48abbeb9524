// crumb train lm and crumb train embed: a decoder that learns, with quantizers in the loop, to predict text,
// and a sentence encoder that learns to give the float encoder's vectors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/flags/recipe_flags.h"
#include "jobs/language_training.h"
#include "jobs/report_file.h"

namespace crumb::cli {

inline constexpr const char *kLanguageTask = "lm", *kSentenceTask = "embed";

struct LanguageFlags {
  std::string model, from_scratch, start, teacher;
  jobs::LanguageTraining training;
  std::int64_t block_passes = 0, block_sequences = 40;
  bool scales_alone = false, learn_adapters = false;
  double scale_rate = 0;  ///< 0: the rate
};

/// What the flags of one of the verbs request.
struct LanguageTrainingCommand {
  std::string task;  ///< kLanguageTask or kSentenceTask
  LanguageFlags flags;
  RecipeFlags recipe;
  std::string data, valid, loss, output;  ///< texts, the loss's name, and the folder
  std::vector<std::string> given;         ///< the given flags that stages of a recipe replace
  std::int64_t batch = 0;                 ///< 0: 4 sequences, 32 lines
  double rate = 0;                        ///< 0: by the recipe's rounding error
  std::uint64_t seed = 0;
  bool json = false;
  jobs::ReportFile report = {};
};

void train_language_model(const LanguageTrainingCommand& requested);

}  // namespace crumb::cli
