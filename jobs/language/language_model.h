// Language models, opened from what people have.
#pragma once

#include <string>

#include "jobs/model_wishes.h"
#include "jobs/observer.h"
#include "runtime/language/language_model.h"

namespace crumb::jobs {

/// A Hugging Face folder, a GGUF file or a packed file of a decoder. Throws Error, which names it, or the
/// wish.
runtime::LanguageModel open_language_model(const std::string& path, const ModelWishes& wishes,
                                           const Observer& observer);

}  // namespace crumb::jobs
