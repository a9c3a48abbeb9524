// The tables of operators, one a file.
#pragma once

#include <span>

#include "libtorch/execute/operator.h"

namespace crumb::libtorch {

std::span<const OperatorRow> elementwise_operators();  ///< arithmetic
std::span<const OperatorRow> comparison_operators();   ///< comparison, logic, bits, Where
std::span<const OperatorRow> activation_operators();   ///< Relu to Softmax and Hardmax
std::span<const OperatorRow> constant_operators();     ///< Constant, Shape, Range
std::span<const OperatorRow> loop_operators();         ///< Loop, Scan
std::span<const OperatorRow> cast_operators();         ///< Cast, CastLike, BitCast
std::span<const OperatorRow> random_operators();       ///< RandomNormal to Multinomial
std::span<const OperatorRow> matrix_operators();       ///< MatMul, Gemm, Einsum, Det, cumulative sums
std::span<const OperatorRow> reduction_operators();    ///< Reduce*, ArgMax, TopK
std::span<const OperatorRow>
layout_operators();  ///< Reshape, Transpose, Concat, Split, Slice, Pad, Tile, Expand
std::span<const OperatorRow> slice_operators();      ///< Split, Slice, Pad and their kin
std::span<const OperatorRow> scatter_operators();    ///< Scatter, ScatterElements, ScatterND, TensorScatter
std::span<const OperatorRow> selection_operators();  ///< Unique, NonMaxSuppression, TfIdfVectorizer
std::span<const OperatorRow> sampling_operators();   ///< GridSample, AffineGrid
std::span<const OperatorRow> region_operators();     ///< RoiAlign, MaxRoiPool
std::span<const OperatorRow> tree_operators();       ///< TreeEnsemble and its older kin
std::span<const OperatorRow> support_vector_operators();  ///< SVMClassifier, SVMRegressor
std::span<const OperatorRow> index_operators();           ///< Gather*, Scatter*, OneHot, NonZero, Unique
std::span<const OperatorRow> convolution_operators();     ///< Conv, ConvTranspose, DeformConv, Col2Im
std::span<const OperatorRow> pooling_operators();        ///< AveragePool, MaxPool, LpPool and the global ones
std::span<const OperatorRow> normalization_operators();  ///< Batch, Layer, Group, Instance, RMS, Lp, LRN
std::span<const OperatorRow> recurrent_operators();      ///< LSTM, GRU, RNN
std::span<const OperatorRow> attention_operators();      ///< Attention, RotaryEmbedding and their kin
std::span<const OperatorRow> loss_operators();           ///< losses, and the optimizers of preview.training
std::span<const OperatorRow> resize_operators();    ///< Resize, Upsample, GridSample, AffineGrid, RoiAlign
std::span<const OperatorRow> signal_operators();    ///< DFT, STFT, windows, MelWeightMatrix
std::span<const OperatorRow> quantize_operators();  ///< QuantizeLinear, DequantizeLinear, QLinear*, *Integer
std::span<const OperatorRow> qonnx_operators();     ///< QONNX's quantizers and integer operators
std::span<const OperatorRow> channels_last_operators();  ///< QONNX's channels-last wrappers
std::span<const OperatorRow>
machine_learning_operators();  ///< the ai.onnx.ml operators that are tensors in and out

inline constexpr std::span<const OperatorRow> (*kOperatorFamilies[])() = {
    elementwise_operators,   comparison_operators,       cast_operators,
    random_operators,        activation_operators,       constant_operators,
    matrix_operators,        reduction_operators,        layout_operators,
    slice_operators,         scatter_operators,          selection_operators,
    index_operators,         convolution_operators,      pooling_operators,
    normalization_operators, recurrent_operators,        attention_operators,
    loss_operators,          sampling_operators,         region_operators,
    tree_operators,          support_vector_operators,   resize_operators,
    signal_operators,        quantize_operators,         qonnx_operators,
    channels_last_operators, machine_learning_operators, loop_operators,
};

}  // namespace crumb::libtorch
