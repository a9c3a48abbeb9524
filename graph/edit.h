// Small changes that passes are made of. Each keeps the graph sound; none sorts it.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "graph/graph.h"

namespace crumb::graph {

/// Every use of one value, as an input or as an output of the graph, becomes a use of the other. A graph output
/// keeps its name: see rename_output.
void replace_uses(Graph& graph, const std::string& from, const std::string& to);

/// Values take other names, by their old ones, wherever they stand: inputs, outputs and constants too. The new names are
/// those of no other value.
void rename_values(Graph& graph, const std::map<std::string, std::string>& names);

/// A new initializer, named `wish` or like it; its name. What is known of its value is set too.
std::string add_constant(Graph& graph, const std::string& wish, Tensor tensor);

/// The constant becomes one that is kept as codes, if it was there at all. What is known of its value is set too.
void set_codes(Graph& graph, const std::string& name, QuantizedConstant codes);

/// A new value of this type and shape between two nodes, named `wish` or like it.
std::string add_value(Graph& graph, const std::string& wish, const Value& known);

/// Takes a node out whose first output is nothing but its input `kept`: its consumers take that instead. Where the
/// output is one of the graph's, the value before it gets that name; where that cannot be (both are outputs, or it
/// is an input or a constant), nothing happens and false comes back.
bool bypass(Graph& graph, std::size_t node, std::size_t kept);

/// Nodes, initializers and knowledge of values that no output depends on are dropped. Inputs stay.
void drop_unused(Graph& graph);

/// The constant an input of a node is, or null.
const Tensor* constant_input(const Graph& graph, const Node& node, std::size_t i);

/// What Shape or Size makes of a constant or of a value whose shape is known; nothing for other nodes.
std::optional<Tensor> shape_made_by(const Graph& graph, const Node& node);

}  // namespace crumb::graph
