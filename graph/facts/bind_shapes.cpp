#include "graph/facts/bind_shapes.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "base/checked_size.h"
#include "base/files/text.h"
#include "base/text/nearest_name.h"
#include "graph/facts/constant_values.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/symbol_sizes.h"

namespace crumb::graph {
namespace {

constexpr int kMostRounds = 64;
constexpr std::size_t kMostSizes = 64;  // elements of a shape, or of little more

bool is_small(const Shape& shape) {
  checked::Size count = 1;
  for (const Dim& dim : shape) count = checked::multiply(count, dim.size);
  return count && *count <= kMostSizes;
}

/// Binds the given sizes of inputs: first single symbols, then sums, always the one with the fewest open
/// terms.
class GivenSizes {
 public:
  explicit GivenSizes(SymbolSizes& symbols) : symbols_(symbols) {}

  void add(const std::string& name, Value& value, const std::vector<std::int64_t>& sizes) {
    if (!value.shape) value.shape = Shape(sizes.size());
    const Given given{.name = &name, .shape = &*value.shape, .sizes = &sizes};
    if (value.shape->size() != sizes.size()) given.refuse();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      Dim& dim = (*value.shape)[i];
      if (dim.known() && dim.size != sizes[i]) given.refuse();
      if (dim.symbol.empty())
        dim = sizes[i];
      else if (SymbolSizes::is_sum(dim.symbol))
        sums_.push_back({given, dim.symbol, sizes[i]});
      else
        set({given, dim.symbol, sizes[i]});
    }
  }

  void set_sums() {
    const auto open = [&](const Sum& sum) { return symbols_.open_terms(sum.symbol).size(); };
    while (!sums_.empty()) {
      const auto next = std::ranges::min_element(sums_, {}, open);
      set(*next);
      sums_.erase(next);
    }
  }

 private:
  struct Given {
    const std::string* name;
    const Shape* shape;
    const std::vector<std::int64_t>* sizes;

    [[noreturn]] void refuse(const std::string& why = {}) const {
      throw Error("input " + quote_text(*name) + " takes the shape " + text_of(*shape) + why +
                  (why.empty() ? ", found " : "; found ") + text_of(*sizes));
    }
  };
  struct Sum {
    Given given;
    std::string symbol;
    std::int64_t size;
  };

  void set(const Sum& sum) {
    if (symbols_.set(sum.symbol, sum.size)) return;
    if (symbols_of_several_sizes(*sum.given.shape, *sum.given.sizes).contains(sum.symbol))
      return symbols_.forget(sum.symbol);
    sum.given.refuse(", where " + quote_text(sum.symbol) + " is " +
                     std::to_string(*symbols_.find(sum.symbol)));
  }

  SymbolSizes& symbols_;
  std::vector<Sum> sums_;
};

/// Replaces vectors of sizes that are known by now with constants; returns whether there were any.
bool fold_shapes(Graph& graph) {
  const ConstantValues constants(graph);
  std::map<std::string, Tensor> found;
  for (const Node& node : graph.nodes) {
    if (node.outputs.size() != 1 || node.domain != kOnnxDomain || !constants.is_constant(node.outputs[0]))
      continue;
    const Value* value = graph.find(node.outputs[0]);
    if (!value || value->type != ElementType::kInt64 || graph.constant(node.outputs[0])) continue;
    if (value->is_static() && !is_small(*value->shape)) continue;
    const auto known = constants.find(node.outputs[0]);
    if (!known || known->values.size() > kMostSizes || known->shape.size() > 1) continue;
    std::vector<std::int64_t> sizes;
    for (const double size : known->values) {
      if (!(std::fabs(size) < 0x1p53)) break;
      sizes.push_back(static_cast<std::int64_t>(size));
    }
    if (sizes.size() == known->values.size())
      found.emplace(node.outputs[0], Tensor::ints(known->shape, sizes));
  }
  std::erase_if(graph.nodes, [&](const Node& node) {
    return node.outputs.size() == 1 && found.contains(node.outputs[0]);
  });
  const bool any = !found.empty();
  for (auto& [name, tensor] : found) {
    graph.values[name] = value_of(tensor);
    graph.initializers.insert_or_assign(name, std::move(tensor));
  }
  return any;
}

/// Binds open sizes to primes, so that their sums and products hardly coincide.
Graph bound_to(Graph graph, std::span<const std::int64_t> primes) {
  std::map<std::string, std::vector<std::int64_t>> given;
  SymbolSizes symbols;
  std::size_t used = 0;
  const auto next = [&] { return primes[used++ % primes.size()]; };
  const auto size_of = [&](const Dim& dim) {
    if (dim.known()) return dim.size;
    if (dim.symbol.empty()) return next();
    if (!symbols.find(dim.symbol)) symbols.set(dim.symbol, next());
    return *symbols.find(dim.symbol);
  };
  for (const bool are_sums : {false, true}) {
    for (const std::string& name : graph.inputs) {
      const auto shape = graph.shape_of(name);
      if (!shape) continue;  // bind_shapes() reports it
      std::vector<std::int64_t>& sizes = given[name];
      sizes.resize(shape->size());
      for (std::size_t i = 0; i < sizes.size(); ++i)
        if (SymbolSizes::is_sum((*shape)[i].symbol) == are_sums) sizes[i] = size_of((*shape)[i]);
    }
  }
  return bind_shapes(std::move(graph), given);
}

}  // namespace

