// Opens the adapters whose paths a job is given.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/adapters/adapter.h"
#include "graph/graph.h"
#include "text/tokenizer.h"

namespace crumb::jobs {

/// Returns the graph with these adapters (formats/adapters/read_adapter.h) added to its products, in the
/// order of the paths, each named after its file. `read` returns the model's files. Throws Error, which names
/// the path.
graph::Graph with_adapters(graph::Graph graph, const std::vector<std::string>& paths,
                           const text::ReadFile& read);

/// Reads the same adapters. Sizes of heads are the model's.
std::vector<Adapter> read_adapters(const std::vector<std::string>& paths, const text::ReadFile& read);

/// Returns the name of an adapter's tensor that a packed file holds in addition to its matrices; nothing
/// where it holds none, and for other files.
std::optional<std::string> adapter_tensor_in(const std::string& input);

}  // namespace crumb::jobs
