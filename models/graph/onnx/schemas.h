// The operators that the ONNX library knows, with those of QONNX added to them.
#pragma once

#include <cstdint>

namespace crumb::graph {

/// The newest operator set of ONNX that the library knows.
std::int64_t newest_opset();

/// Tells the ONNX library QONNX's operators (their inputs, attributes, and that shapes pass through), so that its
/// checker and shape inference take them. Once, from however many threads.
void register_qonnx_schemas();

}  // namespace crumb::graph