Graph bind_shapes(Graph graph, const std::map<std::string, std::vector<std::int64_t>>& given) {
  SymbolSizes symbols;
  GivenSizes sizes_given(symbols);
  for (const auto& [name, sizes] : given) {
    if (std::ranges::find(graph.inputs, name) == graph.inputs.end())
      throw Error(unknown_name("input", name, graph.inputs));
    sizes_given.add(name, graph.values[name], sizes);
  }
  sizes_given.set_sums();
  for (const std::string& name : graph.inputs) {
    Value& value = graph.values[name];
    if (!value.shape) throw Error("the rank of input " + quote_text(name) + " is not known: give its shape");
    const auto own = given.find(name);
    for (std::size_t i = 0; i < value.shape->size(); ++i) {
      Dim& dim = (*value.shape)[i];
      if (dim.known()) continue;
      if (dim.symbol.empty() || symbols.is_forgotten(dim.symbol)) {
        dim = own == given.end() ? 1 : own->second[i];
      } else {
        symbols.complete(dim.symbol);
      }
    }
  }
  for (auto& [name, value] : graph.values) {
    if (!value.shape) continue;
    for (Dim& dim : *value.shape) {
      if (dim.known() || dim.symbol.empty()) continue;
      if (symbols.is_forgotten(dim.symbol))
        dim = Dim();
      else if (const std::optional<std::int64_t> size = symbols.find(dim.symbol))
        dim = *size;
    }
  }
  return resolve_shapes(std::move(graph));
}

Graph unify_symbols(Graph graph) {
  static constexpr std::int64_t kFirst[] = {251, 257, 263, 269, 271, 277},
                                kSecond[] = {313, 317, 331, 337, 347, 349};
  const auto is_open = [&](const std::string& name) {
    const auto shape = graph.shape_of(name);
    return shape && std::ranges::any_of(*shape, [](const Dim& dim) { return !dim.known(); });
  };
  if (std::ranges::none_of(graph.inputs, is_open)) return graph;
  std::optional<Graph> first, second;
  try {
    first = bound_to(graph, kFirst);
    second = bound_to(graph, kSecond);
  } catch (const Error&) {
    return graph;  // it takes only other sizes
  }
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> symbols;
  // The inputs' own symbols come first, then those that inference made up.
  const auto name_sizes = [&](const std::string& name, Shape& shape, bool replace) {
    const auto one = first->shape_of(name), other = second->shape_of(name);
    if (!one || !other || one->size() != shape.size() || other->size() != shape.size()) return;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const std::pair sizes{(*one)[i].size, (*other)[i].size};
      if (shape[i].known() || sizes.first < 0 || sizes.second < 0 || sizes.first == sizes.second) continue;
      const std::string own = shape[i].symbol;
      if (!own.empty()) symbols.emplace(sizes, own);
      const auto found = symbols.find(sizes);
      if (replace && found != symbols.end()) shape[i] = Dim(found->second);
    }
  };
  for (const std::string& name : graph.inputs) name_sizes(name, *graph.values.at(name).shape, false);
  for (auto& [name, value] : graph.values) {
    if (value.shape) name_sizes(name, *value.shape, true);
  }
  return graph;
}

Graph resolve_shapes(Graph graph) {
  graph = infer_shapes(sorted(std::move(graph)));
  Graph work = graph;
  bool changed = false;
  for (int round = 0; round < kMostRounds && fold_shapes(work); ++round) {
    work = infer_shapes(std::move(work));
    changed = true;
  }
  if (!changed) return graph;
  for (const auto& [name, value] : work.values) {
    if (const auto found = graph.values.find(name); found != graph.values.end()) {
      found->second.shape = value.shape;
    } else {
      graph.values[name] = value;
    }
  }
  return graph;
}

}  // namespace crumb::graph
