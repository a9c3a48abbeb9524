// A graph's nodes as steps over numbered slots that hold its values.
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
  /// Called after each step with the seconds that it took.
  std::function<void(const graph::Node& node, double seconds)> timer = {};
  /// Caches that stand for the past and present of Attention nodes (session.h), by the index of the node.
  const std::map<std::size_t, CacheUse>* caches = nullptr;
  /// Where the run allocates its values; null: on the heap. Only one run at a time may use an arena.
  Arena* arena = nullptr;
};

class Plan {
 public:
  /// Precondition: the graph is sorted. Throws one Error that names every node that cannot be computed, and
  /// why; also where no node makes a value of `instead`. Values that depend on constants alone are computed
  /// here, once. With `fuses`, elementwise nodes become one step where the bits stay the same
  /// (fuse/regions.h), and so do convolutions and what follows them (fuse/followed_convolution.h).
  explicit Plan(const graph::Graph& graph, bool fuses = true, const Substitutes& instead = {});

  /// Inputs and outputs are in the graph's order. Every value is freed after its last use. Several threads
  /// may run one plan. Throws Stopped, which names the node, where the scope's meter says so.
  std::vector<Array> run(const graph::Graph& graph, std::vector<Array> inputs,
                         const RunOptions& options) const;

  std::size_t steps() const { return steps_.size(); }
  /// The index of the node that a step computes; the last one where several nodes are one step.
  std::size_t node_of(std::size_t step) const { return steps_[step].node; }

 private:
  static constexpr std::size_t kNoSlot = ~std::size_t{0};

  struct Step {
    std::size_t node = 0;
    bool has_substitute = false;  ///< and so it joins no region
    bool is_region = false;       ///< and so it follows no convolution
    Kernel kernel;
    std::vector<std::size_t> inputs;  ///< slots; kNoSlot where left out
    std::vector<std::size_t> outputs;
    std::vector<char> last;            ///< for each input, whether no later step takes the slot
    std::vector<std::size_t> dropped;  ///< slots that no later step takes
    /// The conditions of those on whose sides it lies (graph/choose.h), and which value each must have.
    std::vector<std::pair<std::size_t, bool>> conditions;
  };

  class Builder;

  /// Makes the steps of each region one step, and those of convolutions and the nodes that follow them.
  void fuse(const graph::Graph& graph);
  void follow_convolutions(const graph::Graph& graph);
  void find_last_uses();
  /// Leaves out steps on which no output depends, and gives the others their conditions, where the graph has
  /// a Choose.
  void find_conditions(const graph::Graph& graph);
  /// Computes a step whose inputs are constants, and makes its outputs constants. Returns whether it could.
  bool fold(const graph::Node& node, const Step& step);
  /// The outputs of a step, not rounded yet. Arguments that the step owns may be gone afterwards.
  static std::vector<Array> computed(const graph::Node& node, const Step& step,
                                     std::span<Array* const> arguments, const RunOptions& options,
                                     CacheUse cache = {});

  std::vector<Step> steps_;
  std::vector<Array> constants_;  ///< by slot; undefined for values that runs make
  std::vector<std::size_t> inputs_, outputs_;
};

}  // namespace crumb::runtime
