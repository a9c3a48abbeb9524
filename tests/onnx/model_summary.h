// What the test asks of the ONNX library, in types that LibTorch's headers do not mind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace crumb::testing {

struct ModelSummary {
  std::vector<std::string> operators;      ///< of the graph's nodes, in order
  std::vector<std::int64_t> output_shape;  ///< of the first output, as inferred; -1 where it is not a number
};

/// Parses, checks and infers shapes. Throws std::exception when the bytes are no valid model.
ModelSummary summarize_onnx(const std::string& bytes);

/// A small valid model, serialized: Relu over float32 [2, 3], its output's extents left to inference. With an
/// operator that ONNX does not have, an invalid one.
std::string tiny_onnx_model(const std::string& op_type);

}  // namespace crumb::testing
