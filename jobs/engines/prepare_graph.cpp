#include "jobs/engines/prepare_graph.h"

#include "jobs/engines/graph_inputs.h"
#include "jobs/engines/open_engine.h"
#include "runtime/engine.h"

namespace crumb::jobs {

std::unique_ptr<graph::Executable> prepare_on_runtime(const graph::Graph& graph, int threads,
                                                      runtime::Promise promise) {
  return runtime::Engine(threads, promise).prepare(for_runtime(graph));
}

std::unique_ptr<graph::Executable> prepare_on_libtorch(graph::Graph graph, const std::string& device,
                                                       int threads) {
  open_engine_device().use(device, threads);
  return open_engine().prepare(for_libtorch(std::move(graph)));
}

std::unique_ptr<graph::Executable> prepare_on_either(
    const graph::Graph& graph, int threads, const std::function<void(const Error& why)>& on_libtorch) {
  try {
    return prepare_on_runtime(graph, threads);
  } catch (const Error& error) {  // LibTorch names the operators that it lacks, too
    if (error.kind() == ErrorKind::kInterrupted) throw;
    if (on_libtorch) on_libtorch(error);
  }
  return prepare_on_libtorch(graph, "cpu", threads);
}

}  // namespace crumb::jobs
