// Finds tensors that look like scales of weights of few bits, inside formats/checkpoint/quantized.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/checkpoint/checkpoint.h"

namespace crumb::quantized {

enum class ScaleRole : std::uint8_t {
  kWeight,      ///< codes are multiplied by it
  kActivation,  ///< of a layer's inputs or outputs: weights do not depend on it
  kMark,        ///< says that there are scales
  kUnknown,
};

struct FoundScale {
  const TensorEntry* tensor = nullptr;
  ScaleRole role = ScaleRole::kUnknown;
};

/// A weight of few bits, and its scales.
struct ScaledWeight {
  const TensorEntry* weight = nullptr;
  std::vector<FoundScale> scales;  ///< at least one
};

/// From tensors sorted by name.
std::vector<ScaledWeight> find_scaled_weights(const std::vector<TensorEntry>& tensors);

/// "model.layers.0" and "weight" of "model.layers.0.weight".
struct PartedName {
  std::string_view module, last;
};
PartedName part_name(std::string_view name);

/// Whether the last part of a name is that of a scale of activations.
bool is_activation_scale(std::string_view last);

/// Whether it is the last part of a mark (ComfyUI's scaled_fp8 and comfy_quant), which holds no number of a
/// weight.
bool is_scale_mark(std::string_view last);

}  // namespace crumb::quantized
