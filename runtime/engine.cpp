#include "runtime/engine.h"

#include "runtime/model.h"

namespace crumb::runtime {
namespace {

class RuntimeExecutable final : public graph::Executable {
 public:
  RuntimeExecutable(graph::Graph graph, int threads) : model_(std::move(graph)), threads_(threads) {}

  std::vector<graph::Tensor> run(const std::vector<graph::Tensor>& inputs,
                                 const graph::Watch& watch) const override {
    std::vector<Array> values;
    for (const graph::Tensor& input : inputs) values.push_back(Array::of(input));
    std::vector<graph::Tensor> outputs;
    for (const Array& output : model_.run(std::move(values), {.threads = threads_, .watch = watch}))
      outputs.push_back(output.tensor());
    return outputs;
  }

 private:
  Model model_;
  int threads_;
};

}  // namespace

std::unique_ptr<graph::Executable> Engine::prepare(graph::Graph graph) const {
  return std::make_unique<RuntimeExecutable>(std::move(graph), threads_);
}

bool Engine::knows(const graph::Node& node) const { return find_operator(node.op, node.domain) != nullptr; }

}  // namespace crumb::runtime
