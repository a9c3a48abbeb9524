#include "runtime/engine.h"

#include "base/files/counted.h"
#include "base/files/text.h"
#include "runtime/plan.h"

namespace crumb::runtime {
namespace {

/// Sizes that a graph leaves open must agree where it calls them by the same name.
void check_input(const graph::Graph& graph, const std::string& name, const graph::Tensor& input,
                 std::map<std::string, std::int64_t>& symbols) {
  const graph::Value* value = graph.find(name);
  if (!value) return;
  const auto wrong = [&] {
    const std::string shape = value->shape ? " " + graph::text_of(*value->shape) : "";
    throw Error("input " + quote_text(name) + ": expected " + std::string(graph::name_of(value->type)) +
                shape + ", found " + std::string(graph::name_of(input.type())) + " " +
                graph::text_of(input.shape()));
  };
  if (value->type != graph::ElementType::kUnknown && value->type != input.type()) wrong();
  if (!value->shape) return;
  if (value->shape->size() != input.shape().size()) wrong();
  for (std::size_t i = 0; i < input.shape().size(); ++i) {
    const graph::Dim& dim = (*value->shape)[i];
    const std::int64_t size = input.shape()[i];
    if (dim.known() && dim.size != size) wrong();
    if (!dim.symbol.empty() && symbols.try_emplace(dim.symbol, size).first->second != size) wrong();
  }
}

class RuntimeExecutable final : public graph::Executable {
 public:
  RuntimeExecutable(graph::Graph graph, int threads) : graph_(std::move(graph)), plan_(graph_, threads) {
    graph_.initializers.clear();  // the plan has what it needs of them
    graph_.quantized.clear();
  }

  std::vector<graph::Tensor> run(const std::vector<graph::Tensor>& inputs,
                                 const graph::Watch& watch) const override {
    if (inputs.size() != graph_.inputs.size()) {
      throw Error("the graph takes " + count_text(graph_.inputs.size(), "input") + ", and " +
                  std::to_string(inputs.size()) + " are given");
    }
    std::vector<Array> values;
    std::map<std::string, std::int64_t> symbols;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      check_input(graph_, graph_.inputs[i], inputs[i], symbols);
      values.push_back(Array::of(inputs[i]));
    }
    std::vector<graph::Tensor> outputs;
    for (const Array& output : plan_.run(graph_, std::move(values), watch))
      outputs.push_back(output.tensor());
    return outputs;
  }

 private:
  graph::Graph graph_;
  Plan plan_;
};

}  // namespace

std::unique_ptr<graph::Executable> Engine::prepare(graph::Graph graph) const {
  return std::make_unique<RuntimeExecutable>(std::move(graph), threads_);
}

bool Engine::knows(const graph::Node& node) const { return find_operator(node.op, node.domain) != nullptr; }

}  // namespace crumb::runtime
