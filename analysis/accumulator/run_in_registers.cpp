#include "analysis/accumulator/run_in_registers.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "analysis/accumulator/register_call.h"
#include "formats/half.h"

namespace crumb::analysis {
namespace {

using graph::ElementType;
using graph::Tensor;

/// Integers as a type stores them: the lowest bits of each, as two's complement wraps around. Precondition:
/// whole bytes.
Tensor tensor_of(ElementType type, const Integers& from) {
  const std::size_t bytes = graph::info(type).bits / 8;
  std::vector<std::byte> stored(from.values.size() * bytes);
  for (std::size_t i = 0; i < from.values.size(); ++i)
    std::memcpy(stored.data() + i * bytes, &from.values[i], bytes);
  return {type, from.shape, std::move(stored)};
}

/// The nearest value of a type of floats, by way of float32 where that is wider.
double rounded(double x, ElementType type) {
  if (type == ElementType::kDouble) return x;
  const auto single = static_cast<float>(x);
  if (type == ElementType::kFloat16) return f16_to_float(float_to_f16(single));
  if (type == ElementType::kBfloat16) return bf16_to_float(float_to_bf16(single));
  return single;
}

/// Values that the type holds. Precondition: kDouble, kFloat, kFloat16 or kBfloat16.
Tensor tensor_of(ElementType type, const LaidOut<double>& from) {
  const std::size_t bytes = graph::info(type).bits / 8;
  std::vector<std::byte> stored(from.values.size() * bytes);
  const auto store = [&](std::size_t i, auto value) {
    std::memcpy(stored.data() + i * bytes, &value, sizeof value);
  };
  for (std::size_t i = 0; i < from.values.size(); ++i) {
    const double value = from.values[i];
    const auto single = static_cast<float>(value);
    switch (type) {
      case ElementType::kDouble: store(i, value); break;
      case ElementType::kFloat16: store(i, float_to_f16(single)); break;
      case ElementType::kBfloat16: store(i, float_to_bf16(single)); break;
      default: store(i, single);
    }
  }
  return {type, from.shape, std::move(stored)};
}

/// Whole numbers as they are, of floats too; -1 for floats that are none.
Integers whole_numbers(const Tensor& tensor) {
  if (graph::is_integer(tensor.type())) return {tensor.shape(), tensor.to_ints()};
  Integers made{tensor.shape(), {}};
  for (const double value : doubles_of(tensor)) {
    const bool is_whole = std::trunc(value) == value && std::fabs(value) <= 0x1p53;
    made.values.push_back(is_whole ? static_cast<std::int64_t>(value) : -1);
  }
  return made;
}

/// A zero point of a matrix operand: one number, one for each row of the left operand or column of the right,
/// or a tensor that broadcasts.
Integers zero_beside(const RegisterCall& call, std::size_t operand, const Integers& codes) {
  const std::size_t at = operand == 0 ? call.rule().a_zero : call.rule().b_zero;
  const Tensor& zero = call.in(at);
  Integers made{zero.shape(), zero.to_ints()};
  if (made.values.size() == 1) {
    made.shape = {};
  } else if (call.rule().terms == graph::Terms::kConvolution) {
    made.shape.assign(codes.rank(), 1);
    const std::size_t axis = operand == 0 ? 1 : 0;
    if (axis >= codes.rank()) call.fail("cannot convolve shape " + graph::text_of(codes.shape));
    made.shape[axis] = static_cast<std::int64_t>(made.values.size());
  } else if (made.rank() == 1 && operand == 0 && codes.rank() >= 2) {
    made.shape.push_back(1);
  }
  return spread(made, codes.shape);
}

/// A bias in the shape of the result: a matrix product's broadcasts, a convolution's is one number for each
/// channel.
template <class T>
LaidOut<T> bias_beside(const RegisterCall& call, std::vector<T> values, const Sizes& shape) {
  LaidOut<T> bias{call.in(call.rule().bias).shape(), std::move(values)};
  if (call.layer.kind() != ProductLayer::Kind::kMatrix) {
    bias.shape.assign(shape.size(), 1);
    bias.shape[1] = static_cast<std::int64_t>(bias.values.size());
  }
  return spread(bias, shape);
}

/// Sums as they are, with a bias that is added behind them.
Integers whole_sums(const RegisterCall& call, Integers sums, bool adds_after) {
  if (!adds_after) return sums;
  const Integers bias = bias_beside(call, call.in(call.rule().bias).to_ints(), sums.shape);
  for (std::size_t i = 0; i < sums.values.size(); ++i) sums.values[i] += bias.values[i];
  return sums;
}

/// Sums times the scales in the type of the inputs, and what the node adds to them.
Tensor values_of(const RegisterCall& call, RegisterSums made, bool adds_after) {
  const ElementType type = call.in(call.place_of(call.input_at())).type();
  const bool is_gemm = call.node.is("Gemm");
  const float alpha = is_gemm ? call.node.float_or("alpha", 1) : 1,
              beta = is_gemm ? call.node.float_or("beta", 1) : 1;
  if (graph::is_integer(type) && graph::info(type).bits >= 8 && alpha == 1 && beta == 1)
    return tensor_of(type, whole_sums(call, std::move(made.sums), adds_after));
  if (type != ElementType::kDouble && type != ElementType::kFloat && type != ElementType::kFloat16 &&
      type != ElementType::kBfloat16)
    call.fail("cannot be computed in registers on inputs of " + std::string(graph::name_of(type)));
  LaidOut<double> y = spread(made.scale, made.sums.shape);
  for (std::size_t i = 0; i < y.values.size(); ++i) {
    y.values[i] = rounded(static_cast<double>(made.sums.values[i]) * y.values[i], type);
    if (alpha != 1) y.values[i] = rounded(y.values[i] * alpha, type);
  }
  if (adds_after) {
    const auto bias = bias_beside(call, doubles_of(call.in(call.rule().bias)), y.shape);
    for (std::size_t i = 0; i < y.values.size(); ++i)
      y.values[i] = rounded(y.values[i] + rounded(bias.values[i] * beta, type), type);
  }
  if (call.node.domain == graph::kChannelsLastDomain) y = moved(y, 1, y.rank() - 1);
  return tensor_of(type, y);
}

Tensor computed(const RegisterCall& call) {
  const graph::ProductRule& rule = call.rule();
  RegisterSums made = call.layer.kind() != ProductLayer::Kind::kMatrix ? convolve_in_registers(call)
                      : rule.terms == graph::Terms::kEquation          ? contract_in_registers(call)
                                                                       : multiply_in_registers(call);
  const bool adds_after = rule.bias != graph::kNoInput && call.has(rule.bias) && !call.layer.bias_inside();
  if (!rule.integers) return values_of(call, std::move(made), adds_after);
  if (rule.matches) {
    const std::vector<float> values(made.sums.values.begin(), made.sums.values.end());
    return Tensor::floats(made.sums.shape, values);
  }
  return tensor_of(rule.requantizes ? ElementType::kInt64 : ElementType::kInt32,
                   whole_sums(call, std::move(made.sums), adds_after));
}

}  // namespace

std::vector<double> doubles_of(const Tensor& tensor) {
  std::vector<double> made(static_cast<std::size_t>(tensor.size()));
  if (tensor.type() == ElementType::kDouble) {
    if (!made.empty()) std::memcpy(made.data(), tensor.bytes().data(), tensor.bytes().size());
  } else if (graph::is_integer(tensor.type())) {
    std::ranges::transform(tensor.to_ints(), made.begin(),
                           [](std::int64_t value) { return static_cast<double>(value); });
  } else {
    std::ranges::copy(tensor.to_floats(), made.begin());
  }
  return made;
}

void RegisterCall::fail(const std::string& text) const { throw Error(graph::text_of(node) + ": " + text); }

const Tensor& RegisterCall::in(std::size_t input) const {
  if (!has(input)) fail("input " + std::to_string(input) + " is missing");
  return inputs[input];
}

Integers RegisterCall::codes_of(std::size_t operand, bool is_weight) const {
  const Tensor& from = in(place_of(operand));
  if (!rule().integers) {
    const std::vector<double> values = doubles_of(from);
    return {from.shape(), is_weight ? layer.weight_codes(values) : layer.input_codes(values)};
  }
  Integers codes = whole_numbers(from);
  if (has(operand == 0 ? rule().a_zero : rule().b_zero)) {
    const Integers zero = zero_beside(*this, operand, codes);
    for (std::size_t i = 0; i < codes.values.size(); ++i) codes.values[i] -= zero.values[i];
  }
  if (rule().matches) return codes;  // bits, of which the terms are made
  is_weight ? layer.check_weights(codes.values) : layer.check_inputs(codes.values);
  return codes;
}

LaidOut<double> one_scale_of(const SimulatedLayer& layer) {
  return {{}, {layer.result_scale().empty() ? 1.0 : layer.result_scale()[0]}};
}

Tensor run_in_registers(SimulatedLayer& layer, const graph::Node& node, std::span<const Tensor> inputs,
                        int threads) {
  Tensor made = computed({layer, node, inputs, threads});
  if (layer.inner().mode() == OverflowMode::kCheck && layer.report().first)
    throw Error(layer.text_of_overflow());
  return made;
}

Tensor pass_on_sum(const graph::Node& node, const std::string& output, std::span<const Tensor> inputs) {
  const std::size_t at = node.inputs[0] == output ? 0 : 1;
  const Tensor &sum = inputs[at], &bias = inputs[1 - at];
  const Sizes shape = broadcast_shape(sum.shape(), bias.shape());
  if (shape == sum.shape()) return sum;
  const std::size_t bytes = graph::info(sum.type()).bits / 8;
  std::vector<std::byte> stored;
  for (const std::int64_t from : spread(counted(sum.shape()), shape).values) {
    const auto value = sum.bytes().subspan(static_cast<std::size_t>(from) * bytes, bytes);
    stored.insert(stored.end(), value.begin(), value.end());
  }
  return {sum.type(), shape, std::move(stored)};
}

}  // namespace crumb::analysis
