// crumb export of one network: --to qonnx, qcdq, float and packed (a file), hls4ml-project and finn-project
// (a folder).
#pragma once

#include "cli/export/export_flags.h"

namespace crumb::cli {

/// Write the output and print what it is. Throw Error.
void write_export_network(const ExportFlags& options);
void write_export_project(const ExportFlags& options);

}  // namespace crumb::cli
