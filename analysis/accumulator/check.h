// Makes accumulator certificates, and checks them against the codes and input types of a graph.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/accumulator/layers.h"

namespace crumb::analysis {

/// The result for one layer.
struct AccumulatorRow {
  std::string name, op;
  std::string operands;                ///< ProductLayer::operands
  std::optional<IntegerRange> input;   ///< minus the zero point, in units of its grid
  std::optional<IntegerRange> weight;  ///< the same for a weight that is computed
  bool assumed = false;                ///< whether the ranges rest on what is said about the graph's inputs
  std::optional<double> input_step;    ///< the value of one unit of the input; nothing where it varies
  std::string reason;                  ///< why the layer is not covered; "" where it is
  std::optional<int> bits_needed;      ///< of each register; nothing where the layer is not covered
  std::optional<int> bits_certified;
  std::optional<WorstSums> worst;  ///< over channels and registers
  std::size_t tile = 0;            ///< the certificate's
  std::size_t length = 0, channels = 0;
  graph::BiasPlace bias = graph::BiasPlace::kNone;
  std::optional<graph::AccumulatorMethod> method;  ///< the certificate's
  bool constrained = false;
};

struct AccumulatorReport {
  /// Products of integers, including those that are not covered. Products of float weights only where they
  /// have a certificate.
  std::vector<AccumulatorRow> layers;
  std::vector<std::string>
      failures;                  ///< each names its layer, and channel, tile and numbers where there are any
  std::size_t float_layers = 0;  ///< products of a constant that is not quantized
};

struct AccumulatorCheck {
  GivenRanges ranges;
  /// Every constrained layer must fit this many bits. Where no layer has a certificate, every layer must, and
  /// a layer that is not covered does not.
  std::optional<int> bits;
};

/// Recomputes every layer's worst sums. Failures are: contradictions between what the graph says about its
/// values and the range rules (graph/facts/contradictions.h); certificates that the codes, the bias or the
/// range of the input do not confirm, that cannot be read, or that name no layer; layers that need more than
/// `bits`, or that are not covered though they count, including those of float weights. Throws Error as
/// ProductLayers does.
AccumulatorReport check_accumulators(const graph::Graph& graph, const AccumulatorCheck& check = {});

/// What a layer's certificate is to say; its sums, input range and bias are found.
struct CertificateRequest {
  graph::AccumulatorMethod method = graph::AccumulatorMethod::kNone;
  int bits = 32;
  std::size_t tile = 0;
  std::string rounding = "toward_zero";
  bool constrained = true;
};

/// The graph with certificates on these layers, by the names of their nodes. Throws Error, which names the
/// layer, where no layer has that name, where its weights or input are not integers of known range, and, with
/// the channel, where a sum does not fit the bits.
graph::Graph with_certificates(graph::Graph graph, const std::map<std::string, CertificateRequest>& requests,
                               const GivenRanges& ranges = {});

}  // namespace crumb::analysis
