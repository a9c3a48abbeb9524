// The passes: functions from graph to graph that change how a graph is written and not what it computes.
//
// A pass takes any sound graph, leaves alone what it does not understand, and returns a sound, sorted graph.
// Passes that fold arithmetic into constants compute in double and round once; everything else keeps every
// bit of the outputs.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/engine.h"
#include "graph/graph.h"

namespace crumb::graph {

/// Replaces nodes whose inputs are all constants by constants that the engine computes; also Shape and Size
/// of values with a static shape. Keeps quantizers (QONNX's, QuantizeLinear, DequantizeLinear), because their
/// bit width would be lost, and Transpose, Reshape and the like behind them; results more than 4 MB larger
/// than their inputs; and random numbers.
Graph fold_constants(Graph graph, const Engine& engine);

/// Replaces Constant nodes by initializers, unless they are outputs of the graph.
Graph plain_constants(Graph graph);

/// Does what fold_constants does, without an engine: for float32 and int64 results of ConstantValues'
/// operators.
Graph fold_known(Graph graph);

/// Replaces scales and zero points of QuantizeLinear and DequantizeLinear that constants decide by constants.
/// Everything else stays: a Clip of constant codes says their width.
Graph fold_parameters(Graph graph);

/// Folds a BatchNormalization in inference into the Conv, ConvTranspose, Gemm or MatMul in front of it, if
/// the weight of that is a constant without other consumers.
Graph fold_batch_norm(Graph graph);

/// What a pass reports about a node that it applies to.
struct PassRemark {
  std::string node;
  std::vector<std::string> changed;  ///< constants that absorbed the node's numbers
  std::string stays;                 ///< why the node does not change; empty if it did
};

/// Folds the gain of a RMSNormalization or LayerNormalization into the constant matrices behind it; the gain
/// becomes ones. The bias of a LayerNormalization goes into the biases behind the matrices if all have one,
/// else it is divided by the gain (fold_norms.h says which norms fold). Constants without other consumers
/// keep their names. Gives one remark for each norm.
Graph fold_norms(Graph graph, std::vector<PassRemark>* remarks = nullptr);

/// Replaces Gemm by MatMul and Add. Constants are transposed and scaled; other inputs get a Transpose and a
/// Mul.
Graph gemm_to_matmul(Graph graph);

/// Replaces MatMul by a matrix, and the Add of a vector behind it, by Gemm if the input has two axes.
Graph matmul_to_gemm(Graph graph);

/// Moves the bias of a Conv or ConvTranspose to an Add of [1, C, 1, ...] behind it.
Graph extract_conv_bias(Graph graph);

/// Removes nodes that change nothing: Identity, Dropout in inference, Cast to the same type, Add and Sub of
/// 0, Mul and Div by 1, Transpose, Reshape and Expand to the same shape, Concat and Sum of one input. (Adding
/// 0 turns -0 into 0: only that sign can change.)
Graph remove_identities(Graph graph);

/// Folds a Transpose of a constant, or of a quantized constant, into the constant (and the quantizer's
/// parameters).
Graph fold_transposes(Graph graph);

/// Converts to channels-last, which hls4ml requires: Conv, MaxPool, BatchNormalization (and GlobalMaxPool as
/// a MaxPool) on three or four axes become those of qonnx.custom_op.channels_last, with weights [M, k...,
/// C/group]. Transposes move up and down as far as they can: through quantizers (whose scales are
/// transposed), elementwise operators, Concat, Split, Pad and Resize; into constants; and through a Flatten
/// into the weights of the MatMul or Gemm behind it. They stay around AveragePool, ConvTranspose and the
/// like, which have no such form, and at inputs and outputs, whose layout stays. With `inputs_too`, inputs
/// that would be transposed become channels-last.
Graph channels_last(Graph graph, bool inputs_too = false);

/// Replaces LSTM, GRU and RNN with a known number of steps by one cell of Gemm, Add, Sigmoid, Tanh and Mul
/// for each step. Weights have PyTorch's layout and, if they were captured, its names. Keeps layers with
/// other activations, peepholes, sequence lengths, or more than 4096 steps. The metadata of a cell's nodes
/// names their parts (recurrent_cell.h).
Graph unroll_recurrent(Graph graph);

/// Names nodes `<Op>_<number>`, and values `global_in`, `global_out`, `<Op>_<number>_out0`,
/// `<Op>_<number>_param1`, as QONNX's own tools do. Inputs and outputs keep names that begin with a letter
/// and have no unusual character.
Graph readable_names(Graph graph);

/// Sorts the nodes and removes what no output needs.
Graph tidy(Graph graph);

/// A pass by name.
struct Pass {
  std::string_view name;
  std::string_view what;                            ///< one line of help
  Graph (*run)(Graph graph, const Engine* engine);  ///< the engine is null unless `needs_engine`
  bool needs_engine = false;
  /// Runs the pass and returns its remarks; null if the pass has none.
  Graph (*run_and_tell)(Graph graph, std::vector<PassRemark>* remarks) = nullptr;
};
std::span<const Pass> all_passes();

/// Returns the pass of that name, or null.
const Pass* find_pass(std::string_view name);

}  // namespace crumb::graph
