// What a TorchScript archive is called with, for verbs that take graphs.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "jobs/engines/torchscript_file.h"

namespace crumb::cli {

inline constexpr const char* kArgumentHelp =
    "Of a TorchScript archive: NAME=4, an argument of forward() that is no tensor (its default)";
inline constexpr const char* kPairsHelp =
    "Of a sentence encoder: each line of a text holds two texts with a tab between them";
inline constexpr const char* kBatchAxisHelp =
    "NAME=1, the axis of samples of an input (or output), as of an LSTM's states (0)";

/// Adds a flag that may stand there several times, once for each value.
CLI::Option* add_several(CLI::App& verb, const char* flag, std::vector<std::string>& values, const char* help,
                         const char* type);

struct TorchScriptFlags {
  std::vector<std::string> inputs;     ///< [NAME=]FILE
  std::vector<std::string> arguments;  ///< NAME=VALUE
};

/// --input and --set-argument; --shape is the verb's own.
void add_torchscript_flags(CLI::App& verb, TorchScriptFlags& flags, const char* group);

/// `shapes`: of --shape.
jobs::TorchScriptExample example_of(const TorchScriptFlags& flags, const std::vector<std::string>& shapes);

}  // namespace crumb::cli
