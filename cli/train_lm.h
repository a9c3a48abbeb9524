// crumb train lm: a decoder that learns, with quantizers in the loop, to predict text.
#pragma once

#include <string>

#include "cli/language_training.h"
#include "cli/recipe_flags.h"
#include "cli/verb.h"

namespace crumb::cli {

inline constexpr const char* kLanguageTask = "lm";

struct LanguageFlags {
  std::string model, teacher;
  LanguageTrainingFlags training;
  std::int64_t block_passes = 0, block_sequences = 40;
};

void add_language_flags(CLI::App& verb, LanguageFlags& flags);

/// What of the verb's other flags it takes.
struct LanguageWish {
  LanguageFlags flags;
  RecipeFlags recipe;
  std::string data, valid, loss, output;  ///< texts, and the folder
  std::int64_t batch = 0;                 ///< 0: 4
  double rate = 0;                        ///< 0: 5e-4
  std::uint64_t seed = 0;
  int threads = 0, keep_every = 0;
  bool restart = false, json = false;
};

/// Throws usage Error where a flag of the verb was given that is for other tasks alone, or, for those, one that is for this.
void refuse_flags_of_others(const CLI::App& verb, bool is_language);

void train_language_model(const LanguageWish& wish);

}  // namespace crumb::cli
