// Language models, opened from what people have.
#pragma once

#include <string>
#include <vector>

#include "runtime/language/language_model.h"

namespace crumb::jobs {

/// What a model is opened with.
struct ModelWishes {
  std::string kv_cache;               ///< "": as the model says
  std::vector<std::string> adapters;  ///< files or folders, which stand beside its matrices
  bool without_adapters = false;      ///< those that the model's own file has are left out
};

/// A Hugging Face folder, a GGUF file or a packed file of a decoder. Throws Error, which names it.
runtime::LanguageModel open_language_model(const std::string& path, const ModelWishes& wishes = {});

}  // namespace crumb::jobs
