// What operators do with activations and weights, as far as quantizers care.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

/// An input of an operator that is multiplied by activations, where a constant is expected.
struct WeightInput {
  std::size_t input = 0;
  std::size_t output_axis = 0;  ///< of the constant: the axis along which results differ
  std::size_t stack_axes =
      0;  ///< of the constant: leading axes that number matrices (MatMul's, of more than two)
  bool is_embedding = false;  ///< a table that rows are picked from
};

/// Values that no input of the graph decides: constants and what is computed from them.
class Constants {
 public:
  explicit Constants(const Graph& graph);
  bool contains(const std::string& value) const { return values_.contains(value); }

 private:
  std::set<std::string, std::less<>> values_;
};

/// Where a node takes weights, by its operator and which of its inputs are constant. Conv: axis 0; ConvTranspose: 1;
/// MatMul: the last, or where the constant stands in front its rows; Gemm: by transA and transB; LSTM, GRU and RNN:
/// axis 1 of W and R, the same scales for both directions; Gather of a constant matrix, and Slice of its rows
/// up to a number that flows (position embeddings): axis 0.
std::vector<WeightInput> weight_inputs(const Graph& graph, const Node& node, const Constants& constants);

/// Activations that an operator takes and that a recipe may want quantized.
struct ActivationInputs {
  std::vector<std::size_t> inputs;
  bool share_scale = false;  ///< their integers are added, or stand side by side
};

/// Inputs of operators that multiply (by weights, or activations with each other), residual additions (Add, Sub and
/// Sum of float32 values of one and the same known shape), Concat and average pools. None for the others.
ActivationInputs activation_inputs(const Graph& graph, const Node& node, const Constants& constants);

/// Whether a node multiplies that input by weights along its last axis, so that a scale for each run along it is a factor
/// of a row of the result: the data of MatMul and Gemm that stand in front.
bool takes_tokens(const Graph& graph, const Node& node, std::size_t input, const Constants& constants);

/// Where a node's outputs are its input 0, the elements moved, repeated or left out: what is quantized before it is
/// quantized behind it. MaxPool, Reshape, Transpose and their like, Pad by 0, Resize to the nearest.
bool moves_elements(const Graph& graph, const Node& node);

/// Whether the value cannot be below 0 whatever the inputs are: behind Relu, Clip from 0, Sigmoid, Softmax, roots, squares
/// (x * x, even powers) and their like, and where such values are moved, picked, put together, averaged, added, multiplied
/// with each other or with constants that are not below 0 (operator_traits.h).
bool is_nonnegative(const Graph& graph, const Links& links, const std::string& value);

/// AveragePool, GlobalAveragePool, and the mean over all places of an image (ReduceMean of four axes and more over those
/// from the third on), which some exporters write for the latter.
bool is_average_pool(const Graph& graph, const Node& node);

/// The axes that ReduceMean takes the mean over, counted from the front; nothing where they, or the rank, are not known.
std::optional<std::vector<std::int64_t>> mean_axes(const Graph& graph, const Node& node);

/// Whether a depthwise convolution: as many groups as input channels, more than one.
bool is_depthwise(const Graph& graph, const Node& node);

/// Whether a recipe's name of an operator stands for this node's: its own; Linear for MatMul and Gemm, Embedding for
/// Gather.
bool is_called(const Node& node, const std::string& op);

/// What a node adds to its product, behind Conv, ConvTranspose, Gemm, and MatMul with an Add behind it.
struct BiasInput {
  std::size_t node = 0;  ///< the node that takes it
  std::size_t input = 0;
};
/// Nothing where there is no constant bias of its own, or the product is scaled (Gemm's alpha and beta).
std::optional<BiasInput> bias_of(const Graph& graph, const Links& links, std::size_t node);

}  // namespace crumb::graph
