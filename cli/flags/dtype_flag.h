// The flag --dtype, for verbs that write a model's folder in floats.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "export/folder/folder_content.h"

namespace crumb::cli {

/// Adds --dtype f32|f16|bf16, which sets `dtype`; without the flag it stays empty.
CLI::Option* add_dtype_flag(CLI::App& verb, std::string& dtype);

/// Calls `write` with the content, rounded as the flag says. Returns what rounding cost, for a note; empty
/// where it changed nothing.
std::string write_with_dtype(const exporting::FolderContent& content, const std::string& dtype,
                             const std::function<void(const exporting::FolderContent&)>& write);

}  // namespace crumb::cli
