// A graph that is ready to run, as both interfaces of the runtime (engine.h for C++, crumb.h for C) hold it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "graph/graph.h"
#include "runtime/attention/cache_codes.h"
#include "runtime/plan.h"

namespace crumb::runtime {

/// What a model computes.
enum class Computes : std::uint8_t {
  kIntegers,  ///< integers where quantizers allow it (lower/lower.h)
  kFloats,    ///< every value of the file's graph, as the graph says
};

/// Immutable: several threads may run one model.
class Model {
 public:
  /// Throws as Plan does. Precondition: where `instead` makes values, the graph computes in floats.
  explicit Model(graph::Graph graph, Computes how = Computes::kIntegers, const Substitutes& instead = {});

  /// The graph as it is computed, without constants: the plan has those that it needs.
  const graph::Graph& graph() const { return graph_; }

  /// How the cache of an Attention node, given by its index, codes the rows that a quantizer makes.
  CacheCodes cache_codes(std::size_t node) const {
    const auto found = cache_codes_.find(node);
    return found == cache_codes_.end() ? CacheCodes{} : found->second;
  }

  std::size_t steps() const { return plan_.steps(); }  ///< of a run
  const graph::Node& node_of(std::size_t step) const { return graph_.nodes[plan_.node_of(step)]; }

  /// Inputs and outputs are in the graph's order. Throws Error, which names the input, where the number of
  /// inputs, a type or a shape is not the graph's; else as Plan::run does.
  std::vector<Array> run(std::vector<Array> inputs, const RunOptions& options) const;

 private:
  graph::Graph graph_;
  Plan plan_;
  std::map<std::size_t, CacheCodes> cache_codes_;
};

/// Throws Error where the inputs do not fit the graph: names the input, what was expected and what was found.
void check_inputs(const graph::Graph& graph, const std::vector<Array>& inputs);

}  // namespace crumb::runtime
