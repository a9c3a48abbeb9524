#include "models/graph/cost/bind_shapes.h"

#include <algorithm>

#include "formats/io/text.h"
#include "formats/text/nearest_name.h"
#include "models/graph/passes/passes.h"

namespace crumb::graph {
namespace {

using Symbols = std::map<std::string, std::int64_t>;

void bind_input(const std::string& name, Value& value, const std::vector<std::int64_t>& sizes,
                Symbols& symbols) {
  if (!value.shape) value.shape = Shape(sizes.size());
  const auto refuse = [&] {
    throw Error("input " + quote_text(name) + " takes the shape " + text_of(*value.shape) + ", found " +
                text_of(sizes));
  };
  if (value.shape->size() != sizes.size()) refuse();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    Dim& dim = (*value.shape)[i];
    if (dim.known() && dim.size != sizes[i]) refuse();
    if (dim.symbol.empty()) {
      dim = sizes[i];
    } else if (const auto [at, fresh] = symbols.emplace(dim.symbol, sizes[i]);
               !fresh && at->second != sizes[i]) {
      throw Error("input " + quote_text(name) + " takes the shape " + text_of(*value.shape) + ", where " +
                  quote_text(dim.symbol) + " is " + std::to_string(at->second) + "; found " + text_of(sizes));
    }
  }
}

}  // namespace

Graph bind_shapes(Graph graph, const std::map<std::string, std::vector<std::int64_t>>& given) {
  Symbols symbols;
  for (const auto& [name, sizes] : given) {
    if (std::ranges::find(graph.inputs, name) == graph.inputs.end()) {
      throw Error(unknown_name("input", name, graph.inputs));
    }
    bind_input(name, graph.values[name], sizes, symbols);
  }
  for (const std::string& name : graph.inputs) {
    Value& value = graph.values[name];
    if (!value.shape) throw Error("the rank of input " + quote_text(name) + " is not known: give its shape");
    for (Dim& dim : *value.shape) {
      if (dim.known()) continue;
      if (dim.symbol.empty()) {
        dim = 1;
      } else {
        symbols.emplace(dim.symbol, 1);
      }
    }
  }
  for (auto& [name, value] : graph.values) {
    if (!value.shape) continue;
    for (Dim& dim : *value.shape) {
      const auto found = symbols.find(dim.symbol);
      if (!dim.known() && found != symbols.end()) dim = found->second;
    }
  }
  return infer_shapes(sorted(std::move(graph)));
}

}  // namespace crumb::graph
