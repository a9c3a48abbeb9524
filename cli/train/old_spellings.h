// Command lines as earlier versions took them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace crumb::cli {

/// What is written `crumb train digits ...` or `crumb train net.onnx ...` as `crumb train task digits ...` or
/// `crumb train graph net.onnx ...`, and says so on stderr; other command lines as they are. Throws usage
/// Error where crumb train is asked to train what is neither a task nor a file.
std::vector<std::string> in_new_spelling(const CLI::App& app, std::vector<std::string> arguments);

}  // namespace crumb::cli
