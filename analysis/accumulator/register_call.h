// What run_in_registers is given, and the products by the layouts of their operands. Internal to analysis/accumulator.
#pragma once

#include <string>

#include "analysis/accumulator/laid_out.h"
#include "analysis/accumulator/simulate.h"

namespace crumb::analysis {

struct RegisterCall {
  SimulatedLayer& layer;
  const graph::Node& node;
  std::span<const graph::Tensor> inputs;
  int threads;

  const graph::ProductRule& rule() const { return layer.rule(); }
  bool has(std::size_t input) const {
    return input < inputs.size() && inputs[input].type() != graph::ElementType::kUnknown;
  }
  /// Throws Error where it is left out.
  const graph::Tensor& in(std::size_t input) const;

  /// Which of the rule's operands the layer's input is: 0 or 1.
  std::size_t input_at() const { return 1 - layer.weight_at(); }
  std::size_t place_of(std::size_t operand) const { return operand == 0 ? rule().a : rule().b; }
  /// The integers of an operand, less their zero point, of its shape. `is_weight`: of a weight that is computed.
  Integers codes_of(std::size_t operand, bool is_weight) const;

  /// Throws Error with the node's name before the text.
  [[noreturn]] void fail(const std::string& text) const;
};

/// What registers hold, and what makes values of it: broadcasts to them.
struct RegisterSums {
  Integers sums;
  LaidOut<double> scale;
};

/// Of a weight that is computed there is one scale.
LaidOut<double> one_scale_of(const SimulatedLayer& layer);

/// MatMul, Gemm and their integer and bitwise kin.
RegisterSums multiply_in_registers(const RegisterCall& call);
/// Einsum of two operands.
RegisterSums contract_in_registers(const RegisterCall& call);
/// [N, channels, places...], channels-last too.
RegisterSums convolve_in_registers(const RegisterCall& call);

/// Every element as a number. Throws Error for texts and complex numbers.
std::vector<double> doubles_of(const graph::Tensor& tensor);

}  // namespace crumb::analysis
