#include "analysis/accumulator/simulate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/files/counted.h"
#include "base/files/text.h"

namespace crumb::analysis {
namespace {

constexpr double kOffGrid = 1e-2;   // of a step
constexpr double kRounding = 1e-6;  // relative: float32 inputs over double scales

/// A register that adds up what those of the tiles hold.
SimulatedRegister outer_of(const SimulatedRegister& inner, std::size_t length, std::size_t tile) {
  const int bits = length == 0 ? inner.bits() : outer_accumulator_bits(inner.bits(), length, tile);
  return {std::min(bits, kMostAccumulatorBits), inner.mode()};
}

}  // namespace

SimulatedLayer::SimulatedLayer(const ProductLayer& layer, std::size_t tile, const SimulatedRegister& inner)
    : name_(layer.name),
      op_(layer.op),
      rule_(layer.rule),
      kind_(layer.kind),
      weight_at_(layer.weight_at),
      weight_first_(layer.weight_first),
      weight_shape_(layer.weight_shape),
      strides_(layer.strides),
      dilations_(layer.dilations),
      groups_(static_cast<std::size_t>(layer.groups)),
      channels_(layer.channels),
      length_(layer.length),
      bias_(layer.bias_codes),
      range_(layer.input_range.value()),
      weight_range_(layer.weight_range),
      input_step_(layer.input_scale.value() * layer.input_unit),
      weight_step_(layer.unit * (layer.scale.empty() ? 1 : layer.scale[0])),
      inner_(inner),
      outer_(outer_of(inner, layer.length, tile)),
      tile_(tile) {
  for (const double scale : layer.scale) result_scale_.push_back(scale * layer.unit * input_step_);
  if (!layer.part.empty())
    part_.assign(layer.part.begin(), layer.part.begin() + static_cast<std::ptrdiff_t>(length_));
  if (!layer.codes.empty()) set_codes(layer.codes, layer.weight_shape);
}

/// Parts, and the tiles of each, one behind the other. Rows of one scale have the same parts.
void SimulatedLayer::order_terms() {
  const auto key = [&](std::size_t term) {
    return std::pair(part_.empty() ? 0 : part_[term], tile_ == 0 ? 0 : term / tile_);
  };
  order_.resize(length_);
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::ranges::stable_sort(order_, {}, key);
  for (std::size_t place = 0; place < length_; ++place) {
    const auto [part, number] = key(order_[place]);
    const bool fresh_part = part >= parts_.size();
    if (fresh_part) parts_.push_back({registers_.size(), registers_.size()});
    if (fresh_part || registers_.back().tile != number) {
      registers_.push_back({place, place, number});
      ++parts_.back().end;
    }
    registers_.back().end = place + 1;
  }
}

void SimulatedLayer::set_codes(std::vector<std::int64_t> codes, std::vector<std::int64_t> shape) {
  channels_ = length_ == 0 ? channels_ : codes.size() / length_;
  weight_shape_ = std::move(shape);
  if (order_.empty() && channels_ > 0) order_terms();
  codes_.resize(codes.size());
  for (std::size_t c = 0; c < channels_; ++c) {
    for (std::size_t i = 0; i < length_; ++i) codes_[c * length_ + i] = codes[c * length_ + order_[i]];
  }
}

std::vector<std::int64_t> SimulatedLayer::on_grid(std::span<const double> values, double step,
                                                  IntegerRange range, const char* what) const {
  std::vector<std::int64_t> codes;
  codes.reserve(values.size());
  for (const double value : values) {
    const double steps = value / step, code = std::round(steps);
    const bool is_whole = std::fabs(steps - code) <= kOffGrid + kRounding * std::fabs(steps);
    if (!is_whole || code < static_cast<double>(range.low) || code > static_cast<double>(range.high)) {
      throw Error("layer " + quote_text(name_) + " (" + op_ + "): " + what + " is " + number_text(value) +
                  ", " + number_text(steps) + " steps of " + number_text(step) +
                  ", expected a whole number of them from " + std::to_string(range.low) + " to " +
                  std::to_string(range.high));
    }
    codes.push_back(static_cast<std::int64_t>(code));
  }
  return codes;
}

void SimulatedLayer::check_range(std::span<const std::int64_t> codes, IntegerRange range,
                                 const char* what) const {
  for (const std::int64_t code : codes) {
    if (code >= range.low && code <= range.high) continue;
    throw Error("layer " + quote_text(name_) + " (" + op_ + "): " + what + " is " + std::to_string(code) +
                " less its zero point, expected " + std::to_string(range.low) + " to " +
                std::to_string(range.high));
  }
}

std::vector<std::int64_t> SimulatedLayer::input_codes(std::span<const double> values) const {
  return on_grid(values, input_step_, range_, "an input");
}

std::vector<std::int64_t> SimulatedLayer::weight_codes(std::span<const double> values) const {
  return on_grid(values, weight_step_, weight_range_.value(), "a weight");
}

void SimulatedLayer::check_inputs(std::span<const std::int64_t> codes) const {
  check_range(codes, range_, "an input");
}

void SimulatedLayer::check_weights(std::span<const std::int64_t> codes) const {
  check_range(codes, weight_range_.value(), "a weight");
}

std::int64_t SimulatedLayer::sum(std::size_t channel, std::size_t part, std::span<const std::int64_t> inputs,
                                 std::size_t result, OverflowReport& report) const {
  const std::int64_t start = bias_.empty() ? 0 : bias_[bias_.size() == 1 ? 0 : channel];
  std::int64_t additions = 0;
  const auto note = [&](const Overflows& found, std::optional<std::size_t> tile, std::size_t of) {
    if (found.count == 0) return;
    if (additions == 0 && (!report.first || result < report.first->result)) {
      report.first = {.result = result,
                      .channel = channel,
                      .tile = tile,
                      .sum = found.first->sum,
                      .terms = found.first->terms,
                      .of = of,
                      .bits = inner_.bits()};
    }
    additions += found.count;
  };
  const bool reached = part < parts_.size();
  const Part whole = reached ? parts_[part] : Part{};
  const bool tiled = whole.end - whole.begin > 1;
  std::int64_t total = 0;
  if (!reached) {
    Overflows found;
    total = inner_.add(0, start, 0, found);
    note(found, std::nullopt, 0);
  }
  Overflows outside;
  for (std::size_t r = whole.begin; r < whole.end; ++r) {
    const Register& one = registers_[r];
    const std::size_t count = one.end - one.begin;
    Overflows found;
    const std::int64_t sum = inner_.sum(r == whole.begin ? start : 0,
                                        std::span(codes_).subspan(channel * length_ + one.begin, count),
                                        inputs.subspan(one.begin, count), found);
    note(found, tiled ? std::optional(one.tile) : std::nullopt, count);
    total = tiled ? outer_.add(total, sum, r, outside) : sum;
  }
  additions += outside.count;  // after one in a tile: the outer register holds all that theirs do
  ++report.results;
  report.overflowed += additions > 0 ? 1 : 0;
  report.additions += additions;
  return total;
}

std::string SimulatedLayer::text_of_overflow() const {
  const OverflowReport::First& at = report_.first.value();
  std::string text =
      "layer " + quote_text(name_) + " (" + op_ + "), output channel " + std::to_string(at.channel);
  if (at.tile) text += ", tile " + std::to_string(*at.tile);
  text += ": a sum reaches " + std::to_string(at.sum) + " after " + std::to_string(at.terms) + " of " +
          std::to_string(at.of) + " terms, which takes " +
          std::to_string(accumulator_bits({.max = at.sum, .min = at.sum})) + " bits; the accumulator has " +
          std::to_string(at.bits);
  return text + " (" + std::to_string(report_.overflowed) + " of this layer's " +
         std::to_string(report_.results) + " sums overflow)";
}

std::string why_not_simulated(const ProductLayer& layer) {
  if (!layer.failure().empty()) return layer.failure();
  const graph::Terms terms = layer.rule ? layer.rule->terms : graph::Terms::kMatrix;
  if (terms == graph::Terms::kGates || terms == graph::Terms::kHeads || terms == graph::Terms::kSquares)
    return "the node computes more than this product, in one piece";
  if (terms == graph::Terms::kTransposed && !layer.has_codes())
    return "the taps of a transposed convolution's computed kernel are not told apart";
  if (terms == graph::Terms::kEquation && layer.has_ellipsis) return "its equation has an ellipsis";
  if (!layer.one_scale) {
    return layer.has_codes() ? "its rows have several scales, each with a sum of its own"
                             : "the scale of its operand " + quote_text(layer.weight) + " is no constant";
  }
  if (!layer.input_scale || !(*layer.input_scale > 0) || !std::isfinite(*layer.input_scale))
    return "the scale of its input " + quote_text(layer.input) + " is no constant";
  const auto sums = layer.worst_sums(0);
  const bool fits = sums && std::ranges::all_of(*sums, [](const graph::ChannelSums& channel) {
                      return std::ranges::all_of(channel, [](const WorstSums& sum) {
                        return sum.max <= kMostSimulatedSum && sum.min >= -kMostSimulatedSum;
                      });
                    });
  return fits ? "" : "its sums can take more than 63 bits";
}

AccumulatorSimulation simulate_accumulators(const graph::Graph& graph, int bits, OverflowMode mode,
                                            const GivenRanges& ranges, bool constrained_only) {
  const SimulatedRegister inner(bits, mode);
  const ProductLayers layers(graph, ranges);
  AccumulatorSimulation simulation;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const graph::Node& node = layers.node(i);
    const ProductLayer layer = layers.layer(i);
    if (layer.is_float && !layers.has_constant_weight(i)) continue;  // squares of floats
    const std::optional<graph::Certificate> certificate = certificate_of(node).take(text_of(node));
    std::string reason = why_not_simulated(layer);
    const std::string op = layer.operands.empty() ? layer.op : layer.op + " " + layer.operands;
    if (constrained_only && !(certificate && certificate->constrained) && reason.empty())
      reason = certificate ? "training did not constrain it" : "it has no certificate";
    if (!reason.empty()) {
      simulation.skipped.push_back({layer.name, op, std::move(reason)});
      continue;
    }
    simulation.products.push_back(
        {.output = node.outputs[0],
         .bias_sum = layer.bias_sum,
         .layer = std::make_shared<SimulatedLayer>(layer, certificate ? certificate->tile : 0, inner)});
  }
  if (simulation.products.empty()) {
    std::string text = "no layer's accumulator can be simulated";
    for (const auto& one : simulation.skipped)
      text += "\nlayer " + quote_text(one.name) + " (" + one.op + "): " + one.reason;
    throw Error(text);
  }
  return simulation;
}

}  // namespace crumb::analysis
