// A checkpoint's configuration beside a network of its own that has become smaller.
#pragma once

#include <map>
#include <string>

#include "graph/graph.h"
#include "models/weight_source.h"

namespace crumb::models {

/// The checkpoint's files, by path, that say other sizes of layers than `smaller` has: its network without
/// some channels of feed-forward networks, or some heads. Of a decoder its config.json, which gets a number
/// where all layers have the same and a list where they differ. None where the sizes are the same. Throws
/// Error where config.json is no decoder's, where a layer's weights are not in the network, or do not fit its
/// heads.
std::map<std::string, std::string> resized_files(const WeightSource& checkpoint, const graph::Graph& smaller);

}  // namespace crumb::models
