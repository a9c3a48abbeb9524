// Codes of one layer's matrix, by what the layer takes in.
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
  double few =
      0;  ///< damping at least columns over samples times this: of few samples, moments say little of others
  bool by_size = true;     ///< the order of columns
  bool own_scales = true;  ///< weighed_scales.h, else the spec's search
  double magnitudes = 0;   ///< magnitude_reduction.h; 0: not
  int sweeps = 4;          ///< descent.h
  SoftRounding soft = {};  ///< soft_rounding.h; of no steps: not
  std::vector<float> codebook =
      {};                   ///< of a palette, found before, also for plain rounding; empty: by own_scales
  bool is_lenient = false;  ///< a layer whose moments are not finite keeps rounding
  int threads = 0;
};

/// A register that sums of products must fit in, and what is multiplied.
struct Budget {
  InputRange input;
  Register accumulator;
};

struct RoundedLayer {
  QuantizedTensor codes;
  double before = 0,
         after = 0;  ///< squared errors of outputs over their squares, of plain rounding and of the codes
  double tried = 0;  ///< of the codes that the walk chose, kept or not
  std::vector<std::string> notes;  ///< without the layer's name
};

/// The layer in codes, by the walk. Errors are distances from the float layer's outputs, on the float network's inputs where there are
/// cross moments. Where more is lost than by plain rounding, or no sample came, the codes are those of rounding; with a
/// budget they keep it in any case, and nothing sweeps over them. Throws Error where moments are not finite and the options are not
/// lenient, or a budget is asked of codes that are no integers without a zero point.
RoundedLayer round_layer(const QuantSpec& spec, WeightRows rows, const SampledLayer& layer,
                         LayerMoments inputs, const RoundingOptions& options,
                         const std::optional<Budget>& budget, const std::string& name);

}  // namespace crumb::ptq
