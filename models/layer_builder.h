// Nodes of a checkpoint's graph: one output each, which has the node's name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "formats/checkpoint/activation.h"
#include "graph/graph.h"
#include "models/model_weights.h"

namespace crumb::models {

class LayerBuilder {
 public:
  /// An empty graph of an operator set.
  LayerBuilder(ModelWeights& weights, std::int64_t opset);

  ModelWeights& weights() { return weights_; }

  void input(const std::string& name, const graph::Value& value);
  /// The value gets this name and becomes an output. Precondition: a node made it.
  void output(const std::string& value, const std::string& name, const graph::Shape& shape);
  /// The same of a value that has its name.
  void output_of(const std::string& value, const graph::Shape& shape);
  graph::Graph take() { return std::move(graph_); }

  /// A node called `name`, or like it where that is taken; its output.
  std::string node(const std::string& op, const std::string& name, const std::vector<std::string>& inputs,
                   const std::map<std::string, graph::Attribute>& attributes = {});

  /// A node with several outputs, which have these names.
  void node_of_outputs(const std::string& op, const std::string& name, const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs,
                       const std::map<std::string, graph::Attribute>& attributes = {});

  /// Constants that are no weights, buffers of the graph (graph/buffers.h): equal ones are one, whatever they
  /// were to be called.
  std::string floats(const std::string& requested, float value);
  std::string scalar(const std::string& requested, std::int64_t value);
  std::string ints(const std::string& requested, const std::vector<std::int64_t>& values);
  std::string row(const std::string& requested, const std::vector<float>& values);  ///< of one axis

  /// A weight as it lies in the checkpoint.
  std::string weight(const std::string& name, const std::vector<size_t>& shape);

  /// x W^T + b, with NAME.weight [out, in] and NAME.bias [out]: a MatMul called `name`, and an Add.
  std::string linear(const std::string& name, const std::string& x, size_t in, size_t out,
                     bool has_bias = true);

  /// NAME.weight and NAME.bias, or NAME.gamma and NAME.beta as early checkpoints have it, over the last axis.
  std::string layer_norm(const std::string& name, const std::string& x, size_t width, float epsilon,
                         bool has_bias = true);

  /// NAME.weight over the last axis, or 1 + that. From operator set 23 on.
  std::string rms_norm(const std::string& name, const std::string& x, size_t width, float epsilon,
                       bool plus_one);

  /// ReduceSum, ReduceMax or ReduceL2 over some axes.
  std::string reduce(const std::string& op, const std::string& name, const std::string& x,
                     const std::vector<std::int64_t>& axes, bool keeps_axes);

  /// In operators of set 13; from set 24 on in one node each.
  std::string activation(Activation activation, const std::string& name, const std::string& x);

 private:
  /// A name that no node and no value has: `wish`, or `wish_1`, `wish_2`, ...
  std::string unused(const std::string& requested);
  void add_weight(const std::string& name, const std::vector<size_t>& shape,
                  const std::vector<std::int64_t>& axes);
  std::string constant(const std::string& requested, const graph::Tensor& tensor);
  std::string gelu(const std::string& name, const std::string& x);
  std::string gelu_tanh(const std::string& name, const std::string& x);

  ModelWeights& weights_;
  std::int64_t opset_;
  graph::Graph graph_;
  std::vector<std::string> constants_;
  std::set<std::string> names_;
  std::map<std::string, size_t> suffixes_;  ///< by wish: the next number to try
};

}  // namespace crumb::models
