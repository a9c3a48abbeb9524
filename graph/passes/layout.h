// Which nodes have channels-last forms, and their names. Internal to graph/passes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

/// [0, 2, ..., rank - 1, 1] and its inverse.
std::vector<std::int64_t> to_channels_last(std::size_t rank);
std::vector<std::int64_t> to_channels_first(std::size_t rank);

/// Returns the channels-last axis of an axis of a channels-first value (negative: from the end).
std::int64_t axis_channels_last(std::int64_t axis, std::size_t rank);

/// Returns the channels-last shape; with fewer than three axes, the same shape.
Shape channels_last_shape(const Shape& shape);

/// Returns the rank of this node's first output if it is three or four, else 0.
std::size_t layout_rank(const Graph& graph, const Node& node);

/// Whether qonnx.custom_op.channels_last has the node's operator, Conv, MaxPool or BatchNormalization, which
/// takes channels-last data. GlobalMaxPool of a known size counts as a MaxPool.
bool has_channels_last_form(const Graph& graph, const Node& node);

/// Whether the node works in either layout: it computes each element alone, or would if its axes were changed
/// (Concat, Split, Pad, Resize, QuantizeLinear with a scale per channel).
bool follows_layout(const Graph& graph, const Node& node);

/// Returns the node for channels-last data, with its axes changed. Precondition: follows_layout.
Node with_axes_channels_last(Graph& graph, Node node, std::size_t rank);

/// Whether input `i` is data or broadcasts to it, so that it changes its layout; others are bit widths, sizes
/// and the like.
bool moves_with_layout(const Node& node, std::size_t i);

/// Whether the node computes each element from one that is not constant, with the same numbers for all
/// elements, so that their order does not matter.
bool ignores_order(const Graph& graph, const Node& node);

}  // namespace crumb::graph
