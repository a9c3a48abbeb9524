// Training passes of a network that is cut at a value, so that what stands behind it runs row by row: the
// logits of a batch, which are a vocabulary wide, are never whole in memory.
//
//   const CutNetwork cut(module, "last_hidden", {"layer.0", "layer.1"});   // computes the layers again in
//                                                                          the backward pass
//   CutPass pass(cut, inputs, constants);
//   for (rows of pass.states()) { loss(pass.behind(rows)).backward(); }    // gathers at the cut
//   pass.backward();                                                       // goes on before it
#pragma once

#include <string>
#include <vector>

#include "libtorch/execute/graph_module.h"

namespace crumb::libtorch {

class CutNetwork {
 public:
  /// Behind the value `cut` only the graph's first output is computed; it must follow from that value and
  /// constants alone, one row of its second to last axis from one row. `recomputed`: values before it
  /// (Plan::recompute_between). The module must outlive this and every pass. Throws Error where the graph has
  /// no such value or more is needed.
  CutNetwork(const GraphModule& module, const std::string& cut,
             const std::vector<std::string>& recomputed = {});

 private:
  friend class CutPass;
  const GraphModule& module_;
  Plan before_, behind_;
};

class CutPass {
 public:
  /// Runs what is before the cut. `constants`: GraphModule::run's `instead`.
  CutPass(const CutNetwork& network, std::vector<TypedTensor> inputs, Plan::Constants constants = {});

  /// The value at the cut, a leaf that gathers gradients.
  const at::Tensor& states() const { return states_; }

  /// The network's output from such states: rows of states(), or others.
  at::Tensor behind(const at::Tensor& states) const;

  /// What was gathered at the cut goes on to where the states and the constants come from. Once.
  void backward();

 private:
  const CutNetwork& network_;
  at::Tensor computed_, states_;
  Plan::Constants constants_, leaves_;  ///< the same, and such as gather gradients
};

}  // namespace crumb::libtorch
