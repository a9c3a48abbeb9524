// The nodes of a graph as steps over numbered slots that hold its values.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graph/engine.h"
#include "runtime/memory/arena.h"
#include "runtime/operator.h"

namespace crumb::runtime {

struct RunOptions {
  int threads = 0;  ///< 0: those that the machine has
  Promise promise = Promise::kExact;
  graph::Watch watch = {};
  /// Told of every step how long it took.
  std::function<void(const graph::Node& node, double seconds)> timer = {};
  /// Of Attention nodes, by their index in the graph: what their past and present stand for (session.h).
  const std::map<std::size_t, KeyCache*>* caches = nullptr;
  /// Where the run's values lie; null: on the heap. One run at a time may have it.
  Arena* arena = nullptr;
};

class Plan {
 public:
  /// Throws one Error that names every node that cannot be computed, and why; and where no node makes a value of `instead`.
  /// What follows from constants alone is computed here, once. `fuses`: nodes that work element by element are one step
  /// where that makes the same (fuse/regions.h).
  explicit Plan(const graph::Graph& graph, bool fuses = true, const Substitutes& instead = {});

  /// Inputs and outputs in the graph's order. Every value is dropped after its last use. Many threads may run one plan.
  /// Throws Stopped, which names the node, where the scope's meter says so.
  std::vector<Array> run(const graph::Graph& graph, std::vector<Array> inputs,
                         const RunOptions& options) const;

  std::size_t steps() const { return steps_.size(); }
  /// The index of the node that a step computes; of nodes that are one step, the last.
  std::size_t node_of(std::size_t step) const { return steps_[step].node; }

 private:
  static constexpr std::size_t kNoSlot = ~std::size_t{0};

  struct Step {
    std::size_t node = 0;
    bool has_substitute = false;  ///< and so it joins no region
    Kernel kernel;
    std::vector<std::size_t> inputs;  ///< slots; kNoSlot where left out
    std::vector<std::size_t> outputs;
    std::vector<char> last;            ///< of the inputs: nobody wants the slot after this step
    std::vector<std::size_t> dropped;  ///< slots that nobody wants after this step
  };

  class Builder;

  /// Makes one step of the steps of each region.
  void fuse(const graph::Graph& graph);
  void find_last_uses();
  /// Whether a step of constants could be computed now, and its outputs are constants.
  bool fold(const graph::Node& node, const Step& step);
  /// What a step makes, not rounded yet; the arguments that are its own may be gone then.
  static std::vector<Array> computed(const graph::Node& node, const Step& step,
                                     std::span<Array* const> arguments, const RunOptions& options,
                                     KeyCache* cache = nullptr);

  std::vector<Step> steps_;
  std::vector<Array> constants_;  ///< by slot; undefined for what runs make
  std::vector<std::size_t> inputs_, outputs_;
};

}  // namespace crumb::runtime
