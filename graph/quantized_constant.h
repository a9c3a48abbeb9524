// A constant that is kept as codes: what the weights of a quantized network are.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/matrix_axes.h"
#include "graph/tensor.h"
#include "quant/quant_spec.h"
#include "quant/quantized_tensor.h"

namespace crumb::graph {

/// The tensor's first axis, of a stack the first behind its axes, is what scales of granularity channel follow: the output
/// channels. Operators want them elsewhere (MatMul: last), so the value has its axes in another order: axis i of the value
/// is axis axes[i] of the tensor.
struct QuantizedConstant {
  std::shared_ptr<const QuantizedTensor> tensor;  ///< never null; shared between copies and never changed
  std::vector<std::int64_t> axes;                 ///< a permutation, one for each axis of the tensor

  std::vector<std::int64_t> shape() const;  ///< of the value
  Tensor value() const;                     ///< decoded, float32
};

/// Elements [first, first + to.size()) of its value, row-major.
void read_values(const QuantizedConstant& constant, std::uint64_t first, std::span<float> to);

/// The same of codes less zero points: value = level * scale.
void read_levels(const QuantizedConstant& constant, std::uint64_t first, std::span<float> to);
std::vector<float> levels_of(const QuantizedConstant& constant);  ///< all of them

/// How the codes of a value of this shape lie. Fails as encoded_layout() does.
Result<EncodedLayout> code_layout_of(const QuantSpec& spec, const std::vector<std::int64_t>& shape,
                                     MatrixAxes axes);

/// Why the spec cannot encode a value of this shape; nothing where it can (QuantSpec::misfit()).
std::optional<std::string> misfit_of(const QuantSpec& spec, const std::vector<std::int64_t>& shape,
                                     MatrixAxes axes);

/// Quantizes a float32 constant. `name`: for messages. Throws as crumb::quantize does.
QuantizedConstant quantize_constant(const QuantSpec& spec, const Tensor& value, MatrixAxes axes,
                                    const std::string& name, int threads = 0);

}  // namespace crumb::graph
