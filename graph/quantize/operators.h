// What operators do with activations and weights, as far as quantizers depend on it.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

/// An input of an operator where a constant is expected, which is multiplied by activations.
struct WeightInput {
  std::size_t input = 0;
  std::size_t output_axis = 0;  ///< the constant's axis along which results differ
  std::size_t stack_axes =
      0;  ///< leading axes of the constant that number matrices (MatMul with more than two axes)
  bool is_embedding = false;  ///< a table from which rows are gathered
};

/// Values that do not depend on graph inputs: constants and what is computed from them.
class Constants {
 public:
  explicit Constants(const Graph& graph);
  bool contains(const std::string& value) const { return values_.contains(value); }

 private:
  std::set<std::string, std::less<>> values_;
};

/// Returns a node's weights, by its operator and its constant inputs. Output axes: Conv: 0; ConvTranspose: 1;
/// MatMul: the last, or the rows of a constant left operand; Gemm: by transA and transB; LSTM, GRU and RNN:
/// axis 1 of W and R, the same scales for both directions; Gather of a constant matrix, and Slice of its rows
/// up to a computed number (position embeddings): axis 0.
std::vector<WeightInput> weight_inputs(const Graph& graph, const Node& node, const Constants& constants);

/// Activations that are an operator's inputs and that a recipe can quantize.
struct ActivationInputs {
  std::vector<std::size_t> inputs;
  bool share_scale = false;  ///< their integers are added or concatenated
};

/// Returns inputs of operators that multiply (by weights, or activations with each other), residual additions
/// (Add, Sub and Sum of float32 values of one known shape), Concat and average pools. None for other
/// operators.
ActivationInputs activation_inputs(const Graph& graph, const Node& node, const Constants& constants);

/// Whether a node multiplies that input by weights along its last axis, so that a scale for each vector along
/// it is a factor of a row of the result: the data of MatMul and Gemm as left operand.
bool takes_tokens(const Graph& graph, const Node& node, std::size_t input, const Constants& constants);

/// Whether a node's outputs are its input 0 with elements moved, repeated or left out, so that a quantized
/// input gives quantized outputs: MaxPool, Reshape, Transpose and the like, Pad by 0, nearest Resize.
bool moves_elements(const Graph& graph, const Node& node);

/// Whether the value cannot be below 0, whatever the graph inputs are: outputs of Relu, Clip from 0, Sigmoid,
/// Softmax, roots, squares (x * x, even powers) and the like; also such values moved, gathered, concatenated,
/// averaged, added, or multiplied with each other or with constants that are not below 0 (operator_traits.h).
bool is_nonnegative(const Graph& graph, const Links& links, const std::string& value);

/// Whether the node is an AveragePool, a GlobalAveragePool, or the mean over all positions of an image
/// (ReduceMean over the axes from 2 on, of four axes or more), which some exporters write for the latter.
bool is_average_pool(const Graph& graph, const Node& node);

/// Returns the axes of a ReduceMean, counted from the front; nothing where they, or the rank, are unknown.
std::optional<std::vector<std::int64_t>> mean_axes(const Graph& graph, const Node& node);

/// Whether the node is a depthwise convolution: as many groups as input channels, more than one.
bool is_depthwise(const Graph& graph, const Node& node);

/// Whether a recipe's name of an operator matches this node: its own name; Linear for MatMul and Gemm,
/// Embedding for Gather.
bool is_called(const Node& node, const std::string& op);

/// Where a bias is added: by Conv, ConvTranspose or Gemm, or by an Add behind MatMul.
struct BiasInput {
  std::size_t node = 0;  ///< the node that takes it
  std::size_t input = 0;
};
/// Returns nothing where the product has no constant bias of its own, or is scaled (Gemm's alpha and beta).
std::optional<BiasInput> bias_of(const Graph& graph, const Links& links, std::size_t node);

}  // namespace crumb::graph
