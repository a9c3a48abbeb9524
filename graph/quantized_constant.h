// A constant that is stored as codes, as the weights of a quantized network are.
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

/// Granularity channel has one scale for each index of the tensor's first axis, in a stack of the first
/// behind the stack's axes: the output channels. Operators have that axis elsewhere (MatMul: last), so the
/// value orders its axes in another way: axis i of the value is axis axes[i] of the tensor.
struct QuantizedConstant {
  std::shared_ptr<const QuantizedTensor> tensor;  ///< never null; shared between copies and never changed
  std::vector<std::int64_t> axes;                 ///< a permutation, one for each axis of the tensor

  std::vector<std::int64_t> shape() const;  ///< shape of the value
  Tensor value() const;                     ///< the decoded value, float32
};

/// Decodes elements [first, first + to.size()) of the value, row-major.
void read_values(const QuantizedConstant& constant, std::uint64_t first, std::span<float> to);

/// Reads codes minus zero points instead of values: value = level * scale.
void read_levels(const QuantizedConstant& constant, std::uint64_t first, std::span<float> to);
std::vector<float> levels_of(const QuantizedConstant& constant);  ///< all levels

/// Returns how the codes of a value of this shape are stored. Fails as encoded_layout() does.
Result<EncodedLayout> code_layout_of(const QuantSpec& spec, const std::vector<std::int64_t>& shape,
                                     MatrixAxes axes);

/// Returns why the spec cannot encode a value of this shape (QuantSpec::misfit()); nothing where it can.
std::optional<std::string> misfit_of(const QuantSpec& spec, const std::vector<std::int64_t>& shape,
                                     MatrixAxes axes);

/// Quantizes a float32 constant. `name` is used in messages. Throws as crumb::quantize() does.
QuantizedConstant quantize_constant(const QuantSpec& spec, const Tensor& value, MatrixAxes axes,
                                    const std::string& name, int threads = 0);

}  // namespace crumb::graph
