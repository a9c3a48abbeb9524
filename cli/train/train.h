// The verbs under crumb train: one function each, as in cli/flags/verb.h.
#pragma once

#include <CLI/CLI.hpp>

namespace crumb::cli {

void add_train_task(CLI::App& train);            ///< crumb train task digits
void add_train_graph(CLI::App& train);           ///< crumb train graph MODEL.onnx
void add_train_language_model(CLI::App& train);  ///< crumb train lm
void add_train_encoder(CLI::App& train);         ///< crumb train embed

}  // namespace crumb::cli
