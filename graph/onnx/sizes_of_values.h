// Sizes of values as values of the graph: constants where shapes say them, else Shape and Gather. Internal to
// graph/onnx.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "graph/onnx/node_writer.h"

namespace crumb::graph {

inline std::string list_of(NodeWriter& writer, const std::string& what, std::vector<std::int64_t> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return writer.constant(what, Tensor::ints({count}, values));
}

inline std::string int_of(NodeWriter& writer, const std::string& what, std::int64_t value) {
  return writer.constant(what, Tensor::scalar(value));
}

/// Larger sizes count as not known, so that sums and products of few are 64-bit numbers.
inline constexpr std::int64_t kMostSize = std::int64_t{1} << 40;

/// The size of an axis, where it is known. Negative axes count from the last.
inline std::optional<std::int64_t> known_size(const NodeWriter& writer, const std::string& value,
                                              std::int64_t axis) {
  const auto shape = writer.graph().shape_of(value);
  if (!shape) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(shape->size());
  const std::int64_t at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank || !(*shape)[static_cast<std::size_t>(at)].known()) return std::nullopt;
  const std::int64_t size = (*shape)[static_cast<std::size_t>(at)].size;
  return size <= kMostSize ? std::optional(size) : std::nullopt;
}

/// Returns the size of an axis, which counts from the first, as one number without axes.
inline std::string size_of(NodeWriter& writer, const std::string& value, std::int64_t axis) {
  return writer.once("size " + std::to_string(axis) + " of " + value, [&] {
    if (const auto known = known_size(writer, value, axis)) return int_of(writer, "size", *known);
    return writer.add("Gather", {writer.add("Shape", {value}), int_of(writer, "axis", axis)},
                      {{"axis", std::int64_t{0}}});
  });
}

inline std::string unsqueezed(NodeWriter& writer, const std::string& value, std::vector<std::int64_t> axes) {
  return writer.add("Unsqueeze", {value, list_of(writer, "axes", std::move(axes))}, {}, 13);
}

/// The same as a list of one number.
inline std::string size_list_of(NodeWriter& writer, const std::string& value, std::int64_t axis) {
  return writer.once("size list " + std::to_string(axis) + " of " + value, [&] {
    if (const auto known = known_size(writer, value, axis)) return list_of(writer, "size", {*known});
    return unsqueezed(writer, size_of(writer, value, axis), {0});
  });
}

/// Returns 0, 1, ... below the number.
inline std::string counted_to(NodeWriter& writer, const std::string& number) {
  return writer.add("Range", {int_of(writer, "start", 0), number, int_of(writer, "step", 1)}, {}, 11);
}

inline std::string as_int64(NodeWriter& writer, const std::string& value) {
  return writer.add("Cast", {value}, {{"to", static_cast<std::int64_t>(ElementType::kInt64)}});
}

inline bool is_or_may_be_float32(const NodeWriter& writer, const std::string& value) {
  const Value* known = writer.graph().find(value);
  return !known || known->type == ElementType::kFloat || known->type == ElementType::kUnknown;
}

}  // namespace crumb::graph
