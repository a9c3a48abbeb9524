// Hostile ONNX models.
#pragma once

#include <string>
#include <string_view>

#include "tests/fuzz/hostile.h"

namespace crumb::testing {

/// Takes the model's messages apart as far as they are known (graphs, nodes, attributes, tensors, types, shapes), writes
/// hostile numbers into varints (sizes of shapes among them, products that wrap to what the data hold), into external_data's
/// offset and length, and into lengths of fields, and puts the messages together again with every other length right.
std::string hostile_onnx(std::string_view file, Random& random);

}  // namespace crumb::testing
