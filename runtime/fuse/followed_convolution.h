// A Conv node and the node that alone takes its output, computed where the convolution writes its results:
// Relu, LeakyRelu, PRelu with a slope for each channel, and Clip. The bits are those of the two nodes.
#pragma once

#include <optional>

#include "runtime/exact/term_products.h"
#include "runtime/operator.h"

namespace crumb::runtime {

/// A Kernel: its inputs are those of the Conv node, then those of the other node but the first.
class FollowedConvolution {
 public:
  /// Whether the first node is a Conv, and the other may follow it.
  static bool may_follow(const graph::Node& convolution, const graph::Node& follower);

  /// With the nodes' own kernels, which run where the types or shapes are others.
  FollowedConvolution(graph::Node convolution, Kernel own, graph::Node follower, Kernel then);

  void operator()(Call& call) const;

 private:
  /// What the convolution computes of its results; nothing where it has to be the follower's own kernel.
  std::optional<exact::TermsThen> then_of(const Call& call) const;
  std::optional<exact::TermsThen> slopes_of(const Call& call) const;

  graph::Node convolution_, follower_;
  float slope_;  ///< LeakyRelu's
  Kernel own_, then_;
};

}  // namespace crumb::runtime
