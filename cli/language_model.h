// What verbs that run language models have in common.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "runtime/language/language_model.h"

namespace crumb::cli {

/// A Hugging Face folder, a GGUF file or a packed file of a decoder; its cache is quantized by `kv_cache`, where that is a spec,
/// and `adapters`, files or folders, stand beside its matrices. Throws Error, which names it.
runtime::LanguageModel open_language_model(const std::string& path, const std::string& kv_cache = {},
                                           const std::vector<std::string>& adapters = {});

void add_kv_cache_flag(CLI::App& verb, std::string& kv_cache);

}  // namespace crumb::cli
