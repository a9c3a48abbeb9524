// What a sentence encoder's graph (models/checkpoint_graph.h) takes for lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace crumb::models {

/// Whether a graph gives the states of tokens, and no predictions.
bool is_encoder(const graph::Graph& graph);

/// `lines`: of each, its tokens' ids; shorter ones are filled up, and masked there. `unpooled`: first tokens
/// of each line that the pooling leaves out, where the graph has an input for that. In the order of the
/// graph's inputs. `types`: of each line's tokens; empty where all are 0. Throws Error for an input that is
/// no encoder's. Precondition: there is a line, and none is empty.
std::vector<graph::Tensor> encoder_inputs(const graph::Graph& graph,
                                          const std::vector<std::vector<std::int64_t>>& lines,
                                          std::size_t unpooled = 0,
                                          const std::vector<std::vector<std::int64_t>>& types = {});

}  // namespace crumb::models
