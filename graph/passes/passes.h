// The passes: functions from graph to graph that change how it is written and not what it computes.
//
// A pass takes any sound graph, leaves what it does not understand alone, and gives a sound, sorted graph.
// Those that fold arithmetic into constants compute in double and round once; everything else keeps every bit
// of the outputs.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/engine.h"
#include "graph/graph.h"

namespace crumb::graph {

/// Nodes whose inputs are all constants become constants, computed by the engine; Shape and Size of values
/// with a static shape too. Quantizers (QONNX's, QuantizeLinear, DequantizeLinear) stay, because their bit
/// width would be lost, and with them Transpose, Reshape and their like behind them; so do results that are
/// more than 4 MB larger than what they are made of, and random numbers.
Graph fold_constants(Graph graph, const Engine& engine);

/// Constant nodes become initializers, unless they are outputs of the graph.
Graph plain_constants(Graph graph);

/// What fold_constants does, without an engine: float32 and int64 results of the operators that
/// ConstantValues knows.
Graph fold_known(Graph graph);

/// BatchNormalization in inference, behind a Conv, ConvTranspose, Gemm or MatMul whose weight is a constant
/// that nobody else uses, goes into weight and bias.
Graph fold_batch_norm(Graph graph);

/// What a pass says of a node that it is for.
struct PassRemark {
  std::string node;
  std::vector<std::string> changed;  ///< constants that took what the node had
  std::string stays;                 ///< why the node stays as it is; empty where it changed
};

/// The gain of a RMSNormalization or LayerNormalization goes into the constant matrices behind it and becomes
/// ones; the bias of the latter into theirs where all have one, else it is divided by the gain (fold_norms.h
/// says which norms can). Constants keep their names where nobody else takes them. One remark for each norm.
Graph fold_norms(Graph graph, std::vector<PassRemark>* remarks = nullptr);

/// Gemm becomes MatMul and Add: a constant is transposed and scaled, anything else gets its Transpose and
/// Mul.
Graph gemm_to_matmul(Graph graph);

/// MatMul by a matrix, and the Add of a vector behind it, becomes Gemm where its input has two axes.
Graph matmul_to_gemm(Graph graph);

/// The bias of a Conv or ConvTranspose becomes an Add of [1, C, 1, ...] behind it.
Graph extract_conv_bias(Graph graph);

/// What changes nothing goes: Identity, Dropout in inference, Cast to the same type, Add and Sub of 0, Mul
/// and Div by 1, Transpose, Reshape and Expand to what is there already, Concat and Sum of one. (Adding 0
/// makes 0 of -0: that sign is all that can change.)
Graph remove_identities(Graph graph);

/// A Transpose of a constant, or of a quantized constant, goes into the constant (and the quantizer's
/// parameters).
Graph fold_transposes(Graph graph);

/// Channels last, as hls4ml wants it: Conv, MaxPool, BatchNormalization (and GlobalMaxPool as a MaxPool) on
/// three or four axes become those of qonnx.custom_op.channels_last, with weights [M, k..., C/group].
/// Transposes move as far up and down as they can, through quantizers (whose scales are transposed),
/// elementwise operators, Concat, Split, Pad and Resize; into constants; and through a Flatten into the
/// weights of the MatMul or Gemm behind it. Where they can move no further they stay: around AveragePool,
/// ConvTranspose and the like, which have no such form, and at inputs and outputs, whose layout stays. With
/// `inputs_too` inputs that would be transposed are channels-last themselves.
Graph channels_last(Graph graph, bool inputs_too = false);

/// LSTM, GRU and RNN over a number of steps that is known become cells of Gemm, Add, Sigmoid, Tanh and Mul,
/// one for each step, whose weights have PyTorch's layout and, where they were captured, its names. What is
/// unusual stays: activations of other kinds, peepholes, lengths of sequences, more than 4096 steps. Each
/// cell's part says so in its metadata (recurrent_cell.h).
Graph unroll_recurrent(Graph graph);

/// Nodes are called `<Op>_<number>`, values `global_in`, `global_out`, `<Op>_<number>_out0`,
/// `<Op>_<number>_param1`, as in QONNX's own tools; inputs and outputs keep their names where they begin with
/// a letter and hold no odd character.
Graph readable_names(Graph graph);

/// Nothing but the order of the nodes, and what no output needs goes.
Graph tidy(Graph graph);

/// A pass by name.
struct Pass {
  std::string_view name;
  std::string_view what;                            ///< one line
  Graph (*run)(Graph graph, const Engine* engine);  ///< an engine is given where `needs_engine`
  bool needs_engine = false;
  /// The same with what it says of nodes; null where it says nothing.
  Graph (*run_and_tell)(Graph graph, std::vector<PassRemark>* remarks) = nullptr;
};
std::span<const Pass> all_passes();

/// Null where there is none of that name.
const Pass* find_pass(std::string_view name);

}  // namespace crumb::graph
