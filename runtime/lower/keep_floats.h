// Quantizers whose codes nothing takes.
#pragma once

#include <map>
#include <string>

#include "graph/graph.h"

namespace crumb::runtime {

/// Where codes are only moved and made floats of again, their quantizers quantize in floats, and what moves
/// them moves floats: NaN stays NaN. `values`: the value that codes stand for, by the name of the codes;
/// `movers`: by the name of the codes that a node moves, that node as it moves values.
void keep_in_floats(graph::Graph& graph, const std::map<std::string, std::string>& values,
                    const std::map<std::string, graph::Node>& movers);

}  // namespace crumb::runtime
