// The tables of operators, one a file.
#pragma once

#include <span>

#include "models/torch/execute/operator.h"

namespace crumb::torch_ops {

std::span<const OperatorRow> elementwise_operators();   ///< arithmetic, comparison, logic, bits
std::span<const OperatorRow> activation_operators();    ///< Relu to Softmax
std::span<const OperatorRow> constant_operators();      ///< Constant, Shape, Cast, Range, ...

inline constexpr std::span<const OperatorRow> (*kFamilies[])() = {
    elementwise_operators,
    activation_operators,
    constant_operators,
};

}  // namespace crumb::torch_ops
