// The versions of the libraries that read and check ONNX files, for reports.
#pragma once

#include <string>

namespace crumb::graph {

/// Returns the ONNX library's version, such as "1.22.0".
std::string onnx_version();

/// Returns Protobuf's version, such as "3.21.12".
std::string protobuf_version();

}  // namespace crumb::graph
