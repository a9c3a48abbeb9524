// The names that operators' domains go by in files, and ours.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace crumb::graph {

/// The newest operator set of ONNX that graphs may import, which is the ONNX library's newest.
inline constexpr std::int64_t kNewestOpset = 27;

/// kOnnxDomain for "ai.onnx", kQonnxDomain for its older names; every other name as it is.
std::string usual_domain(std::string_view domain);

/// Whether QONNX's general domain has this operator. Some tools leave the domain of its nodes empty.
bool is_qonnx_operator(std::string_view op);

}  // namespace crumb::graph
