// Opens language models from the files that people have.
#pragma once

#include <string>

#include "jobs/model_options.h"
#include "jobs/observer.h"
#include "runtime/language/language_model.h"

namespace crumb::jobs {

/// A Hugging Face folder, a GGUF file or a packed file of a decoder. Notes what a folder holds beside the
/// language model. Throws Error, which names it, or the wish.
runtime::LanguageModel open_language_model(const std::string& path, const ModelOptions& model_options,
                                           Observer& observer);

}  // namespace crumb::jobs
