// The flag --dtype, for verbs that write a model's folder in floats.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace crumb::cli {

/// Adds --dtype f32|f16|bf16, which sets `dtype`; without the flag it stays empty.
CLI::Option* add_dtype_flag(CLI::App& verb, std::string& dtype);

}  // namespace crumb::cli
