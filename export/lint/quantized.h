// What quantizers of constants compute, for fixes that must not change it. Internal to export/lint.
#pragma once

#include <optional>
#include <vector>

#include "export/lint/subject.h"

namespace crumb::exporting {

/// Values and integers of a Quant whose inputs are all constants; nothing where it has others, or is not
/// whole.
struct QuantizedConstant {
  std::vector<float> values;
  std::vector<double> integers;
};
std::optional<QuantizedConstant> quantized(const Graph& graph, const Node& node);

/// The same values by a quantizer that rounds half to even, from the values themselves; nothing where
/// rounding again would change one.
struct SameConstant {
  Tensor data, scale;
  float bits = 0, zeropt = 0;
  bool is_signed = true, narrow = false;
};
std::optional<SameConstant> rounded_again(const Graph& graph, const Node& node);

/// The same, signed and without a zero point: codes {-2, -1, 0, 1} at zero point -0.5 become {-3, -1, 1, 3}
/// at half the scale.
std::optional<SameConstant> without_zero_point(const Graph& graph, const Node& node);

/// Puts it into the node.
void replace_constant(Graph& graph, std::size_t node, const SameConstant& same);

}  // namespace crumb::exporting
