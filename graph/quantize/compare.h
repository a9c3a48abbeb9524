// Compares the outputs of a graph before and after quantizing, and counts values that activation quantizers
// cut off.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/quantize/calibrate.h"
#include "quant/distortion.h"

namespace crumb::graph {

struct OutputAgreement {
  std::string output;
  Distortion distortion;  ///< without meaning if either output is not finite
  std::uint64_t values = 0, not_finite = 0, not_finite_before = 0;
  /// For outputs with two axes: the share of rows whose largest element has the same index (the first, if
  /// several are equal).
  std::optional<double> top1;

  bool is_finite() const {
    return not_finite + not_finite_before == 0;
  }  ///< both outputs are finite
     ///< everywhere
};

struct EdgeUse {
  std::uint64_t values = 0, saturated = 0;  ///< values beyond the quantizer's codes

  double share_saturated() const {
    return values == 0 ? 0 : static_cast<double>(saturated) / static_cast<double>(values);
  }
};

struct GraphComparison {
  std::vector<OutputAgreement> outputs;  ///< float32 outputs whose shape did not change
  std::vector<std::string> reshaped;     ///< outputs whose shape depends on values and changed
  std::vector<EdgeUse> edges;            ///< as in the plan
};

struct CompareOptions {
  bool takes_codes = false;  ///< the engine can execute constants of Graph::quantized
};

/// Runs both graphs on the same samples. `quantized` is the result of apply() with the plan, of `original` or
/// of a smaller network in its place. Inputs without elements have the sizes that each of the two takes.
GraphComparison compare(const Graph& original, const Graph& quantized, const QuantPlan& plan,
                        const Engine& engine, const Batches& batches, const CompareOptions& options = {});

}  // namespace crumb::graph
