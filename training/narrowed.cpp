#include "training/narrowed.h"

#include <algorithm>
#include <map>

#include "quant/accumulator/accumulator.h"
#include "quant/accumulator/integer_width.h"
#include "training/references.h"

namespace crumb::training {
namespace {

constexpr const char* kSeries = "QAT, narrowed to fit";

bool is_whole(const NumberFormat& format) {
  return format.grid == Grid::kInteger || format.grid == Grid::kBinary;
}

bool can_be_narrowed(const QuantSpec& spec) {
  return spec.number->grid == Grid::kInteger && spec.zero == ZeroPoint::kNone &&
         with_bits(spec, spec.number->bits).number == spec.number;
}

std::string text_of_widths(int weights, int activations) {
  return "W" + std::to_string(weights) + "A" + std::to_string(activations);
}

/// What the runs at the same widths found.
struct Widths {
  std::vector<SweepValue> values;
  std::optional<int> bits = 0;  // of the register that every inner layer fits
  double mean = 0;
};

/// The first and the last layer count no more than they do for the other columns.
std::optional<int> bits_of_inner_layers(const Json& report) {
  const Json& layers = report.at("accumulator");
  int most = 0;
  for (std::size_t i = 1; i + 1 < layers.size(); ++i) {
    const Json bits = layers[i].value("bits_by_types", Json());
    if (!bits.is_number()) return std::nullopt;
    most = std::max(most, bits.get<int>());
  }
  return most;
}

}  // namespace

std::optional<int> bits_by_types(const graph::Graph& graph, const analysis::AccumulatorRow& row) {
  const auto node = std::ranges::find(graph.nodes, row.name, &graph::Node::name);
  if (node == graph.nodes.end() || !row.input) return std::nullopt;
  const auto weight = std::ranges::find_if(
      node->inputs, [&](const std::string& input) { return graph.quantized.contains(input); });
  if (weight == node->inputs.end()) return std::nullopt;
  const QuantSpec spec = QuantSpec::parse(graph.quantized.at(*weight).tensor->spec);
  if (!is_whole(*spec.number) || spec.zero != ZeroPoint::kNone) return std::nullopt;
  const std::int64_t low = spec.number->grid == Grid::kBinary ? -1 : spec.number->least_code(spec.range);
  const std::int64_t high = spec.number->grid == Grid::kBinary ? 1 : spec.number->greatest_code(spec.range);
  const IntegerRange input = row.input->with_zero();
  const auto terms = static_cast<std::int64_t>(row.length);
  constexpr std::int64_t kMostInput = std::int64_t{1} << 24,
                         kMostTerms = std::int64_t{1} << 30;  // sums fit 62 bits
  if (input.low < -kMostInput || input.high > kMostInput || terms > kMostTerms) return std::nullopt;
  return accumulator_bits(WorstSums{.max = terms * std::max(high * input.high, low * input.low),
                                    .min = terms * std::min(low * input.high, high * input.low)});
}

std::string widths_text(const tasks::TrainRequest& request) {
  const Recipe& recipe = request.recipe;
  if (!recipe.weights || !recipe.activations) return "";
  if (!recipe.weights->number->is_signed || !can_be_narrowed(*recipe.weights) ||
      !can_be_narrowed(*recipe.activations)) {
    return "";
  }
  return text_of_widths(recipe.weights->number->bits, recipe.activations->number->bits);
}

std::vector<SweepPoint> narrowed_points(const tasks::TrainRequest& base) {
  std::vector<SweepPoint> points;
  const std::string own = widths_text(base);
  if (own.empty()) return points;
  const QuantSpec weights = *base.recipe.weights, activations = *base.recipe.activations;
  for (int m = weights.number->bits; m >= 2; --m) {
    for (int n = activations.number->bits; n >= (activations.number->is_signed ? 2 : 1); --n) {
      const std::string widths = text_of_widths(m, n);
      if (widths == own) continue;
      SweepPoint point{.name = "narrowed-" + widths, .series = kSeries, .label = "", .request = base};
      point.request.recipe.accumulator.reset();
      point.request.recipe.weights = with_bits(weights, m);
      point.request.recipe.activations = with_bits(activations, n);
      point.widths = widths;
      points.push_back(std::move(point));
    }
  }
  return points;
}

std::vector<SweepValue> narrowed_values(const SweepGrid& grid, const std::vector<Json>& reports, int widest,
                                        int narrowest) {
  std::map<std::string, Widths> found;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const SweepPoint& point = grid.points[i];
    if (point.widths.empty()) continue;
    Widths& widths = found[point.widths];
    const std::optional<int> bits = bits_of_inner_layers(reports[i]);
    widths.bits = bits && widths.bits ? std::optional(std::max(*bits, *widths.bits)) : std::nullopt;
    widths.values.push_back({.series = kSeries,
                             .label = "",
                             .seed = point.request.seed,
                             .metric = reports[i].at("quantized"),
                             .widths = point.widths});
  }
  for (auto& [name, widths] : found) {
    for (const SweepValue& value : widths.values) widths.mean += value.metric;
    widths.mean /= static_cast<double>(widths.values.size());
  }
  const bool less = is_less_better(reports.at(0).at("metric"));
  std::vector<SweepValue> values;
  for (int register_bits = widest; register_bits >= narrowest; --register_bits) {
    const Widths* best = nullptr;
    for (const auto& [name, widths] : found) {
      if (!widths.bits || *widths.bits > register_bits) continue;
      if (!best || (less ? widths.mean < best->mean : widths.mean > best->mean)) best = &widths;
    }
    if (!best) continue;
    for (SweepValue value : best->values) {
      value.label = std::to_string(register_bits);
      value.x = register_bits;
      values.push_back(std::move(value));
    }
  }
  return values;
}

}  // namespace crumb::training
