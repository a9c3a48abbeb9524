// crumb export --to qonnx, qcdq, float and packed: one network in one file.
#pragma once

#include <string>
#include <vector>

#include "cli/export_options.h"
#include "graph/graph.h"

namespace crumb::cli {

/// The input's network; notes of what a checkpoint holds beside it. Throws Error.
graph::Graph read_exported_network(const ExportOptions& options, std::vector<std::string>& notes);

/// Writes the file and prints what it is. Throws Error.
void write_export_network(const ExportOptions& options);

}  // namespace crumb::cli
