// Prepares a graph to run on one of the engines.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "graph/engine.h"
#include "graph/graph.h"
#include "runtime/operator.h"

namespace crumb::jobs {

/// Prepares it for Crumb's own kernels, which multiply by codes. Throws Error where they lack an operator.
std::unique_ptr<graph::Executable> prepare_on_runtime(const graph::Graph& graph, int threads,
                                                      runtime::Promise promise = runtime::Promise::kExact);

/// Prepares it for LibTorch, which multiplies by the values that codes stand for.
std::unique_ptr<graph::Executable> prepare_on_libtorch(graph::Graph graph, const std::string& device,
                                                       int threads);

/// Prepares it for the first of the two engines that has every operator, on the CPU. `on_libtorch`: hears why
/// it is not the runtime, before LibTorch is opened.
std::unique_ptr<graph::Executable> prepare_on_either(
    const graph::Graph& graph, int threads, const std::function<void(const Error& why)>& on_libtorch = {});

}  // namespace crumb::jobs
