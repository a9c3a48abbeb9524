// Chooses codes of one layer's matrix by the layer's inputs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ptq/matrices/weight_rows.h"
#include "ptq/rounding/accumulator_limits.h"
#include "ptq/rounding/code_walk.h"
#include "ptq/rounding/soft_rounding.h"
#include "ptq/samples/layer_moments.h"
#include "quant/quantized_tensor.h"

namespace crumb::ptq {

struct RoundingOptions {
  CodeWalkOf walk = nullptr;
  double damping = 0.01;  ///< feedback.h
  double few = 0;  ///< damping is at least columns / samples times this: few samples tell little about others
  bool by_size = true;               ///< columns with the largest diagonal come first
  bool own_scales = true;            ///< weighed_scales.h; false: the spec's search
  double magnitudes = 0;             ///< magnitude_reduction.h; 0: none
  int sweeps = 4;                    ///< descent.h
  SoftRounding soft = {};            ///< soft_rounding.h; without steps: none
  std::vector<float> codebook = {};  ///< found before, for plain rounding, too; empty: see own_scales
  bool is_lenient = false;           ///< a layer whose moments are not finite keeps rounding; false: an Error
  int threads = 0;
};

/// A register that must hold sums of products, and the inputs of these.
struct Budget {
  InputRange input;
  Register accumulator;
};

struct RoundedLayer {
  QuantizedTensor codes;
  double before = 0,
         after = 0;  ///< squared errors of outputs over their squares, with plain rounding and with the codes
  double tried = 0;  ///< with the codes that the walk chose, kept or not
  std::vector<std::string> notes;  ///< without the layer's name
};

/// Chooses the layer's codes by the walk. Errors are distances from the float layer's outputs, on the float
/// network's inputs if there are cross moments. Where the codes lose more than plain rounding, or there are
/// no samples, the result is plain rounding; with a budget, codes keep it in any case, and no sweeps follow.
/// Throws Error where moments are not finite and the options are not lenient, or where a budget is for codes
/// other than integers without a zero point.
RoundedLayer round_layer(const QuantSpec& spec, WeightRows rows, const SampledLayer& layer,
                         LayerMoments inputs, const RoundingOptions& options,
                         const std::optional<Budget>& budget, const std::string& name);

}  // namespace crumb::ptq
