// The arguments of run_in_registers, and its products by the layouts of their operands. Internal to
// analysis/accumulator.
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
  /// Throws Error where the input is left out.
  const graph::Tensor& in(std::size_t input) const;

  /// The index of the rule's operand that is the layer's input: 0 or 1.
  std::size_t input_at() const { return 1 - layer.weight_at(); }
  std::size_t place_of(std::size_t operand) const { return operand == 0 ? rule().a : rule().b; }
  /// The integers of an operand, minus their zero point, in its shape. `is_weight`: the operand is a computed
  /// weight.
  Integers codes_of(std::size_t operand, bool is_weight) const;

  /// Throws Error with the node's name before the text.
  [[noreturn]] void fail(const std::string& text) const;
};

/// The values of registers, and their scales, which broadcast to them.
struct RegisterSums {
  Integers sums;
  LaidOut<double> scale;
};

/// The one scale of a computed weight.
LaidOut<double> one_scale_of(const SimulatedLayer& layer);

/// MatMul, Gemm and their integer and bitwise variants.
RegisterSums multiply_in_registers(const RegisterCall& call);
/// Einsum of two operands.
RegisterSums contract_in_registers(const RegisterCall& call);
/// [N, channels, positions...], or channels last.
RegisterSums convolve_in_registers(const RegisterCall& call);

/// Every element as a number. Throws Error for texts and complex numbers.
std::vector<double> doubles_of(const graph::Tensor& tensor);

}  // namespace crumb::analysis
