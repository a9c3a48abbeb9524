#include "graph/quantize/bias_room.h"

#include <algorithm>
#include <cmath>

#include "graph/strided_index.h"
#include "quant/codes/given_scales.h"
#include "quant/distortion.h"

namespace crumb::graph {
namespace {

/// Returns the scale that a row's weights need for each of its biases to fit; 0 without bias.
std::vector<float> needed_scales(std::span<const float> biases, std::size_t rows, float input_scale,
                                 int bits) {
  const double most = std::ldexp(1.0, bits - 1) - 1;
  constexpr double kBeyondRounding =
      1 + 0x1p-20;  // for the rounding of the float32 product of both scales, and of the quotient
  std::vector<float> needed(rows);
  for (std::size_t i = 0; i < biases.size(); ++i) {
    const double least =
        std::fabs(static_cast<double>(biases[i])) / (static_cast<double>(input_scale) * most);
    float& row = needed[i % rows];
    row = std::max(row, static_cast<float>(least * kBeyondRounding));
  }
  return needed;
}

}  // namespace

QuantizedConstant with_room_for(const QuantizedConstant& codes, const Tensor& weight, const QuantSpec& spec,
                                const Tensor& bias, float input_scale, int bits) {
  const bool is_plain =
      spec.number->grid == Grid::kInteger && spec.zero == ZeroPoint::kNone &&
      (spec.granularity == Granularity::kChannel || spec.granularity == Granularity::kTensor);
  if (!is_plain || !(input_scale > 0)) return codes;
  const RowDecoder decoder(codes.tensor->view());
  const std::size_t rows = codes.tensor->layout.blocks();
  std::vector<float> scales(rows);
  for (std::size_t row = 0; row < rows; ++row) scales[row] = decoder.scale(row);
  const std::vector<float> needed = needed_scales(bias.to_floats(), rows, input_scale, bits);
  // A channel whose weights are zero has scale 0, and its bias a scale of its own.
  const auto lacks = [&](std::size_t row) { return scales[row] > 0 && needed[row] > scales[row]; };
  std::size_t row = 0;
  while (row < rows && !lacks(row)) ++row;
  if (row == rows) return codes;
  const std::vector<float> values = transposed(weight, inverse(codes.axes)).to_floats();
  std::vector<float> made(values.size());
  decoder.flat_values(0, made);

  const std::size_t width = values.size() / rows;
  bool grows = false;
  for (; row < rows; ++row) {
    if (!lacks(row)) continue;
    const float scale = stored_scale(spec, needed[row]);
    const std::span<const float> of_row(values.data() + row * width, width);
    const QuantizedTensor tried =
        quantize_with_scales(spec, of_row, std::array<std::uint64_t, 2>{1, width}, {.scales = {&scale, 1}});
    std::vector<float> rounded(width);
    RowDecoder(tried.view()).flat_values(0, rounded);
    DistortionSum lost;
    lost.add(of_row, rounded, 1);
    if (!(lost.result().sqnr_db >= kLeastOfWeights)) continue;
    scales[row] = scale;
    std::ranges::copy(rounded, made.begin() + static_cast<std::ptrdiff_t>(row * width));
    grows = true;
  }
  if (!grows) return codes;
  // Values of codes give the same codes again under the scale that made them.
  return {.tensor = std::make_shared<const QuantizedTensor>(
              quantize_with_scales(spec, made, codes.tensor->shape, {.scales = scales})),
          .axes = codes.axes};
}

}  // namespace crumb::graph
