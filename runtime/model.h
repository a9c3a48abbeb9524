// A graph, ready to run: what both faces of the runtime (engine.h for C++, crumb.h for everybody else) hold.
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

/// Never changed once it is made: many threads may run one.
class Model {
 public:
  /// As Plan does. Precondition: values that something else makes are of a graph that computes in floats.
  explicit Model(graph::Graph graph, Computes how = Computes::kIntegers, const Substitutes& instead = {});

  /// As it is computed, without its constants, which the plan has where it needs them.
  const graph::Graph& graph() const { return graph_; }

  /// Of an Attention node that keeps what a quantizer makes, by its index.
  CacheCodes cache_codes(std::size_t node) const {
    const auto found = cache_codes_.find(node);
    return found == cache_codes_.end() ? CacheCodes{} : found->second;
  }

  std::size_t steps() const { return plan_.steps(); }  ///< of a run
  const graph::Node& node_of(std::size_t step) const { return graph_.nodes[plan_.node_of(step)]; }

  /// Inputs and outputs in the graph's order. Throws Error, which names the input, where the number of inputs, a type or a
  /// shape is none that the graph takes; as Plan::run does.
  std::vector<Array> run(std::vector<Array> inputs, const RunOptions& options) const;

 private:
  graph::Graph graph_;
  Plan plan_;
  std::map<std::size_t, CacheCodes> cache_codes_;
};

/// Throws Error where the inputs are none that the graph takes; says which, what was expected and what was found.
void check_inputs(const graph::Graph& graph, const std::vector<Array>& inputs);

}  // namespace crumb::runtime
