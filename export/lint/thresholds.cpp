#include "export/lint/thresholds.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "graph/qonnx/quant_arithmetic.h"

namespace crumb::exporting {
namespace {

constexpr double kMostBits = 8;
constexpr double kMostSteps = 0x1p22;  // half steps beyond this many steps are no float32 any more

/// Floats in ascending order as integers, and back.
std::int32_t order_of(float value) {
  const auto bits = std::bit_cast<std::int32_t>(value);
  return bits >= 0 ? bits : std::numeric_limits<std::int32_t>::min() - bits;
}
float float_at(std::int32_t order) {
  return std::bit_cast<float>(order >= 0 ? order : std::numeric_limits<std::int32_t>::min() - order);
}

std::optional<graph::QuantRounding> mode_of(const Node& node) {
  return graph::find_quant_rounding(node.text_or("rounding_mode", "ROUND"));
}

/// Scales of each channel on axis 1, or one; nothing for others.
std::optional<std::vector<float>> scales_of(const Subject& subject, const Node& node) {
  const Tensor* scale = subject.constant(node, kScale);
  if (!scale || scale->type() != graph::ElementType::kFloat || scale->size() == 0) return {};
  std::vector<float> scales = scale->to_floats();
  if (!std::ranges::all_of(scales, [](float one) { return std::isfinite(one) && one > 0; })) return {};
  if (scales.size() == 1) return scales;
  const auto shape = filled_up(scale->shape(), subject.graph().rank_of(input_of(node, kData)).value_or(0));
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i != 1 && shape[i] != 1) return {};
  }
  return scales;
}

struct Parameters {
  std::vector<float> scales;
  float zero = 0;
  graph::IntegerFormat format;
  graph::QuantRounding mode = graph::QuantRounding::kHalfEven;
};

std::optional<Parameters> parameters_of(const Subject& subject, const Node& node) {
  if (!is_quant(node) || is_weight(subject.graph(), node)) return {};
  const auto scales = scales_of(subject, node);
  const auto zero = uniform(subject.constant(node, kZeropt)), bits = uniform(subject.constant(node, kBits));
  const auto mode = mode_of(node);
  if (!scales || !zero || !bits || !mode || std::trunc(*zero) != *zero) return {};
  if (*bits < 1 || *bits > kMostBits || std::trunc(*bits) != *bits) return {};
  const graph::IntegerFormat format{
      .bits = *bits, .is_signed = node.int_or("signed", 1) != 0, .narrow = node.int_or("narrow", 0) != 0};
  if (format.is_bipolar() || format.upper() <= format.lower()) return {};
  return Parameters{*scales, *zero, format, *mode};
}

}  // namespace

bool has_thresholds(const Subject& subject, const Node& node) {
  return parameters_of(subject, node).has_value();
}

std::optional<Thresholds> exact_thresholds(const Subject& subject, const Node& node) {
  const auto parameters = parameters_of(subject, node);
  if (!parameters) return {};
  const auto& [scales, zero, format, mode] = *parameters;
  const std::size_t rows = scales.size(), count = static_cast<std::size_t>(format.upper() - format.lower());
  // Where the next code begins, by halving between a value that has not reached it and one that has.
  const float most = std::numeric_limits<float>::max();
  std::vector<std::int32_t> below(rows * count, order_of(-most)), reached(rows * count, order_of(most));
  const std::vector<std::int64_t> shape{static_cast<std::int64_t>(rows), static_cast<std::int64_t>(count)};
  const std::vector<std::int64_t> by_row{static_cast<std::int64_t>(rows), 1};
  const std::vector<double> factors(scales.begin(), scales.end()), zeros{zero};
  std::vector<double> tried(rows * count);
  for (int round = 0; round < 32; ++round) {
    for (std::size_t i = 0; i < tried.size(); ++i)
      tried[i] = float_at(static_cast<std::int32_t>((std::int64_t{below[i]} + reached[i]) >> 1));
    const auto codes = graph::quantize({tried, shape}, {factors, by_row}, {zeros, {}}, format, mode);
    if (!codes.ok()) return {};
    for (std::size_t i = 0; i < tried.size(); ++i) {
      const double code = codes.value().integers[i] - format.lower();
      (code > static_cast<double>(i % count) ? reached : below)[i] = order_of(static_cast<float>(tried[i]));
    }
  }
  Thresholds found{.rows = rows,
                   .low = static_cast<float>(format.lower() - zero),
                   .high = static_cast<float>(format.upper() - zero),
                   .scales = scales};
  for (const std::int32_t order : reached) found.values.push_back(float_at(order));
  return found;
}

Thresholds finn_thresholds(Thresholds exact) {
  for (std::size_t i = 0; i < exact.values.size(); ++i) {
    const double scale = exact.scales[i / exact.count()], code = static_cast<double>(i % exact.count());
    exact.values[i] = static_cast<float>((exact.low + code + 0.5) * scale);
  }
  return exact;
}

Thresholds between_steps(Thresholds thresholds, int exponent) {
  for (float& value : thresholds.values) {
    const double steps = std::ceil(std::ldexp(static_cast<double>(value), -exponent));
    if (std::fabs(steps) < kMostSteps) value = static_cast<float>(std::ldexp(steps - 0.5, exponent));
  }
  return thresholds;
}

}  // namespace crumb::exporting
