// What verbs that run language models have in common.
#pragma once

#include <string>

#include "runtime/language/language_model.h"

namespace crumb::cli {

/// A Hugging Face folder, a GGUF file or a packed file of a decoder. Throws Error, which names it.
runtime::LanguageModel open_language_model(const std::string& path);

}  // namespace crumb::cli
