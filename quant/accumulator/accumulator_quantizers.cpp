#include "quant/accumulator/accumulator_quantizers.h"

#include <algorithm>
#include <cmath>

namespace crumb {
namespace {

constexpr double kLeastNorm = 1e-10;  // of norms and scales before rounding

double l1_norm(std::span<const double> row) {
  double sum = 0;
  for (const double value : row) sum += std::fabs(value);
  return sum;
}

std::vector<double> centred(std::span<const double> row) {
  double sum = 0;
  for (const double value : row) sum += value;
  const double mean = row.empty() ? 0 : sum / static_cast<double>(row.size());
  std::vector<double> result(row.begin(), row.end());
  for (double& value : result) value -= mean;
  return result;
}

RowParameters within(RowParameters parameters, double radius) {
  parameters.log2_norm = std::min(parameters.log2_norm, std::log2(std::max(radius, kLeastNorm)));
  return parameters;
}

}  // namespace

RowParameters initial_row_parameters(std::span<const double> weights, int weight_bits) {
  double largest = 0;
  for (const double value : weights) largest = std::max(largest, std::fabs(value));
  return {.log2_norm = std::log2(std::max(l1_norm(weights), kLeastNorm)),
          .log2_scale = std::log2(std::max(largest, kLeastNorm) / (std::ldexp(1.0, weight_bits - 1) - 1))};
}

std::vector<std::int64_t> a2q_codes_ref(std::span<const double> weights, const RowParameters& parameters,
                                        int weight_bits, double budget) {
  const double g = std::exp2(parameters.log2_norm), s = std::exp2(parameters.log2_scale);
  const double norm = std::min(g / s, budget), pre_scale = std::max(l1_norm(weights) / norm, kLeastNorm);
  const double most = std::ldexp(1.0, weight_bits - 1) - 1;
  std::vector<std::int64_t> codes;
  codes.reserve(weights.size());
  for (const double w : weights) {
    const double code = norm > 0 ? std::clamp(std::trunc(w / pre_scale), -most, most) : 0;
    codes.push_back(static_cast<std::int64_t>(code));
  }
  return codes;
}

std::vector<std::int64_t> a2q_plus_codes_ref(std::span<const double> weights, const RowParameters& parameters,
                                             int weight_bits, double budget) {
  return a2q_codes_ref(centred(weights), parameters, weight_bits, budget);
}

double project_to_l1_ball(std::span<double> row, double radius) {
  if (l1_norm(row) <= radius) return 0;
  std::vector<double> sorted(row.size());
  std::ranges::transform(row, sorted.begin(), [](double value) { return std::fabs(value); });
  std::ranges::sort(sorted, std::greater<>());
  double sum = 0, theta = sorted.empty() ? 0 : sorted[0];
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    sum += sorted[i];
    const auto count = static_cast<double>(i + 1);
    if (count * sorted[i] > sum - radius) theta = (sum - radius) / count;
  }
  for (double& value : row) value = std::copysign(std::max(std::fabs(value) - theta, 0.0), value);
  return theta;
}

RowParameters a2q_project(std::span<double> weights, RowParameters parameters, double budget) {
  const double radius = std::exp2(parameters.log2_scale) * budget;
  project_to_l1_ball(weights, radius);
  return within(parameters, radius);
}

RowParameters a2q_plus_project(std::span<double> weights, RowParameters parameters, double budget) {
  const std::vector<double> row = centred(weights);
  std::ranges::copy(row, weights.begin());
  return a2q_project(weights, parameters, budget);
}

}  // namespace crumb
