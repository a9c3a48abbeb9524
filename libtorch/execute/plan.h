// The nodes of a graph as steps over numbered slots that hold its values: what GraphModule runs.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "libtorch/execute/operator.h"

namespace crumb::libtorch {

class Plan {
 public:
  using Constants = std::map<std::string, TypedTensor>;  ///< by the graph's names
  using Watch = std::function<TypedTensor(const std::string& value, TypedTensor made)>;

  /// Precondition: the graph is sorted. Values that `constants` holds are not computed, whoever makes them.
  /// Keeps the constants' handles, not the graph: every function takes the same one again.
  Plan(const graph::Graph& graph, const Constants& constants);

  /// Drops every value after its last use; a value that nobody else holds may be overwritten by the operator
  /// that takes it last. GraphModule::run says the rest.
  /// `instead`: constants that have other values in this run.
  std::vector<TypedTensor> run(const graph::Graph& graph, std::vector<TypedTensor> inputs, const Watch& watch,
                               const Constants& instead = {}) const;

  /// Computes a node instead of its kernel: takes its inputs, returns its outputs.
  using Replacement =
      std::function<Outputs(const graph::Node& node, const std::vector<TypedTensor>& arguments)>;
  void replace(std::size_t node, Replacement replacement);

  /// The plan without the steps that follow from constants, or from shapes that the graph fixes, alone: their
  /// results are constants of it. Random numbers, results that are more than 4 MB larger than what they are
  /// made of and steps that fail stay steps.
  Plan folded(const graph::Graph& graph) const;

  /// The steps that compute the values `wanted` from the values `given` and constants; run() takes those and
  /// gives these. What replace() does to this one afterwards is not seen. Throws Error, which names it, where
  /// something else is needed, and where nothing has a name.
  Plan part(const graph::Graph& graph, const std::vector<std::string>& given,
            const std::vector<std::string>& wanted) const;

  /// From now on, where gradients are wanted, runs without a watch keep what crosses from one of these
  /// values' makers to what comes behind, and compute the rest again in the backward pass (recomputed.h).
  /// Steps must make the same then: replacements that move statistics, and random numbers, do not. Values
  /// that no step makes say nothing.
  void recompute_between(const graph::Graph& graph, const std::vector<std::string>& values);

  std::size_t steps() const { return steps_.size(); }

 private:
  static constexpr std::size_t kNoSlot = ~std::size_t{0};

  struct Step {
    std::size_t node = 0;
    Kernel kernel = nullptr;          ///< null: its outputs are constants
    Replacement replacement;          ///< before the kernel, where there is one
    std::vector<std::size_t> inputs;  ///< slots; kNoSlot where left out
    std::vector<std::size_t> outputs;
    std::vector<bool> takes;             ///< inputs whose slot is not wanted after this step
    std::vector<std::size_t> last_used;  ///< slots that are not wanted after this step
    /// The conditions of those on whose sides it lies (graph/choose.h), and which value each must have.
    std::vector<std::pair<std::size_t, bool>> conditions;
  };

  void find_last_uses();
  /// Gives the steps their conditions where the graph has a Choose, and leaves out those on which none of
  /// these values depends.
  void find_conditions(const graph::Graph& graph, const std::vector<std::string>& wanted);
  static bool runs(const Step& step, const std::vector<TypedTensor>& values);
  std::size_t slot_named(const std::string& value) const;
  void take_steps(const graph::Graph& graph, std::size_t begin, std::size_t end,
                  std::vector<TypedTensor>& values, const Watch& watch) const;
  void recompute_steps(const graph::Graph& graph, std::size_t begin, std::size_t end,
                       std::vector<TypedTensor>& values) const;
  Outputs computed(const graph::Graph& graph, const Step& step, const std::vector<TypedTensor>& known) const;

  std::vector<Step> steps_;
  std::vector<std::pair<std::size_t, TypedTensor>> constants_;
  std::map<std::string, std::size_t> slots_;  ///< by value
  std::vector<std::size_t> inputs_, outputs_;
  std::vector<std::size_t> cuts_;  ///< steps before which only what crosses is kept, ascending
};

}  // namespace crumb::libtorch
