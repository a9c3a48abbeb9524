// Where quantizers go in a graph: what a recipe (quant/recipe/recipe.h) means for its constants and edges. The
// foundation that quantizing after training, calibration and training share: the plan says where and how, calibrate.h
// finds the scales of activations, apply.h changes the graph.
//
// Weights: float32 initializers that an operator multiplies by (operators.h), one scale for each output channel on the
// axis where the operator has its outputs.
//
// Activations: a value that an operator with weights takes in, or a product of two activations, a residual addition, a
// concatenation, an average pool (those only where integers go on behind them: Placement). The quantizer stands behind the node that computed the value, before what only moves
// elements (MaxPool, Reshape, Transpose, ...), so that a value has one quantizer for all who take it; Concat passes the
// demand on to all that it joins. Values that are quantized already stay as they are.
//   - Of several rules that reach those who take a value, or the node that makes it, the last one wins.
//   - The inputs of an addition, and of a concatenation, share one scale.
//   - One scale for each token (":token") is for what products with weights take along the last axis: these nodes alone
//     take it quantized, and its scale is computed beside it from the values as they come. Others keep what they take,
//     and the plan says so.
//   - With `average_pools: truncate` what an average pool gives has no quantizer of its own (truncation.h).
//   - The sign of an unsigned spec is meant for edges that cannot be negative (operators.h); elsewhere its signed twin
//     of the same width stands, and the plan says so. What `inputs` says is taken as it is; a zero point needs no sign.
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
  std::string node;   ///< "node 'conv1' (Conv)", the first that takes it
  MatrixAxes axes;
  bool is_weight = true;  ///< of an operator; else a recipe named it
  SpecOrKeep spec;
  std::string kept_because;  ///< where it stays
  std::optional<QuantizedConstant>
      rounded;  ///< its codes, where something better than the spec's rounding found them

  // For training; what quantizes without has refused recipes that say more than the defaults.
  std::optional<AccumulatorGoal> accumulator;
  WeightScales scales = WeightScales::kLearned;
  std::optional<PruneGoal> prune;  ///< also where it stays as it is
  bool learned_bits = false;       ///< its width is to be learned
};

struct PlannedEdge {
  std::string value;  ///< an input of the graph, or what a node makes
  QuantSpec spec;
  bool is_signed_twin = false;  ///< the recipe's spec has no sign
  std::size_t scale_group = 0;  ///< edges of the same group share one scale
  std::string wanted_by;        ///< "node 'conv1' (Conv)", the first that takes it quantized
  std::set<std::string> wanted_by_names =
      {};  ///< names of all nodes that want it so, as far as they have some
  std::set<std::string>
      consumers;  ///< first outputs of those that take it so, where others do not; empty: all do

  /// First outputs of those that want integers, or lead to others that do; none where that is not known.
  std::set<std::string> takers = {};
  bool is_by_rule = false;  ///< a rule, or the field for inputs, says that it is quantized

  std::optional<Truncation> truncation;  ///< instead of a quantizer

  // What calibration found, or what follows from it (derive_scales); of no meaning where the spec is dynamic.
  float scale = 0;  ///< 0: not known yet
  float zero_point = 0;
  float least = 0, greatest = 0;  ///< of the values seen
  /// Noise over signal of the outputs where it alone is quantized (choose_by_samples.h); nothing where that is not known.
  std::optional<double> cost = {};

  /// Whether a constant scale is to be found for it, or for its group.
  bool has_own_scale() const { return !spec.is_dynamic() && !truncation; }

  /// Its values may be below 0: unsigned integers without a zero point become their signed twins, other specs stay.
  void take_sign();

  /// Whether that node, where it takes the value, takes it quantized.
  bool is_taken_by(const Node& node) const {
    return consumers.empty() ? !node.is("Shape") && !node.is("Size") : consumers.contains(node.outputs.at(0));
  }
};

struct PlannedBias {
  std::string value;      ///< the initializer
  std::string made_by;    ///< first output of the node that adds it
  std::size_t input = 0;  ///< which of its inputs
  std::string weight;     ///< the quantized constant
  std::size_t edge = 0;   ///< whose scale is that of the input
  int bits = 32;
};

/// How many numbers of a bias its quantizer cuts off.
struct BiasUse {
  std::uint64_t values = 0, saturated = 0;
};

/// Quantizers that a network does without where they lose too much: of what a residual sum or an average pool takes in, or of an
/// input of the graph.
struct OptionalQuantizers {
  std::string value;  ///< the node's first output, or the input
  std::string node;   ///< "node 'sum' (Add)"; "" of an input
  /// Values, and which of those who take one are on the way to the node (first outputs). Other nodes may want them, too.
  std::map<std::string, std::set<std::string>> edges;
};

struct QuantPlan {
  std::vector<PlannedConstant> constants;  ///< by name
  std::vector<PlannedEdge> edges;          ///< as the graph computes them
  std::vector<PlannedBias> biases;
  std::vector<OptionalQuantizers> optional;
  /// Float constants that stages behind rounding gave other numbers than the graph has, which stays the float network: biases, what
  /// batch norms know.
  std::map<std::string, Tensor> settled;
  SpecOrKeep kv_cache;             ///< of every attention that keeps keys and values (key_cache.h)
  std::vector<std::string> notes;  ///< what a person should know

  bool needs_calibration() const;  ///< an edge that wants a constant scale has none yet

  /// Names of nodes, by their first outputs, become those that they have now that something stands beside or behind: what the plan
  /// says of the product stays its own, and what takes its input takes it as the product does.
  void follow(const Branch& made);
};

enum class Placement : std::uint8_t {
  kEverywhere,  ///< whatever can be integers is: networks for FPGAs, and for training
  /// What products take in; residual sums, average pools and concatenations where products, or others of them, take their results
  /// through nothing but Relu, Clip and what moves elements. Norms, activation functions, softmax, spectra and masks stay in
  /// floats, of one node or of many (roles.h). What a rule names is quantized whatever it is.
  kWhereIntegersGoOn,
};

/// What samples said (choose_by_samples.h); values by name.
struct SampledChoices {
  /// Of OptionalQuantizers those that stay in floats, and concatenations whose result is quantized in place of what they join.
  std::set<std::string> in_floats;
  std::set<std::string>
      values_in_floats;  ///< that no quantizer stands at: inputs of the graph, and what is too sensitive
  std::set<std::string> for_takers_alone;  ///< those that want no integers take these values as floats
  std::set<std::string> with_zero_point;   ///< instead of the signed twin
};

struct PlanOptions {
  bool unsigned_after_relu_only = false;  ///< as FINN wants it: Sigmoid, Softmax, Clip, ... count as signed
  Placement placement = Placement::kEverywhere;
  SampledChoices choices = {};
  std::set<std::string> left_out =
      {};  ///< tensors of the model's file that the graph does not take (apply_rules)
};

/// The graph's shapes are inferred, and it is as it shall be quantized: prepare() first. Throws what apply_rules()
/// throws, and Error where biases cannot be quantized as the recipe says.
QuantPlan plan_quantizers(const Graph& graph, const Recipe& recipe, const PlanOptions& options = {});

/// What comes before a plan: batch normalization folded unless the recipe keeps it, Constant nodes as initializers,
/// what constants alone decide computed (without an engine, what the simplest operators make), transposes of constants in the constants, shapes inferred.
Graph prepare(Graph graph, const Recipe& recipe, const Engine* engine = nullptr);

}  // namespace crumb::graph
