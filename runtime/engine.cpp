#include "runtime/engine.h"

#include <mutex>

#include "graph/loop_parts.h"
#include "runtime/model.h"

namespace crumb::runtime {
namespace {

/// A model, and what its runs have.
struct Runnable {
  explicit Runnable(graph::Graph graph, Computes how, const Substitutes& instead = {})
      : model(std::move(graph), how, instead) {}

  Model model;
  ArenaPool arenas;
};

class RuntimeExecutable final : public graph::Executable {
 public:
  RuntimeExecutable(graph::Graph graph, int threads, Promise promise)
      : graph_(std::move(graph)), own_(graph_, Computes::kIntegers), threads_(threads), promise_(promise) {}
  RuntimeExecutable(graph::Graph graph, const Substitutes& instead, int threads)
      : own_(std::move(graph), Computes::kFloats, instead), in_floats_(true), threads_(threads) {}

  std::vector<graph::Tensor> run(const std::vector<graph::Tensor>& inputs,
                                 const graph::Watch& watch) const override {
    std::vector<Array> values;
    for (const graph::Tensor& input : inputs) values.push_back(Array::of(input));
    // A watcher wants values that integers do not make.
    Runnable& runnable = watch.show && !in_floats_ ? watched() : own_;
    const ArenaPool::Lease lease(runnable.arenas);
    const RunOptions options{
        .threads = threads_, .promise = promise_, .watch = watch, .arena = lease.arena()};
    std::vector<graph::Tensor> outputs;
    for (const Array& output : runnable.model.run(std::move(values), options))
      outputs.push_back(output.tensor());
    return outputs;
  }

 private:
  Runnable& watched() const {
    std::call_once(makes_watched_, [&] { watched_ = std::make_unique<Runnable>(graph_, Computes::kFloats); });
    return *watched_;
  }

  graph::Graph graph_;  ///< the graph that computes in integers
  mutable Runnable own_;
  bool in_floats_ = false;
  mutable std::once_flag makes_watched_;
  mutable std::unique_ptr<Runnable> watched_;
  int threads_;
  Promise promise_ = Promise::kExact;
};

}  // namespace

std::unique_ptr<graph::Executable> Engine::prepare(graph::Graph graph) const {
  return std::make_unique<RuntimeExecutable>(std::move(graph), threads_, promise_);
}

std::unique_ptr<graph::Executable> Engine::prepare_in_floats(graph::Graph graph,
                                                             const Substitutes& instead) const {
  return std::make_unique<RuntimeExecutable>(std::move(graph), instead, threads_);
}

bool Engine::knows(const graph::Node& node) const {
  const auto has_kernel = [](const graph::Node& one) { return find_operator(one.op, one.domain) != nullptr; };
  return graph::unknown_nodes(node, has_kernel).empty();
}

}  // namespace crumb::runtime
