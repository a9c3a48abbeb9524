// QONNX's quantizers, by the definition in graph/qonnx/quant_arithmetic.h, and MultiThreshold.
#include <algorithm>
#include <cmath>
#include <functional>
#include <type_traits>

#include "base/files/text.h"
#include "graph/not_finite.h"
#include "graph/qonnx/quant_arithmetic.h"
#include "runtime/ops/broadcast.h"
#include "runtime/ops/families.h"
#include "runtime/ops/movement.h"

namespace crumb::runtime {
namespace {

/// An operand as doubles, with its shape.
struct QonnxOperand {
  std::vector<double> values;
  Ints shape;
  bool wide = false;

  graph::QuantOperand view() const { return {.values = values, .shape = shape, .wide = wide}; }
  double number(const Call& call) const {
    if (values.size() != 1) call.fail("expected one number, found the shape " + graph::text_of(shape));
    return values[0];
  }
};

QonnxOperand operand(const Call& call, std::size_t i) {
  const Array& x = call.in(i);
  QonnxOperand made{.values = {}, .shape = x.shape()};
  made.wide = x.carrier() == Carrier::kDouble || x.carrier() == Carrier::kInt32 ||
              x.carrier() == Carrier::kInt64 || x.carrier() == Carrier::kUint32 ||
              x.carrier() == Carrier::kUint64;
  with_carrier(x.carrier(), [&]<class T>() {
    const auto values = x.values<T>();
    made.values.resize(values.size());
    std::ranges::transform(values, made.values.begin(), [](T v) { return static_cast<double>(v); });
  });
  return made;
}

/// Which values a format has no codes for.
struct Beyond {
  bool nan = true, infinity = true;
};

void note_beyond(const Call& call, const Beyond& what = {}) {
  const Array& x = call.in(0);
  if (!graph::NotFiniteWatch::current()) return;
  std::uint64_t count = 0;
  with_carrier(x.carrier(), [&]<class T>() {
    if constexpr (std::is_floating_point_v<T>) {
      for (const T value : x.values<T>())
        count += (what.nan && std::isnan(value)) || (what.infinity && std::isinf(value)) ? 1 : 0;
    }
  });
  graph::note_not_finite(call.node(), count);
}

void give_quantized(Call& call, Result<graph::Quantized> found) {
  const graph::Quantized made = found.take(graph::text_of(call.node()));
  std::ranges::copy(made.values,
                    call.make(0, ElementType::kFloat, call.in(0).shape()).writable<float>().begin());
}

graph::QuantRounding rounding_of(const NodeFacts& facts, const char* otherwise = "ROUND") {
  const std::string name = facts.text_or("rounding_mode", otherwise);
  const auto mode = graph::find_quant_rounding(name);
  if (!mode) facts.fail("rounding_mode is " + quote_text(name));
  return *mode;
}

Kernel quant(const NodeFacts& facts) {
  graph::IntegerFormat format{.is_signed = facts.int_or("signed", 1) != 0,
                              .narrow = facts.int_or("narrow", 0) != 0};
  return [format, mode = rounding_of(facts)](Call& call) {
    const QonnxOperand bits = operand(call, 3);
    graph::IntegerFormat own = format;
    own.bits = bits.number(call);
    own.wide = bits.wide;
    note_beyond(call);
    give_quantized(call, graph::quantize(operand(call, 0).view(), operand(call, 1).view(),
                                         operand(call, 2).view(), own, mode));
  };
}

Kernel bipolar_quant(const NodeFacts&) {
  return [](Call& call) {
    note_beyond(call);
    give_quantized(call, graph::quantize_bipolar(operand(call, 0).view(), operand(call, 1).view()));
  };
}

Kernel float_quant(const NodeFacts& facts) {
  const graph::FloatFormat format{.has_inf = facts.int_or("has_inf", 0) != 0,
                                  .has_nan = facts.int_or("has_nan", 0) != 0,
                                  .saturates = facts.int_or("saturation", 1) != 0};
  return [format, mode = rounding_of(facts)](Call& call) {
    graph::FloatFormat own = format;
    own.exponent_bits = operand(call, 2).number(call);
    own.mantissa_bits = operand(call, 3).number(call);
    own.exponent_bias = operand(call, 4).number(call);
    if (call.has(5)) own.max_value = operand(call, 5).number(call);
    note_beyond(call, {.nan = !own.has_nan, .infinity = !own.has_inf});
    give_quantized(call, graph::quantize_float(operand(call, 0).view(), operand(call, 1).view(), own, mode));
  };
}

/// out[i] = f(x[i], p of i, q of i), where p and q broadcast to x; all of them float32.
template <class F>
void with_parameters(Call& call, std::size_t p, std::size_t q, const F& f) {
  const auto x = call.floats(0), a = call.floats(p), b = call.floats(q);
  const Ints whole = call.in(0).shape();
  const Ints* shapes[] = {&whole, &call.in(p).shape(), &call.in(q).shape()};
  if (broadcast_shape(call, shapes) != whole)
    call.fail("its parameters do not broadcast to " + text_of(call.in(0)));
  float* const out = call.make(0, ElementType::kFloat, whole).writable<float>().data();
  for_broadcast(whole, shapes,
                [&](std::size_t to, const Offsets& at, const Offsets& step, std::size_t count) {
                  for (std::size_t i = 0; i < count; ++i)
                    out[to + i] = f(x[at[0] + i * step[0]], a[at[1] + i * step[1]], b[at[2] + i * step[2]]);
                });
}

/// The bits of an integer that are kept: x / scale + zero to an integer, divided by 2^(bits less), rounded
/// again. Version 2 says by how much in the scale of its output, and clamps to the width of that.
Kernel truncation(const NodeFacts& facts) {
  const auto mode = rounding_of(facts, "FLOOR");
  const auto cut = [](float x, float scale, float zero, float by) {
    return std::nearbyint(x / scale + zero) / by;
  };
  const auto round = [mode](float x) { return static_cast<float>(graph::rounded(x, mode)); };
  if (facts.version() < 2) {
    return [=](Call& call) {
      const double less = operand(call, 3).number(call) - operand(call, 4).number(call);
      const auto by = static_cast<float>(std::exp2(less));
      with_parameters(call, 1, 2, [&](float x, float scale, float zero) {
        return (round(cut(x, scale, zero, by)) - zero) * scale;
      });
    };
  }
  graph::IntegerFormat format{.is_signed = facts.int_or("signed", 1) != 0,
                              .narrow = facts.int_or("narrow", 0) != 0};
  return [=](Call& call) {
    graph::IntegerFormat own = format;
    own.bits = operand(call, 5).number(call);
    const auto low = static_cast<float>(own.lower()), high = static_cast<float>(own.upper());
    const QonnxOperand scale = operand(call, 1);
    const auto before = static_cast<float>(scale.number(call));
    with_parameters(call, 4, 2, [&](float x, float after, float zero) {
      const auto by = static_cast<float>(std::exp2(std::nearbyint(std::log2(double{after / before}))));
      const float bounded = std::fmax(std::fmin(cut(x, before, zero, by), high), low);
      return (round(bounded) - zero / by) * after;
    });
  };
}

/// The axis of channels: as the layout says, else as qonnx 1.0.0 guesses from the rank.
std::int64_t channel_axis(const Call& call, std::int64_t rank) {
  std::string layout = call.node().text_or("data_layout", "");
  if (layout.empty() && rank == 3) layout = "NWC";
  const std::size_t found = layout.find('C');
  return call.usual_axis(found == std::string::npos ? 1 : static_cast<std::int64_t>(found), rank);
}

/// out_scale * (thresholds of the channel that the value reaches) + out_bias; NaN reaches none.
Kernel multi_threshold(const NodeFacts& facts) {
  const float scale = facts.float_or("out_scale", 1), bias = facts.float_or("out_bias", 0);
  return [=](Call& call) {
    const Array &x = call.in(0), &table = call.in(1);
    const std::int64_t axis = channel_axis(call, x.rank());
    const auto channels = static_cast<std::size_t>(x.dim(axis));
    if (table.rank() != 2 || (table.dim(0) != 1 && table.dim(0) != x.dim(axis)))
      call.fail("its thresholds are " + text_of(table) + ", and its input " + text_of(x));
    note_beyond(call, {.infinity = false});  // which reach all thresholds or none
    const auto values = call.floats(0), from = call.floats(1);
    const auto width = static_cast<std::size_t>(table.dim(1)),
               tables = static_cast<std::size_t>(table.dim(0));
    std::vector<std::vector<float>> ascending(tables);
    for (std::size_t c = 0; c < tables; ++c) {
      std::ranges::copy_if(from.subspan(c * width, width), std::back_inserter(ascending[c]),
                           [](float t) { return t == t; });
      std::ranges::sort(ascending[c]);
    }
    const auto inner =
        static_cast<std::size_t>(product_of(x.shape(), static_cast<std::size_t>(axis) + 1, x.shape().size()));
    const auto to = call.make(0, ElementType::kFloat, x.shape()).writable<float>();
    for (std::size_t i = 0; i < to.size(); ++i) {
      const auto& steps = ascending[tables == 1 ? 0 : i / inner % channels];
      const auto reached =
          std::isnan(values[i]) ? 0 : std::ranges::upper_bound(steps, values[i]) - steps.begin();
      to[i] = static_cast<float>(reached) * scale + bias;
    }
  };
}

}  // namespace

std::span<const OperatorRow> qonnx_operators() {
  using graph::kQonnxDomain;
  static constexpr OperatorRow kRows[] = {
      {"Quant", quant, Takes::kAll, kQonnxDomain},
      {"IntQuant", quant, Takes::kAll, kQonnxDomain},
      {"BipolarQuant", bipolar_quant, Takes::kAll, kQonnxDomain},
      {"FloatQuant", float_quant, Takes::kAll, kQonnxDomain},
      {"Trunc", truncation, Takes::kFloats, kQonnxDomain},
      {"MultiThreshold", multi_threshold, Takes::kFloats, kQonnxDomain},
  };
  return kRows;
}

}  // namespace crumb::runtime
