#include "models/graph/cost/accumulators.h"

#include <algorithm>
#include <cmath>

namespace crumb::graph {
namespace {

/// The least P with 2^(P-1) - 1 >= largest, a whole number.
int signed_bits(double largest) {
  int bits = 1;
  while (std::ldexp(1.0, bits - 1) <= largest) ++bits;
  return bits;
}

}  // namespace

int accumulator_bits_by_types(double length, int input_bits, bool signed_input, int weight_bits) {
  return signed_bits(std::ldexp(length, input_bits + weight_bits - 1 - (signed_input ? 1 : 0)));
}

int accumulator_bits_by_norm(double norm, int input_bits, bool signed_input) {
  return signed_bits(std::ldexp(norm, input_bits - (signed_input ? 1 : 0)));
}

WeightRows weight_rows(std::span<const double> values, std::span<const std::int64_t> shape,
                       const std::vector<bool>& summed) {
  std::vector<std::size_t> steps(shape.size(), 0);
  std::size_t outputs = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (summed[i]) continue;
    steps[i] = outputs;
    outputs *= static_cast<std::size_t>(shape[i]);
  }
  if (values.empty()) outputs = 0;
  WeightRows rows{std::vector<double>(outputs), std::vector<double>(outputs), std::vector<double>(outputs)};
  std::vector<std::int64_t> place(shape.size(), 0);
  std::size_t row = 0;
  for (const double value : values) {
    rows.norm[row] += std::fabs(value);
    (value > 0 ? rows.positive : rows.negative)[row] += value;
    for (std::size_t i = shape.size(); i-- > 0;) {
      row += steps[i];
      if (++place[i] < shape[i]) break;
      row -= steps[i] * static_cast<std::size_t>(shape[i]);
      place[i] = 0;
    }
  }
  return rows;
}

DataType accumulator_type(const WeightRows& rows, double input_low, double input_high) {
  double low = 0, high = 0;
  bool first = true;
  for (std::size_t i = 0; i < rows.norm.size(); ++i) {
    const double most = rows.positive[i] * input_high + rows.negative[i] * input_low;
    const double least = rows.positive[i] * input_low + rows.negative[i] * input_high;
    high = first ? most : std::max(high, most);
    low = first ? least : std::min(low, least);
    first = false;
  }
  // The accumulator starts at zero.
  return DataType::least_integer(std::min(low, 0.0), std::max(high, 0.0));
}

}  // namespace crumb::graph
