#include "runtime/engine.h"

#include "runtime/model.h"

namespace crumb::runtime {
namespace {

class RuntimeExecutable final : public graph::Executable {
 public:
  RuntimeExecutable(graph::Graph graph, int threads, Promise promise)
      : graph_(std::move(graph)), model_(graph_), threads_(threads), promise_(promise) {}
  RuntimeExecutable(graph::Graph graph, const Substitutes& instead, int threads)
      : model_(std::move(graph), Computes::kFloats, instead), in_floats_(true), threads_(threads) {}

  std::vector<graph::Tensor> run(const std::vector<graph::Tensor>& inputs,
                                 const graph::Watch& watch) const override {
    std::vector<Array> values;
    for (const graph::Tensor& input : inputs) values.push_back(Array::of(input));
    // Who watches wants values that integers do not make.
    const bool wants_floats = watch.show && !in_floats_;
    if (wants_floats && !watched_) watched_ = std::make_unique<const Model>(graph_, Computes::kFloats);
    const Model& model = wants_floats ? *watched_ : model_;
    std::vector<graph::Tensor> outputs;
    for (const Array& output :
         model.run(std::move(values), {.threads = threads_, .promise = promise_, .watch = watch}))
      outputs.push_back(output.tensor());
    return outputs;
  }

 private:
  graph::Graph graph_;  ///< of what computes in integers
  Model model_;
  bool in_floats_ = false;
  mutable std::unique_ptr<const Model> watched_;
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

bool Engine::knows(const graph::Node& node) const { return find_operator(node.op, node.domain) != nullptr; }

}  // namespace crumb::runtime
