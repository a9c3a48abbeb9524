// Reads command lines in the form of earlier versions.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace crumb::cli {

/// Returns `crumb train digits ...` and `crumb train net.onnx ...` as `crumb train task digits ...` and
/// `crumb train graph net.onnx ...`, and says so on stderr; other command lines as they are. Throws usage
/// Error where crumb train is asked to train what is neither a task nor a file.
std::vector<std::string> in_new_spelling(const CLI::App& app, std::vector<std::string> arguments);

}  // namespace crumb::cli
