// The text that a sentence encoder wants before every line ("query: ", "Instruct: ..."), by
// config_sentence_transformers.json.
#pragma once

#include <optional>
#include <string>

#include "formats/checkpoint/sentence_modules.h"

namespace crumb::runtime {

/// What a person asked for: at most one of these; without either the model's default prompt.
struct PromptChoice {
  std::optional<std::string> name;  ///< of a prompt of the model
  std::optional<std::string> text;  ///< the prompt itself; "" for none
};

/// The prompt's text, "" for none. Throws Error where the model has no prompt of that name (its names are
/// listed), and where a prompt is no string.
std::string read_prompt(const ModelText& text, const PromptChoice& choice);

}  // namespace crumb::runtime
