// What checks look at, and what they say. Internal to export/lint.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "export/lint/lint.h"
#include "graph/edit.h"
#include "graph/onnx/file_facts.h"

namespace crumb::exporting {

using graph::constant_input;
using graph::Graph;
using graph::kChannelsLastDomain;
using graph::kQonnxDomain;
using graph::Links;
using graph::Node;
using graph::Shape;
using graph::Tensor;
using graph::Value;

/// A graph of which types and shapes are inferred and constants are initializers, and its file.
class Subject {
 public:
  Subject(const Graph& graph, Profile profile, const graph::FileFacts* file = nullptr)
      : graph_(graph), links_(graph), profile_(profile), file_(file) {}

  const Graph& graph() const { return graph_; }
  const std::vector<Node>& nodes() const { return graph_.nodes; }
  const Links& links() const { return links_; }
  bool is_for(Profile profile) const { return profile_ == profile; }
  const graph::FileFacts* file() const { return file_; }  ///< null where there is no file yet

  const Tensor* constant(const Node& node, std::size_t i) const { return constant_input(graph_, node, i); }
  /// The node that makes an input of a node; null for inputs and constants.
  const Node* source(const Node& node, std::size_t i) const;
  const Node* producer(const std::string& value) const;
  /// Those that take the node's first output, each once.
  std::vector<const Node*> consumers(const Node& node) const;

 private:
  const Graph& graph_;
  Links links_;
  Profile profile_;
  const graph::FileFacts* file_;
};

/// Findings of one rule.
class Report {
 public:
  Report(const Rule& rule, std::vector<Finding>& findings) : rule_(rule), findings_(findings) {}

  void add(const std::string& node, std::string message) { add(node, std::move(message), is_fixable()); }
  void add(const Node& node, std::string message) { add(node.name, std::move(message), is_fixable()); }
  void add(const Node& node, std::string message, bool fixable) {
    add(node.name, std::move(message), fixable);
  }
  void add(const std::string& node, std::string message, bool fixable) {
    findings_.push_back({std::string(rule_.name), node, std::move(message), fixable, rule_.severity});
  }

 private:
  bool is_fixable() const { return rule_.fixable != "no"; }

  const Rule& rule_;
  std::vector<Finding>& findings_;
};

/// Inputs of Quant and IntQuant; the first two are BipolarQuant's too.
inline constexpr std::size_t kData = 0, kScale = 1, kZeropt = 2, kBits = 3;

bool is_quant(const Node& node);              ///< Quant, IntQuant
bool is_bipolar(const Node& node);            ///< BipolarQuant
bool is_integer_quantizer(const Node& node);  ///< those three
bool is_qonnx_quantizer(const Node& node);    ///< those, FloatQuant and Trunc
bool is_thresholds(const Node& node);         ///< MultiThreshold
bool convolves(const Node& node);             ///< Conv, ConvTranspose, in either layout

/// The name of an input or output; empty where there is none.
const std::string& input_of(const Node& node, std::size_t i);
const std::string& output_of(const Node& node, std::size_t i = 0);

/// A quantizer of a constant.
bool is_weight(const Graph& graph, const Node& node);

/// Whether it is of the domain whose operators have channels last.
inline bool is_last(const Node& node) { return node.domain == kChannelsLastDomain; }

/// The one number that all elements are; nothing where they differ, are none, or are not known.
std::optional<float> uniform(const Tensor* constant);

/// The shape of a constant as `rank` axes: ones are put before it.
std::vector<std::int64_t> filled_up(std::vector<std::int64_t> shape, std::size_t rank);

/// "0.5", as short as it can be said.
std::string number_text(double value);

/// Input `i` of the node becomes a constant of its own.
void give_constant(Graph& graph, Node& node, std::size_t i, Tensor tensor);

/// Calls with every node that there is now, while nodes may be added; then sorts.
Graph for_each_node(Graph graph, const std::function<void(Graph&, std::size_t)>& change);

}  // namespace crumb::exporting
