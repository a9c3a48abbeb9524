// Where quantizers go in a graph: what a recipe (quant/recipe/recipe.h) means for its constants and edges.
// Post-training quantization, calibration and training share it: the plan says where and how, calibrate.h
// finds the scales of activations, apply.h changes the graph.
//
// Weights: float32 initializers that an operator multiplies by (operators.h), with one scale for each index
// of the operator's output axis.
//
// Activations: the inputs of operators with weights, of products of two activations, and of residual
// additions, concatenations and average pools (the last three only where integers go on behind them:
// Placement). The quantizer follows the node that computes the value, in front of nodes that only move
// elements (MaxPool, Reshape, Transpose, ...), so that a value has one quantizer for all consumers; for
// Concat, all its inputs are quantized. Values that are quantized already stay as they are.
//   - Of several rules that match the value's consumers, or the node that computes it, the last one wins.
//   - The inputs of an addition, and of a concatenation, share one scale.
//   - One scale for each token (":token") is for the last axis of inputs of products with weights: only these
//     nodes take the value quantized, and its scale is computed from the values at run time. Other consumers
//     are not affected, and the plan says so.
//   - With `average_pools: truncate` the output of an average pool has no quantizer of its own
//     (truncation.h).
//   - The sign of an unsigned spec is for edges that cannot be negative (operators.h); other edges get its
//     signed twin of the same width, and the plan says so. The spec of `inputs` is used as it is; a zero
//     point needs no sign.
//
// Biases: quantized to scale_in * scale_weight, for integers with one scale for each output channel.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/branches.h"
#include "graph/engine.h"
#include "graph/graph.h"
#include "graph/quantize/truncation.h"
#include "quant/recipe/recipe.h"

namespace crumb::graph {

struct PlannedConstant {
  std::string value;  ///< the initializer
  std::string node;   ///< "node 'conv1' (Conv)", the first that takes the initializer
  MatrixAxes axes;
  bool is_weight = true;  ///< of an operator; false: a recipe named it
  SpecOrKeep spec;
  std::string kept_because;  ///< why the constant is not quantized
  std::optional<QuantizedConstant>
      rounded;  ///< its codes, if a method better than the spec's rounding chose them

  // For training; quantizing without training has refused recipes with other values than the defaults.
  std::optional<AccumulatorGoal> accumulator;
  WeightScales scales = WeightScales::kLearned;
  std::optional<PruneGoal> prune;  ///< also for constants that are not quantized
  bool learned_bits = false;       ///< training chooses its width
};

struct PlannedEdge {
  std::string value;  ///< an input of the graph, or a node's output
  QuantSpec spec;
  bool is_signed_twin = false;  ///< replaces the recipe's unsigned spec
  std::size_t scale_group = 0;  ///< edges of the same group share one scale
  std::string wanted_by;        ///< "node 'conv1' (Conv)", the first consumer that takes it quantized
  std::set<std::string> wanted_by_names =
      {};  ///< names of all nodes that take it quantized, where they have one
  std::set<std::string>
      consumers;  ///< first outputs of consumers that take it quantized, if others do not; empty: all do

  /// First outputs of consumers that need integers, or lead to nodes that do; empty where that is unknown.
  std::set<std::string> takers = {};
  bool is_by_rule = false;  ///< a rule, or the recipe's field for inputs, quantizes it

  std::optional<Truncation> truncation;  ///< instead of a quantizer

  // Found by calibration, or derived from it (derive_scales); without meaning where the spec is dynamic.
  float scale = 0;  ///< 0: not yet known
  float zero_point = 0;
  float least = 0, greatest = 0;  ///< of the values in the samples
  /// Noise over signal of the outputs if only this edge is quantized (choose_by_samples.h); nothing if not
  /// measured.
  std::optional<double> cost = {};

  /// Whether it, or its group, needs a constant scale.
  bool has_own_scale() const { return !spec.is_dynamic() && !truncation; }

  /// Allows values below 0: unsigned integers without a zero point become their signed twins, other specs
  /// stay.
  void take_sign();

