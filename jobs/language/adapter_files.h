// Adapters that a job is given, by their paths.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/adapters/adapter.h"
#include "graph/graph.h"
#include "text/tokenizer.h"

namespace crumb::jobs {

/// The graph with these adapters (formats/adapters/read_adapter.h) beside its products, in their order, each
/// called like its file. `read` gives the model's files. Throws Error, which names the path.
graph::Graph with_adapters(graph::Graph graph, const std::vector<std::string>& paths,
                           const text::ReadFile& read);

/// The same ones, read. Sizes of heads are the model's.
std::vector<Adapter> read_adapters(const std::vector<std::string>& paths, const text::ReadFile& read);

/// A tensor of an adapter that a packed file has beside its matrices; nothing of other files, and where there
/// is none.
std::optional<std::string> adapter_tensor_in(const std::string& input);

}  // namespace crumb::jobs
