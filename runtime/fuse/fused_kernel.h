// What computes a region: in one pass, or node by node where its operands broadcast otherwise.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/fuse/program.h"
#include "runtime/operator.h"

namespace crumb::runtime {

/// A Kernel: of a call with inputs() it makes output 0, with the bits that the nodes' own kernels make.
class FusedKernel {
 public:
  /// A kernel for each node; precondition: Program's.
  FusedKernel(std::vector<graph::Node> nodes, std::vector<Kernel> kernels);

  const std::vector<std::string>& inputs() const { return program_.inputs(); }
  void operator()(Call& call) const;

 private:
  /// Where a node's inputs are: the region's, and behind them what its nodes made.
  struct Part {
    std::vector<std::size_t> inputs;
    std::vector<char> last;  ///< no later node takes it
  };

  std::vector<graph::Node> nodes_;
  std::vector<Kernel> kernels_;
  std::vector<Part> parts_;
  Program program_;
};

}  // namespace crumb::runtime
