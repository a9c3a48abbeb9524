// A graph in the operators of its file to one that computes with integers where its quantizers allow it
// (domain.h).
//
// A quantizer with one scale gives codes. A convolution, MatMul or Gemm of codes and a packed constant, with
// one scale for each output channel, adds up integers. Where operations by constants, rectifiers, clips and
// max pools lead from the sums to the next quantizer, and nobody else takes the values between, thresholds of
// the sums replace them (chain.h). A MatMul of two computed values that are codes adds up integers, too, and
// gives floats. Everything else stays as it is; codes become floats where another operator takes them.
//
// What this promises: every code that a quantizer gives after such a product is that of exact arithmetic on
// the file's integers, scales and constants; a product's floats are the exact ones, rounded to float64 at
// most three times and then to float32.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/packed_weights.h"

namespace crumb::runtime {

struct Lowered {
  graph::Graph graph;
  /// Names of the nodes whose sums are integers; of those, the ones that end in thresholds.
  std::vector<std::string> integers, thresholds;
  /// Names of other products of a packed weight, each with the reason why its sums are not integers.
  std::vector<std::pair<std::string, std::string>> floats;
  PackedWeights weights = {};  ///< of the graph
};

Lowered lower(graph::Graph graph);

}  // namespace crumb::runtime
