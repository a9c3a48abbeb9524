// What quantizing a graph did to its outputs, and how much its activation quantizers cut off.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/quantize/calibrate.h"
#include "quant/distortion.h"

namespace crumb::graph {

struct OutputAgreement {
  std::string output;
  Distortion distortion;  ///< where one of the two is not finite, of no meaning
  std::uint64_t values = 0, not_finite = 0, not_finite_before = 0;
  /// Of outputs with two axes: rows whose largest element is at the same place (the first, of equal ones), over rows.
  std::optional<double> top1;

  bool is_finite() const { return not_finite + not_finite_before == 0; }  ///< both were, everywhere
};

struct EdgeUse {
  std::uint64_t values = 0, saturated = 0;  ///< those beyond the quantizer's codes

  double share_saturated() const {
    return values == 0 ? 0 : static_cast<double>(saturated) / static_cast<double>(values);
  }
};

struct GraphComparison {
  std::vector<OutputAgreement> outputs;  ///< float32 ones whose size stays
  std::vector<std::string>
      reshaped;                ///< outputs whose shape depends on values, and is another with quantized ones
  std::vector<EdgeUse> edges;  ///< as in the plan
};

struct CompareOptions {
  bool takes_codes = false;  ///< the engine executes Graph::quantized constants
};

/// Runs both on the same samples. `quantized` is what apply() made of the plan.
GraphComparison compare(const Graph& original, const Graph& quantized, const QuantPlan& plan,
                        const Engine& engine, const Batches& batches, const CompareOptions& options = {});

}  // namespace crumb::graph
