// Flags for verbs that run language models.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "jobs/language/language_model.h"

namespace crumb::cli {

/// Adds --adapter.
void add_adapter_flag(CLI::App& verb, std::vector<std::string>& paths);

/// Adds --kv-cache, --adapter, --without-adapters.
void add_model_flags(CLI::App& verb, jobs::ModelOptions& model_options);

}  // namespace crumb::cli
