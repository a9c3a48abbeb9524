// The program of a project for FINN.
#pragma once

#include <string_view>

namespace crumb::exporting::finn {

/// build.py: converts model.onnx with finn-plus, executes it after every step, compares with
/// expected_output.npy, folds and estimates; with Vivado the steps to a bitfile follow. In the words of
/// finn-plus 1.6.1.
std::string_view build_script();

}  // namespace crumb::exporting::finn
