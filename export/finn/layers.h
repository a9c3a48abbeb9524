// What a FINN project says about its network in addition to the file.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "analysis/accumulator/layers.h"
#include "export/project/samples.h"

namespace crumb::exporting::finn {

/// [{"node": "Conv_0", "input": {"min": 0, "max": 15}, "accumulator": {"min": -200, "max": 301}, "macs":
/// 4608}]: of each layer with weights in codes what its input can be, the worst sums of its products (FINN
/// adds a bias behind, in thresholds), and the products of one inference. The graph is as it is written for
/// FINN, its shapes known. Throws Error that names the layers of which the inputs are not known.
nlohmann::ordered_json layers_of(const graph::Graph& graph, const analysis::GivenRanges& given);

/// What each input can be, by its own type, or by its first quantizer or thresholds behind constants; without
/// those of which that is not known.
std::map<std::string, InputSpan> spans_of(const graph::Graph& graph, const analysis::GivenRanges& given);

}  // namespace crumb::exporting::finn
