// Constants, shapes, ranges, changes of type, and the choice between branches.
#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/choose.h"
#include "runtime/ops/convert.h"
#include "runtime/ops/families.h"

namespace crumb::runtime {
namespace {

Kernel constant(const NodeFacts& facts) {
  const auto value = graph::constant_of(facts.node);
  if (!value) facts.fail("what it holds cannot be computed with");
  return [array = Array::of(*value)](Call& call) { call.give(0, array); };
}

Kernel constant_of_shape(const NodeFacts& facts) {
  Array value(ElementType::kFloat, {1});
  value.writable<float>()[0] = 0;
  if (const auto found = facts.node.attributes.find("value"); found != facts.node.attributes.end()) {
    const auto* tensor = std::get_if<graph::Tensor>(&found->second);
    if (!tensor || tensor->size() != 1) facts.fail("value: expected a tensor of one element");
    value = Array::of(*tensor);
  }
  return [value](Call& call) {
    Array& made = call.make(0, value.type(), call.ints(0));
    with_carrier(value.carrier(),
                 [&]<class T>() { std::ranges::fill(made.writable<T>(), value.values<T>()[0]); });
  };
}

/// The sizes from `start` to `end`, counted from the back where they are negative, and kept within the axes.
Kernel shape(const NodeFacts& facts) {
  const std::int64_t start = facts.int_or("start", 0);
  const std::int64_t end = facts.int_or("end", std::numeric_limits<std::int64_t>::max());
  return [=](Call& call) {
    const Ints& sizes = call.in(0).shape();
    const auto rank = static_cast<std::int64_t>(sizes.size());
    const auto place = [&](std::int64_t at) {
      return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
    };
    const std::int64_t first = place(start), last = std::max(place(end), first);
    call.give(0, Array::ints({sizes.begin() + first, sizes.begin() + last}));
  };
}

Kernel size(const NodeFacts&) {
  return [](Call& call) {
    call.give(0, Array::ints({static_cast<std::int64_t>(call.in(0).size())}).reshaped({}));
  };
}

/// start, start + delta, ...: as many as lie before limit.
Kernel range(const NodeFacts&) {
  return [](Call& call) {
    constexpr double kMost = 1 << 30;
    const Array& start = call.in(0);
    with_carrier(start.carrier(), [&]<class T>() {
      if constexpr (std::is_same_v<T, bool>) {
        call.fail("cannot take booleans");
      } else {
        T parts[3];
        for (std::size_t i = 0; i < 3; ++i) {
          const auto values = call.values<T>(i, start.carrier());
          if (values.size() != 1) call.fail("expected one number, found " + text_of(call.in(i)));
          parts[i] = values[0];
        }
        const double steps = std::ceil((static_cast<double>(parts[1]) - static_cast<double>(parts[0])) /
                                       static_cast<double>(parts[2]));
        if (std::isnan(steps) || steps > kMost)
          call.fail("a range of " + std::to_string(steps) + " numbers is not there");
        const auto count = static_cast<std::int64_t>(std::max(steps, 0.0));
        const auto out = call.make(0, start.type(), {count}).template writable<T>();
        for (std::size_t i = 0; i < out.size(); ++i)
          out[i] = static_cast<T>(parts[0] + static_cast<T>(i) * parts[2]);
      }
    });
  };
}

/// The types that casts make: those that are stored as they are carried, and the floats of 16 bits.
bool is_made(ElementType type) {
  return carrier_of(type) != Carrier::kNone && graph::info(type).bits >= 8 &&
         (!graph::is_float(type) || graph::info(type).bits >= 16);
}

Kernel cast_operator(const NodeFacts& facts) {
  const auto type = graph::element_type_of(facts.int_or("to", 0));
  if (!type || !is_made(*type))
    facts.fail("a change of type to " + (type ? std::string(graph::name_of(*type)) : "none") +
               " is not there");
  return [type = *type](Call& call) { call.give(0, cast(call.in(0), type)); };
}

Kernel cast_like(const NodeFacts& facts) {
  if (facts.type(1) != ElementType::kUnknown && !is_made(facts.type(1)))
    facts.fail("a change of type to " + std::string(graph::name_of(facts.type(1))) + " is not there");
  return [](Call& call) {
    const ElementType type = call.in(1).type();
    if (!is_made(type))
      call.fail("a change of type to " + std::string(graph::name_of(type)) + " is not there");
    call.give(0, cast(call.in(0), type));
  };
}

/// The plan computes the values of one side alone (graph/choose.h).
Kernel side_of_choose(const NodeFacts& facts) {
  if (!graph::is_choose(facts.node)) facts.fail("expected a condition, and two values for each output");
  return [](Call& call) {
    const Ints condition = call.ints(0);
    if (condition.size() != 1) call.fail("expected one condition, found " + std::to_string(condition.size()));
    const std::size_t first = condition[0] != 0 ? 1 : 1 + call.outputs();
    for (std::size_t i = 0; i < call.outputs(); ++i) call.give(i, call.take(first + i));
  };
}

}  // namespace

std::span<const OperatorRow> constant_operators() {
  static constexpr OperatorRow kRows[] = {
      {"Constant", constant},  {"ConstantOfShape", constant_of_shape},
      {"Shape", shape},        {"Size", size},
      {"Range", range},        {"Cast", cast_operator},
      {"CastLike", cast_like}, {graph::kChoose, side_of_choose, Takes::kAll, graph::kControlDomain},
  };
  return kRows;
}

}  // namespace crumb::runtime
