// Opens the adapters whose paths a job is given.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/adapters/adapter.h"
#include "graph/graph.h"
#include "jobs/observer.h"
#include "quant/tensor_source.h"

namespace crumb::jobs {

/// Returns the graph with these adapters (formats/adapters/read_adapter.h) added to its products, in the
/// order of the paths, each named after its file. `base` is the model's file. Throws as read_adapters() does.
graph::Graph with_adapters(graph::Graph graph, const std::vector<std::string>& paths,
                           const TensorSource& base, Observer& observer);

/// Reads the same adapters. Sizes of heads are the base's, and what an adapter repeats of the base is
/// compared with it (jobs/language/base_copies.h). Throws Error, which names the path.
std::vector<Adapter> read_adapters(const std::vector<std::string>& paths, const TensorSource& base,
                                   Observer& observer);

/// Returns the name of an adapter's tensor that a packed file holds in addition to its matrices; nothing
/// where it holds none, and for other files.
std::optional<std::string> adapter_tensor_in(const std::string& input);

}  // namespace crumb::jobs
