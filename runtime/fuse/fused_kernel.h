// The kernel of a region: it runs in one pass, or node by node where the operands' shapes do not allow one
// pass.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/fuse/program.h"
#include "runtime/operator.h"

namespace crumb::runtime {

/// A Kernel: from inputs() it makes output 0, with the bits of the nodes' own kernels.
class FusedKernel {
 public:
  /// One kernel for each node. Preconditions: as for Program.
  FusedKernel(std::vector<graph::Node> nodes, std::vector<Kernel> kernels);

  const std::vector<std::string>& inputs() const { return program_.inputs(); }
  void operator()(Call& call) const;

 private:
  /// Where a node's inputs are: the region's inputs, then the values that its nodes made.
  struct Part {
    std::vector<std::size_t> inputs;
    std::vector<char> last;  ///< whether no later node takes it
  };

  std::vector<graph::Node> nodes_;
  std::vector<Kernel> kernels_;
  std::vector<Part> parts_;
  Program program_;
};

}  // namespace crumb::runtime
