// Ranges of operators that return elements of their inputs, or one number more.
#include <algorithm>
#include <cmath>

#include "graph/facts/range_rules.h"

namespace crumb::graph {
namespace {

using Ints = std::vector<std::int64_t>;

bool is_empty(const std::optional<Shape>& shape) {
  return shape && std::ranges::any_of(*shape, [](const Dim& dim) { return dim.size == 0; });
}

/// Joins the ranges of inputs [first, last).
ValueType join_of(const RangeCall& call, std::size_t first, std::size_t last) {
  ValueType made = call.in(first);
  made.reach.reset();
  if (last == first + 1) return made;
  const auto grid = call.grid_of(first, last);
  std::optional<Levels> levels = grid ? call.levels_on(first, *grid) : std::nullopt;
  for (std::size_t i = first + 1; i < last; ++i) {
    levels = levels ? joined(levels, call.levels_on(i, *grid)) : std::nullopt;
    made.type = joined_type(made.type, call.in(i).type);
  }
  made.levels = levels;
  return made;
}

/// Adds one number to the values.
ValueType with_number(ValueType made, double number) {
  made.reach.reset();
  if (made.levels) {
    const auto level = level_of(*made.levels, number);
    if (!level) {
      made.levels.reset();
    } else {
      made.levels =
          ranged(*made.levels, std::min(made.levels->low, *level), std::max(made.levels->high, *level));
    }
  }
  if (made.type.allows(number) && !made.type.is_float()) return made;
  made.type = made.type.is_integer() ? type_of(made.levels) : DataType();
  return made;
}

/// Whether every window has an element of the input, not only of the padding.
bool windows_meet_input(const Node& node) {
  const Ints kernel = node.ints_or("kernel_shape", {});
  const Ints strides = node.ints_or("strides", Ints(kernel.size(), 1));
  const Ints dilations = node.ints_or("dilations", Ints(kernel.size(), 1));
  const Ints pads = node.ints_or("pads", Ints(2 * kernel.size(), 0));
  const std::string auto_pad = node.text_or("auto_pad", "NOTSET");
  if (kernel.empty() || strides.size() != kernel.size() || dilations.size() != kernel.size() ||
      pads.size() != 2 * kernel.size())
    return false;
  const bool is_padded = std::ranges::any_of(pads, [](std::int64_t pad) { return pad != 0; });
  if (!is_padded && (auto_pad == "NOTSET" || auto_pad == "VALID") && node.int_or("ceil_mode", 0) == 0)
    return true;
  if (std::ranges::any_of(dilations, [](std::int64_t d) { return d != 1; })) return false;
  if (node.int_or("ceil_mode", 0) != 0) {
    // The last window begins before the input's end.
    if (is_padded || (auto_pad != "NOTSET" && auto_pad != "VALID")) return false;
    for (std::size_t i = 0; i < kernel.size(); ++i) {
      if (strides[i] > kernel[i]) return false;
    }
    return true;
  }
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    if (pads[i] < 0 || pads[i + kernel.size()] < 0) return false;
    if (pads[i] >= kernel[i] || pads[i + kernel.size()] >= kernel[i]) return false;
  }
  return true;
}

}  // namespace

ValueType moved(const RangeCall& call) { return call.in(0); }

ValueType max_pooled(const RangeCall& call) {
  return windows_meet_input(call.node()) && !is_empty(call.shape_in(0)) ? call.in(0) : ValueType();
}

ValueType reduced_to_one(const RangeCall& call) {
  return is_empty(call.shape_in(0)) ? ValueType() : call.in(0);
}

/// Nearest-neighbour resizing; outputs outside the input have a number of their own.
ValueType resized(const RangeCall& call) {
  const Node& node = call.node();
  if (node.text_or("mode", "nearest") != "nearest") return {};
  if (node.text_or("coordinate_transformation_mode", "") != "tf_crop_and_resize") return call.in(0);
  return with_number(call.in(0), node.float_or("extrapolation_value", 0));
}

/// Training scales the elements that Dropout keeps. An attribute selects it before version 7, an input from
/// 12 on.
ValueType dropped_out(const RangeCall& call) {
  const Node& node = call.node();
  if (node.version < 7 && node.int_or("is_test", 0) == 0) return {};
  if (node.version >= 12 && call.has(2) && call.number(2) != 0.0) return {};
  return call.in(0);
}

ValueType padded(const RangeCall& call) {
  const Node& node = call.node();
  if (node.version < 2) return {};
  const std::string mode = node.text_or("mode", "constant");
  if (mode != "constant") return is_empty(call.shape_in(0)) ? ValueType() : call.in(0);
  std::optional<double> pad = 0;
  if (node.version < 11) {
    pad = node.float_or("value", 0);
  } else if (call.has(2)) {
    pad = call.number(2);
  }
  return pad ? with_number(call.in(0), *pad) : ValueType();
}

/// Im2Col.
ValueType lowered_to_columns(const RangeCall& call) {
  const Ints pads = call.node().ints_or("pad_amount", {0, 0, 0, 0});
  if (std::ranges::all_of(pads, [](std::int64_t pad) { return pad == 0; })) return call.in(0);
  return with_number(call.in(0), static_cast<double>(call.node().int_or("pad_value", 0)));
}

ValueType triangle(const RangeCall& call) { return with_number(call.in(0), 0); }

ValueType concatenated(const RangeCall& call) { return join_of(call, 0, call.inputs()); }

/// The data and the updates.
ValueType scattered(const RangeCall& call) {
  const std::string reduction = call.node().text_or("reduction", "none");
  if (reduction != "none" && reduction != "max" && reduction != "min") return {};
  ValueType made = join_of(call, 0, 1);
  const auto grid = made.levels ? made.levels : call.in(2).levels;
  made.levels = grid ? joined(call.levels_on(0, *grid), call.levels_on(2, *grid)) : std::nullopt;
  made.type = joined_type(made.type, call.in(2).type);
  return made;
}

/// Where.
ValueType chosen(const RangeCall& call) { return join_of(call, 1, 3); }

namespace {

/// The range of the largest, or the smallest, of the inputs.
ValueType extreme(const RangeCall& call, bool is_largest) {
  ValueType made = join_of(call, 0, call.inputs());
  if (!made.levels || call.inputs() < 2) return made;
  if (!made.levels->positive) return made;
  const Levels grid = *call.grid_of(0, call.inputs());
  double low = is_largest ? -INFINITY : INFINITY, high = low;
  for (std::size_t i = 0; i < call.inputs(); ++i) {
    const auto one = call.levels_on(i, grid);
    if (!one) return {};
    low = is_largest ? std::max(low, one->low) : std::min(low, one->low);
    high = is_largest ? std::max(high, one->high) : std::min(high, one->high);
  }
  made.levels = ranged(*made.levels, low, high);
  return made;
}

}  // namespace

ValueType largest(const RangeCall& call) { return extreme(call, true); }
ValueType smallest(const RangeCall& call) { return extreme(call, false); }

ValueType constant_node(const RangeCall& call) {
  const auto constant = constant_of(call.node());
  if (!constant || !is_integer(constant->type())) return {};
  ValueType made = of_type(exact_data_type(constant->type()));
  std::vector<double> values;
  for (const std::int64_t value : constant->to_ints()) values.push_back(static_cast<double>(value));
  made.levels = on_grid(*made.levels, values);
  return made;
}

}  // namespace crumb::graph