  /// Whether that consumer takes the value quantized.
  bool is_taken_by(const Node& node) const {
    return consumers.empty() ? !node.is("Shape") && !node.is("Size") : consumers.contains(node.outputs.at(0));
  }
};

struct PlannedBias {
  std::string value;      ///< the initializer
  std::string made_by;    ///< first output of the node that adds it
  std::size_t input = 0;  ///< index of the node's input
  std::string weight;     ///< the quantized constant
  std::size_t edge = 0;   ///< the edge whose scale is the input's
  int bits = 32;
};

/// How many numbers of a bias its quantizer cuts off.
struct BiasUse {
  std::uint64_t values = 0, saturated = 0;
};

/// Quantizers that a network can leave out where they lose too much: on the inputs of a residual sum or an
/// average pool, or on a graph input.
struct OptionalQuantizers {
  std::string value;  ///< the node's first output, or the graph input
  std::string node;   ///< "node 'sum' (Add)"; "" for a graph input
  /// For each value, its consumers on the way to the node (first outputs). Other nodes may need it quantized,
  /// too.
  std::map<std::string, std::set<std::string>> edges;
};

struct QuantPlan {
  std::vector<PlannedConstant> constants;  ///< by name
  std::vector<PlannedEdge> edges;          ///< in the order in which the graph computes them
  std::vector<PlannedBias> biases;
  std::vector<OptionalQuantizers> optional;
  /// Float constants, such as biases and batch norm statistics, to which stages after rounding gave new
  /// values, by name. The graph itself keeps the old ones: it stays the float network.
  std::map<std::string, Tensor> final_floats;
  SpecOrKeep kv_cache;             ///< of every attention with cached keys and values (key_cache.h)
  std::vector<std::string> notes;  ///< for people

  bool needs_calibration() const;  ///< whether an edge that needs a constant scale has none yet

  /// Renames nodes (their first outputs) after a branch was added to a product: what the plan says about the
  /// product stays the product's, and the branch takes the product's input quantized as the product does.
  void follow(const Branch& made);
};

enum class Placement : std::uint8_t {
  kEverywhere,  ///< wherever integers are possible: networks for FPGAs, and for training
  /// At inputs of products; at those of residual sums, average pools and concatenations if products, or
  /// others of them, take their results through nothing but Relu, Clip and nodes that move elements. Norms,
  /// activation functions, softmax, spectra and masks stay float, whether they are one node or many
  /// (roles.h). Whatever a rule names is quantized.
  kWhereIntegersGoOn,
};

/// Choices made from samples (choose_by_samples.h), by names of values.
struct SampledChoices {
  /// OptionalQuantizers that are left out, and concatenations that are quantized behind instead of at their
  /// inputs.
  std::set<std::string> in_floats;
  std::set<std::string>
      values_in_floats;  ///< values without quantizer: graph inputs, and values that are too sensitive
  std::set<std::string> for_takers_alone;  ///< values that consumers without need of integers take as floats
  std::set<std::string> with_zero_point;   ///< values with a zero point instead of the signed twin
};

struct PlanOptions {
  bool unsigned_after_relu_only = false;  ///< for FINN: Sigmoid, Softmax, Clip, ... count as signed
  Placement placement = Placement::kEverywhere;
  SampledChoices choices = {};
  std::set<std::string> left_out =
      {};  ///< tensors of the model's file that the graph does not use (apply_rules)
};

/// Returns the plan for a graph. Preconditions: shapes are inferred, and prepare() has changed the graph.
/// Throws what apply_rules() throws, and Error where biases cannot be quantized as the recipe says.
QuantPlan plan_quantizers(const Graph& graph, const Recipe& recipe, const PlanOptions& options = {});

/// Prepares a graph for a plan: folds batch normalization unless the recipe keeps it, turns Constant nodes
/// into initializers, computes what depends on constants alone (without an engine, results of the simplest
/// operators), folds transposes of constants, infers shapes.
Graph prepare(Graph graph, const Recipe& recipe, const Engine* engine = nullptr);

}  // namespace crumb::graph
