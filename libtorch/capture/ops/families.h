// The tables of conversions, one a file.
#pragma once

#include "libtorch/capture/op.h"

namespace crumb::libtorch {

std::span<const ConversionRow> arithmetic_conversions();     ///< add to clamp, functions of one number
std::span<const ConversionRow> comparison_conversions();     ///< comparison, logic, bits, where
std::span<const ConversionRow> activation_conversions();     ///< relu to softmax
std::span<const ConversionRow> matrix_conversions();         ///< linear, matmul, einsum, attention
std::span<const ConversionRow> convolution_conversions();    ///< convolutions
std::span<const ConversionRow> normalization_conversions();  ///< batch, layer, group, instance, RMS
std::span<const ConversionRow> pooling_conversions();        ///< maximum, average, adaptive
std::span<const ConversionRow> layout_conversions();         ///< view to cat and split
std::span<const ConversionRow> indexing_conversions();       ///< slice, select, gather, topk
std::span<const ConversionRow> reduction_conversions();      ///< sum to norm, cumsum
std::span<const ConversionRow> recurrent_conversions();      ///< lstm, gru, rnn
std::span<const ConversionRow> resize_conversions();         ///< upsample, pad, pixel_shuffle
std::span<const ConversionRow> transformer_conversions();    ///< LibTorch's fused layers
std::span<const ConversionRow> quantizer_conversions();      ///< crumb::fake_quantize
std::span<const ConversionRow> constant_conversions();       ///< zeros to arange, types, what does nothing

inline constexpr std::span<const ConversionRow> (*kConversionFamilies[])() = {
    arithmetic_conversions,  comparison_conversions,    activation_conversions, matrix_conversions,
    convolution_conversions, normalization_conversions, pooling_conversions,    layout_conversions,
    indexing_conversions,    reduction_conversions,     recurrent_conversions,  resize_conversions,
    constant_conversions,    transformer_conversions,   quantizer_conversions,
};

}  // namespace crumb::libtorch
