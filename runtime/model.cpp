#include "runtime/model.h"

#include <optional>
#include <string>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "graph/choose.h"
#include "graph/symbol_sizes.h"
#include "runtime/lower/lower.h"

namespace crumb::runtime {
namespace {

/// Checks that sizes with the same name agree: symbols by themselves, or (`are_sums`) sums of symbols, whose
/// terms are known by then.
void check_input(const graph::Graph& graph, const std::string& name, const Array& input, bool are_sums,
                 graph::SymbolSizes& symbols) {
  const graph::Value* value = graph.find(name);
  if (!value) return;
  const auto wrong = [&] {
    const std::string shape = value->shape ? " " + graph::text_of(*value->shape) : "";
    throw Error("input " + quote_text(name) + ": expected " + std::string(graph::name_of(value->type)) +
                shape + ", found " + text_of(input));
  };
  if (value->type != graph::ElementType::kUnknown && value->type != input.type()) wrong();
  if (!value->shape) return;
  if (value->shape->size() != input.shape().size()) wrong();
  if (graph::misfit(*value->shape, input.shape(), are_sums, symbols)) wrong();
}

/// Nodes that a pass put on a side of a Choose must come behind its condition.
graph::Graph in_order(graph::Graph graph) {
  return graph::has_choose(graph) ? graph::sorted(std::move(graph)) : std::move(graph);
}

}  // namespace

void check_inputs(const graph::Graph& graph, const std::vector<Array>& inputs) {
  if (inputs.size() != graph.inputs.size()) {
    throw Error("the graph takes " + count_text(graph.inputs.size(), "input") + ", and " +
                std::to_string(inputs.size()) + " are given");
  }
  graph::SymbolSizes symbols;
  for (const bool are_sums : {false, true})
    for (std::size_t i = 0; i < inputs.size(); ++i)
      check_input(graph, graph.inputs[i], inputs[i], are_sums, symbols);
}

Model::Model(graph::Graph graph, Computes how, const Substitutes& instead)
    : graph_(in_order(how == Computes::kIntegers ? lower(std::move(graph)).graph : std::move(graph))),
      plan_(graph_, how == Computes::kIntegers, instead) {
  std::optional<graph::Links> links;  // most networks have no Attention node and need none
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (!graph_.nodes[i].is("Attention")) continue;
    if (!links) links.emplace(graph_);
    cache_codes_[i] = runtime::cache_codes(graph_, *links, graph_.nodes[i]);
  }
  graph_.initializers.clear();
  graph_.quantized.clear();
}

std::vector<Array> Model::run(std::vector<Array> inputs, const RunOptions& options) const {
  check_inputs(graph_, inputs);
  return plan_.run(graph_, std::move(inputs), options);
}

}  // namespace crumb::runtime
