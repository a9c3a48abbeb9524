// Names of operators' domains in files, and ours.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace crumb::graph {

/// The newest operator set of ONNX that graphs may import: the ONNX library's newest.
inline constexpr std::int64_t kNewestOpset = 27;

/// Returns kOnnxDomain for "ai.onnx", kQonnxDomain for its older names, and every other name as it is.
std::string usual_domain(std::string_view domain);

/// Whether QONNX's general domain has this operator. Some tools leave the domain of its nodes empty.
bool is_qonnx_operator(std::string_view op);

}  // namespace crumb::graph
