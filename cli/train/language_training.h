// What the verbs that train language models have in common: crumb train lm, crumb recover, crumb merge
// --train.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "cli/output.h"
#include "jobs/language_training.h"

namespace crumb::cli {

/// How a network learns, and in what memory; a sentence encoder's are without those of decoders. In the
/// verb's group of flags that is open.
void add_language_training_flags(CLI::App& verb, jobs::LanguageTraining& flags, bool is_encoder = false);

/// Where and how steps are computed: what takes time and memory, and changes no more than last digits.
void add_language_running_flags(CLI::App& verb, jobs::LanguageTraining& flags, bool is_encoder = false);

/// Returns a report's measure, perplexity or cosine: "40.12", "0.9731", or "-" for what was not measured.
std::string measure_text(const Json& report, const char* name);

}  // namespace crumb::cli
