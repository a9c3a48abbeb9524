// Which libraries read and check ONNX files: for reports.
#pragma once

#include <string>

namespace crumb::graph {

/// The ONNX library's, as in "1.22.0".
std::string onnx_version();

/// Protobuf's, as in "3.21.12".
std::string protobuf_version();

}  // namespace crumb::graph
