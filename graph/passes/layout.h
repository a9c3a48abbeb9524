// Which nodes can work on channels-last values, and what they are called there. Internal to graph/passes.
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

/// Where an axis of a channels-first value (negative: from behind) is afterwards.
std::int64_t axis_channels_last(std::int64_t axis, std::size_t rank);

/// The shape afterwards; of fewer than three axes, the same.
Shape channels_last_shape(const Shape& shape);

/// The axes that values of this node's first output have, where these are three or four; 0 elsewhere.
std::size_t layout_rank(const Graph& graph, const Node& node);

/// Conv, MaxPool and BatchNormalization that qonnx.custom_op.channels_last has: they want their data channels-last.
/// GlobalMaxPool of a known size is a MaxPool.
bool has_channels_last_form(const Graph& graph, const Node& node);

/// What computes every element for itself, and what only its axes keep from doing so (Concat, Split, Pad, Resize,
/// QuantizeLinear of channels): it takes the layout that it is given.
bool follows_layout(const Graph& graph, const Node& node);

/// The node, whose data are channels-last now, with its axes said anew. Precondition: follows_layout.
Node with_axes_channels_last(Graph& graph, Node node, std::size_t rank);

/// Whether input `i` is data or broadcasts to it, and so is moved with it; others are bit widths, sizes and the like.
bool moves_with_layout(const Node& node, std::size_t i);

/// What computes every element for itself out of one that is no constant, by numbers that are the same for all: the
/// value's order does not matter to it.
bool ignores_order(const Graph& graph, const Node& node);

}  // namespace crumb::graph
