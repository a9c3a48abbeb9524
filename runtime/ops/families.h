// The tables of operators, one a file.
#pragma once

#include <span>

#include "runtime/operator.h"

namespace crumb::runtime {

std::span<const OperatorRow> elementwise_operators();  ///< arithmetic, comparison, logic, Where
std::span<const OperatorRow> activation_operators();   ///< Relu to Softmax
std::span<const OperatorRow> constant_operators();     ///< Constant, Shape, Range, Cast, Choose
std::span<const OperatorRow>
layout_operators();  ///< Reshape, Transpose, Concat, Split, Slice, Pad, Tile, Expand
std::span<const OperatorRow> index_operators();          ///< Gather and its kin
std::span<const OperatorRow> matrix_operators();         ///< MatMul, Gemm
std::span<const OperatorRow> convolution_operators();    ///< Conv
std::span<const OperatorRow> pooling_operators();        ///< MaxPool, AveragePool and the global ones
std::span<const OperatorRow> reduction_operators();      ///< Reduce*, ArgMax
std::span<const OperatorRow> normalization_operators();  ///< Batch, Layer, Instance, RMS
std::span<const OperatorRow> along_axis_operators();     ///< CumSum, LpNormalization, ReverseSequence
std::span<const OperatorRow> einsum_operators();
std::span<const OperatorRow> loop_operators();  ///< Loop, Scan
std::span<const OperatorRow>
selection_operators();                            ///< OneHot, EyeLike, Compress, Hardmax, NonMaxSuppression
std::span<const OperatorRow> signal_operators();  ///< DFT, STFT and windows
std::span<const OperatorRow> random_operators();  ///< RandomNormal, RandomUniform, and those like an input
std::span<const OperatorRow> attention_operators();  ///< Attention, RotaryEmbedding
std::span<const OperatorRow> recurrent_operators();  ///< LSTM, GRU, RNN
std::span<const OperatorRow> resize_operators();     ///< to the nearest element
std::span<const OperatorRow> quantize_operators();   ///< QuantizeLinear, DequantizeLinear
std::span<const OperatorRow> qonnx_operators();      ///< QONNX's quantizers
std::span<const OperatorRow> integer_operators();    ///< what lowering makes (lower/domain.h)
std::span<const OperatorRow> integer_convolution_operators();
std::span<const OperatorRow> phase_operators();

using Family = std::span<const OperatorRow> (*)();
inline constexpr Family kOperatorFamilies[] = {
    elementwise_operators, activation_operators,    constant_operators,    layout_operators,
    index_operators,       matrix_operators,        convolution_operators, pooling_operators,
    reduction_operators,   normalization_operators, recurrent_operators,   resize_operators,
    quantize_operators,    qonnx_operators,         integer_operators,     integer_convolution_operators,
    phase_operators,       attention_operators,     along_axis_operators,  einsum_operators,
    loop_operators,        signal_operators,        random_operators,      selection_operators,
};

}  // namespace crumb::runtime
