// Small changes from which passes are made. Each keeps the graph sound; none sorts it.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "graph/graph.h"

namespace crumb::graph {

/// Replaces every use of one value, as an input or as an output of the graph, by the other. A graph output
/// gets the other value's name: rename_values() gives it back.
void replace_uses(Graph& graph, const std::string& from, const std::string& to);

/// Renames values, given by their old names, in every use: inputs, outputs and constants too. Precondition:
/// no other value has one of the new names.
void rename_values(Graph& graph, const std::map<std::string, std::string>& names);

/// Adds an initializer and the type and shape of its value. Returns its name: `wish`, or `wish` with a suffix
/// if it is taken.
std::string add_constant(Graph& graph, const std::string& requested, Tensor tensor);

/// Replaces a constant by one that is kept as codes, or adds that. Sets the type and shape of its value, too.
void set_codes(Graph& graph, const std::string& name, QuantizedConstant codes);

/// Adds a value of this type and shape between two nodes. Returns its name: `wish`, or `wish` with a suffix
/// if it is taken.
std::string add_value(Graph& graph, const std::string& requested, const Value& known);

/// Removes a node whose first output equals its input `kept`; its consumers take that input instead. Where
/// the output is one of the graph's, the value in front of the node gets its name. Returns false and changes
/// nothing where that is impossible: both are outputs, or the input is a graph input or a constant.
bool bypass(Graph& graph, std::size_t node, std::size_t kept);

/// Removes nodes, initializers and entries of `values` on which no output depends. Graph inputs stay.
void drop_unused(Graph& graph);

/// Returns the constant that is input i of a node, or null.
const Tensor* constant_input(const Graph& graph, const Node& node, std::size_t i);

/// Returns what Shape or Size computes from a constant or from a value whose shape is known; nothing for
/// other nodes.
std::optional<Tensor> shape_made_by(const Graph& graph, const Node& node);

}  // namespace crumb::graph
