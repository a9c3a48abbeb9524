// A graph ready to run, on the engines that there are.
#pragma once

#include <memory>
#include <string>

#include "graph/engine.h"
#include "graph/graph.h"
#include "runtime/operator.h"

namespace crumb::jobs {

/// Crumb's own kernels, which multiply by codes. Throws Error where they have not every operator.
std::unique_ptr<graph::Executable> prepare_on_runtime(const graph::Graph& graph, int threads,
                                                      runtime::Promise promise = runtime::Promise::kExact);

/// LibTorch, which multiplies by what codes stand for.
std::unique_ptr<graph::Executable> prepare_on_libtorch(graph::Graph graph, const std::string& device,
                                                       int threads);

/// The first of them that has every operator, on the CPU.
std::unique_ptr<graph::Executable> prepare_on_either(const graph::Graph& graph, int threads);

}  // namespace crumb::jobs
