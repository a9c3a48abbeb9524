#include "runtime/lower/lower.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>

#include "graph/operator_traits.h"
#include "graph/weighted_product.h"
#include "runtime/lower/domain.h"
#include "runtime/lower/follow.h"
#include "runtime/lower/keep_floats.h"
#include "runtime/lower/made_graph.h"
#include "runtime/lower/pads.h"
#include "runtime/lower/phases.h"
#include "runtime/lower/product_node.h"
#include "runtime/lower/recurrent_products.h"
#include "runtime/lower/step_functions.h"

namespace crumb::runtime {
namespace {

using graph::ElementType;
using graph::Graph;
using graph::Node;
using graph::Tensor;
using Ints = std::vector<std::int64_t>;
using Kind = ChainStep::Kind;

class Lowering {
 public:
  explicit Lowering(Graph graph)
      : from_(pads_behind_quantizers(std::move(graph))),
        known_(from_),
        done_(from_.nodes.size(), false),
        made_graph_(from_) {}

  Lowered run() && {
    for (std::size_t i = 0; i < from_.nodes.size(); ++i) {
      if (!done_[i]) lower_node(i);
    }
    for (const std::string& output : from_.outputs) need_floats(output);
    std::map<std::string, std::string> values;  // by the names of their codes
    for (const auto& [value, coded] : coded_) values[coded.codes] = value;
    keep_in_floats(made_graph_.graph(), values, movers_);
    made_graph_.drop_unused();
    made_.graph = std::move(made_graph_.graph());
    return std::move(made_);
  }

 private:
  void lower_node(std::size_t i) {
    const Node& node = from_.nodes[i];
    if (const auto quantizer = known_.quantizer_of(node); quantizer && !known_.constant(node.inputs[0])) {
      if (!gives_the_same(node, *quantizer)) return emit_codes(node, *quantizer);
      return emit_move(node, same_of(node), coded_.at(node.inputs[0]));
    }
    if (const auto quantizer = known_.dequantizer_of(node)) {
      coded_[node.outputs[0]] = {
          .codes = node.inputs[0], .quantizer = *quantizer, .type = type_of(*quantizer)};
      return;
    }
    const auto product = graph::weighted_product(node, 2);
    if (product && node.inputs.size() >= 2 && known_.is_coded_weight(node.inputs[1])) {
      const std::string why = lower_product(i);
      if (why.empty()) return;
      made_.floats.emplace_back(node.name, why);
    }
    if (graph::is_any(node, graph::trait::kRecurrent) && lower_recurrent(node)) return;
    const bool is_plain = product && product->bias == graph::kNoInput;  // MatMul
    if (is_plain && lower_products(node)) return;
    if (node.has_input(0) && coded_.contains(node.inputs[0])) {
      if (moves_codes(node)) return emit_move(node, node, coded_.at(node.inputs[0]));
      if (node.is("Pad") && lower_pad(node)) return;
      if (node.is("Concat") && lower_concat(node)) return;
    }
    if (node.is("QuantizeLinear") && node.int_or("output_dtype", 0) == 0) {
      const auto quantizer = known_.linear_quantizer(node, ElementType::kUnknown);
      if (quantizer && gives_the_same(node, *quantizer)) {
        Node same = same_of(node);
        same.inputs[0] = coded_.at(node.inputs[0]).codes;
        return made_graph_.push(std::move(same));
      }
    }
    for (const std::string& input : node.inputs) need_floats(input);
    made_graph_.push(node);
  }

  /// Whether the node quantizes values of codes to the very same codes.
  bool gives_the_same(const Node& node, const UniformQuantizer& quantizer) const {
    const auto found = coded_.find(node.inputs[0]);
    if (found == coded_.end()) return false;
    const UniformQuantizer& from = found->second.quantizer;
    return from.scale == quantizer.scale && from.zero == quantizer.zero &&
           from.bipolar == quantizer.bipolar && from.low >= quantizer.low && from.high <= quantizer.high &&
           found->second.type == type_of(quantizer);
  }

  static Node same_of(const Node& node) {
    return {.name = node.name,
            .op = "Identity",
            .version = 16,
            .inputs = {node.inputs[0]},
            .outputs = node.outputs};
  }

  // Products.

  /// The values of the constant that the node itself adds to the product; empty where it adds none.
  std::optional<std::vector<double>> own_bias(const Node& node, std::size_t channels) const {
    if (!node.has_input(2)) return std::vector<double>();
    return operand(known_, node.inputs[2], {.count = channels, .rank = 2});
  }

  /// Those of [N, C, sizes...]; empty where not all are known.
  Ints spatial_sizes(const std::string& value) const {
    const auto shape = from_.shape_of(value);
    Ints sizes;
    for (std::size_t i = 2; shape && i < shape->size(); ++i) {
      if (!(*shape)[i].known()) return {};
      sizes.push_back((*shape)[i].size);
    }
    return sizes;
  }

  /// Empty, or why the node stays as it is.
  std::string lower_product(std::size_t i) {
    const Node node = without_pads(from_.nodes[i]);
    const auto input = coded_.find(node.inputs[0]);
    if (input == coded_.end()) return "its input is no quantizer's with one scale and up to eight bits";
    const Coded& x = input->second;
    const std::size_t rank = known_.weight_shape(node.inputs[1]).size();
    const graph::WeightedProduct product = *graph::weighted_product(node, rank);
    const bool convolves = product.is_convolution();
    if (!convolves && rank != 2) return "its weight has " + std::to_string(rank) + " axes";
    if (product.transposes_data) return "it transposes its input";
    auto weight = known_.weight_of(node.inputs[1], product.output_axis);
    if (!weight.ok()) return weight.failure().message;
    IntegerWeight& w = weight.value();
    const auto channels = static_cast<std::size_t>(product.outputs(known_.weight_shape(node.inputs[1])));
    std::optional<PhaseConvolution> phases;
    if (product.terms == graph::Terms::kTransposed) {
      auto made = phase_convolution(node, w, spatial_sizes(node.inputs[0]));
      if (!made.ok()) return made.failure().message;
      phases = std::move(made.value());
      w = std::move(phases->weight);
    }
    const auto bias = own_bias(node, channels);
    if (!bias) return "what it adds is no constant of its channels";

    std::vector<ChainStep> steps;
    const double alpha = node.float_or("alpha", 1), beta = node.float_or("beta", 1);  // of Gemm
    if (alpha != 1) steps.push_back({.kind = Kind::kMultiply, .numbers = {alpha}});
    std::vector<double> shift = *bias;
    for (double& b : shift) b *= beta;  // exact: both are float32
    if (!shift.empty()) steps.push_back({.kind = Kind::kAdd, .numbers = shift});
    std::vector<double> factors;
    for (const double scale : w.scales) factors.push_back(scale * x.quantizer.scale);

    std::vector<std::int32_t> least, most;
    if (!bound_sums(w, x.quantizer.low - x.quantizer.zero, x.quantizer.high - x.quantizer.zero, least, most))
      return "its sums pass 32 bits";
    const FollowedChain found = follow(
        known_, node.outputs[0],
        {.count = channels,
         .behind = convolves ? rank - 2 : 0,
         .rank = product.bias != graph::kNoInput ? std::optional(rank) : from_.rank_of(node.outputs[0])});
    std::vector<ChainStep> all = steps;
    all.insert(all.end(), found.steps.begin(), found.steps.end());
    if (phases) {
      all = phases->by_row(std::move(all));
      steps = phases->by_row(std::move(steps));
      shift = phases->by_row(shift);
    }
    const Node& computed = phases ? phases->convolution : node;
    const Node* const behind = phases ? &phases->phases : nullptr;
    Chain chain(factors, all);
    const bool pools_fall = !found.moves.empty() && falls_anywhere(chain);
    if (found.quantizer_node && chain.is_sound() && !pools_fall) {
      emit_thresholds(computed, behind, x, std::move(w), chain, found, least, most);
    } else if (Chain(factors, steps).is_sound()) {
      emit_floats(computed, behind, x, w, factors, alpha, shift, least, most);
    } else {
      return "its scales or what it adds are too large or too small";
    }
    made_.integers.push_back(node.name);
    return "";
  }

  /// A recurrent node of coded weights: its inputs' products are nodes in front of it, of integers where the
  /// inputs are codes, and the weights of its state stay packed. False where its weights are floats, or have
  /// both directions and are no integers.
  bool lower_recurrent(const Node& node) {
    if (!node.has_input(1) || !known_.is_coded_weight(node.inputs[1])) return false;
    const Ints shape = known_.weight_shape(node.inputs[1]);
    if (shape.size() != 3 || shape[0] < 1 || shape[0] > 2) return false;
    Node made = node;
    made.domain = std::string(kRuntimeDomain);
    if (!multiply_inputs(node, shape, made)) return false;
    const auto state = from_.quantized.find(node.inputs[2]);
    if (state != from_.quantized.end()) {
      if (auto matrix = as_matrix(state->second, {0, 1}))
        made.inputs[2] = made_graph_.add(node.inputs[2], *matrix);
    }
    for (std::size_t i = 3; i < made.inputs.size(); ++i) need_floats(made.inputs[i]);
    made_graph_.push(std::move(made));
    return true;
  }

  /// Adds the products of a recurrent node's inputs as inputs 0 and 1 of `made`. `shape`: of its weight.
  bool multiply_inputs(const Node& node, const Ints& shape, Node& made) {
    const auto directions = static_cast<std::size_t>(shape[0]), terms = static_cast<std::size_t>(shape[2]);
    made.inputs[1].clear();
    const auto x = coded_.find(node.inputs[0]);
    auto weight = known_.weight_of(node.inputs[1], 1);
    std::vector<std::int32_t> least, most;
    if (x != coded_.end() && weight.ok() &&
        bound_sums(weight.value(), x->second.quantizer.low - x->second.quantizer.zero,
                   x->second.quantizer.high - x->second.quantizer.zero, least, most)) {
      const IntegerWeight& all = weight.value();
      std::vector<double> factors;
      for (const double scale : all.scales) factors.push_back(scale * x->second.quantizer.scale);
      if (Chain(factors, {}).is_sound()) {
        for (std::size_t d = 0; d < directions; ++d) {
          made.inputs[d] = made_graph_.fresh(node.name + ".products");
          emit_floats(product_in_front(node, d, made.inputs[d]), nullptr, x->second,
                      of_direction(all, d, directions, terms), factors, 1, {}, least, most);
        }
        made_.integers.push_back(node.name);
        return true;
      }
    }
    const auto packed = from_.quantized.find(node.inputs[1]);
    const auto matrix = packed == from_.quantized.end() ? std::nullopt : as_matrix(packed->second, {1, 0});
    if (!matrix) return false;
    need_floats(node.inputs[0]);
    made.inputs[0] = made_graph_.fresh(node.name + ".products");
    Node product = product_in_front(node, 0, made.inputs[0]);
    product.inputs = {node.inputs[0], made_graph_.add(node.inputs[1], *matrix)};
    made_graph_.know(made.inputs[0], ElementType::kFloat, {});
    made_graph_.push(std::move(product));
    return true;
  }

  /// A product of two matrices of codes, which its sums leave as floats. False where it is none.
  bool lower_products(const Node& node) {
    if (node.inputs.size() != 2) return false;
    const auto x = coded_.find(node.inputs[0]), w = coded_.find(node.inputs[1]);
    if (x == coded_.end() || w == coded_.end()) return false;
    const UniformQuantizer &a = x->second.quantizer, &b = w->second.quantizer;
    const bool are_matrices =
        from_.rank_of(node.inputs[0]).value_or(0) >= 2 && from_.rank_of(node.inputs[1]).value_or(0) >= 2;
    const bool are_bytes = b.low - b.zero >= -128 && b.high - b.zero <= 127 && std::abs(a.zero) <= 255;
    if (!are_matrices || !are_bytes || x->second.type == ElementType::kUnknown ||
        w->second.type == ElementType::kUnknown)
      return false;
    Node made{.name = node.name,
              .op = "Products",
              .domain = std::string(kRuntimeDomain),
              .inputs = {x->second.codes, w->second.codes},
              .outputs = node.outputs,
              .attributes = {{"zero", std::int64_t{a.zero}},
                             {"least", std::int64_t{a.low}},
                             {"most", std::int64_t{a.high}},
                             {"other_zero", std::int64_t{b.zero}},
                             {"registers", "int32: codes times codes, sums of bytes"}},
              .metadata = node.metadata};
    made.inputs.push_back(made_graph_.add(
        node.name + ".factor", tensor_of(ElementType::kDouble, {1}, std::vector<double>{a.scale * b.scale})));
    made_graph_.push(std::move(made));
    made_.integers.push_back(node.name);
    return true;
  }

  static bool falls_anywhere(const Chain& chain) {
    for (std::size_t c = 0; c < chain.channels(); ++c) {
      if (chain.falls(c)) return true;
    }
    return false;
  }

  /// `behind`: the Phases of the product, or null.
  void emit_floats(const Node& node, const Node* behind, const Coded& x, const IntegerWeight& w,
                   std::vector<double> factors, double alpha, std::vector<double> shift,
                   const std::vector<std::int32_t>& least, const std::vector<std::int32_t>& most) {
    Node made = product_node(made_graph_, node, x, w, least, most);
    for (double& factor : factors) factor *= alpha;
    shift.resize(std::max<std::size_t>(shift.size(), 1), 0.0);
    if (shift.size() == 1) shift.resize(w.outputs(), shift[0]);
    const auto channels = static_cast<std::int64_t>(w.outputs());
    made.inputs.push_back(
        made_graph_.add(node.name + ".factors", tensor_of(ElementType::kDouble, {channels}, factors)));
    made.inputs.push_back(
        made_graph_.add(node.name + ".shifts", tensor_of(ElementType::kDouble, {channels}, shift)));
    emit_product(std::move(made), behind, node.outputs[0], ElementType::kFloat);
  }

  /// Adds a product that makes `output`, and its Phases.
  void emit_product(Node product, const Node* behind, const std::string& output, ElementType type) {
    product.outputs = {behind ? made_graph_.fresh(output + ".phases") : output};
    if (behind) {
      Node placed = *behind;
      placed.inputs = product.outputs;
      placed.outputs = {output};
      made_graph_.know(product.outputs[0], type, {});
      made_graph_.push(std::move(product));
      product = std::move(placed);
    }
    made_graph_.push(std::move(product));
  }

  void emit_thresholds(const Node& node, const Node* behind, const Coded& x, IntegerWeight w,
                       const Chain& chain, const FollowedChain& found, std::vector<std::int32_t>& least,
                       std::vector<std::int32_t>& most) {
    const StepFunctions functions = step_functions(chain, found.quantizer, w, least, most);
    Node made = product_node(made_graph_, node, x, w, least, most);
    const auto channels = static_cast<std::int64_t>(w.outputs());
    made.inputs.insert(made.inputs.end(), {"", "", "", ""});
    if (!functions.all_lines) {
      made.inputs[4] =
          made_graph_.add(node.name + ".thresholds",
                          tensor_of(ElementType::kInt32, {channels, std::int64_t{found.quantizer.steps()}},
                                    functions.thresholds));
    }
    if (functions.pieces > 0) {
      const auto pieces = static_cast<std::int64_t>(functions.pieces);
      made.inputs[5] = made_graph_.add(
          node.name + ".lines", tensor_of(ElementType::kDouble, {pieces, 5, channels}, functions.lines));
    }
    made.attributes["low"] = std::int64_t{found.quantizer.low};
    made.attributes["bipolar"] = std::int64_t{found.quantizer.bipolar};
    made.attributes["type"] = std::int64_t{graph::onnx_number(type_of(found.quantizer))};
    emit_with_moves(std::move(made), behind, found);
    for (const std::size_t absorbed : found.nodes) done_[absorbed] = true;
    for (const std::size_t move : found.moves) done_[move] = true;
    done_[*found.quantizer_node] = true;
    if (found.clip_node) done_[*found.clip_node] = true;
    made_.thresholds.push_back(node.name);
  }

  /// Adds a product that makes codes, and behind it the moves of its chain.
  void emit_with_moves(Node product, const Node* behind, const FollowedChain& found) {
    const Node& quantizer = from_.nodes[*found.quantizer_node];
    const bool is_linear = quantizer.is("QuantizeLinear");
    const ElementType type = type_of(found.quantizer);
    // QuantizeLinear's output are codes; behind Quant the codes get a name.
    const std::string& value =
        found.clip_node ? from_.nodes[*found.clip_node].outputs[0] : quantizer.outputs[0];
    const std::string codes = is_linear ? value : made_graph_.fresh(value + ".codes");
    std::string now = found.moves.empty() ? codes : made_graph_.fresh(value + ".sums");
    made_graph_.know(now, type, {});
    emit_product(std::move(product), behind, now, type);
    for (const std::size_t move : found.moves) {
      Node moved = from_.nodes[move];
      moved.inputs[0] = now;
      now = move == found.moves.back() ? codes : made_graph_.fresh(moved.outputs[0] + ".codes");
      moved.outputs = {now};
      made_graph_.know(now, type, {});
      made_graph_.push(std::move(moved));
    }
    if (is_linear) return;
    made_graph_.know(codes, type, value);
    coded_[value] = {.codes = codes, .quantizer = found.quantizer, .type = type};
  }

  // Codes.

  void emit_codes(const Node& node, const UniformQuantizer& quantizer) {
    const std::string& value = node.outputs[0];
    need_floats(node.inputs[0]);
    const ElementType type = type_of(quantizer);
    const std::string codes = made_graph_.fresh(value + ".codes");
    made_graph_.know(codes, type, value);
    made_graph_.push({.name = node.name.empty() ? value : node.name,
                      .op = "Codes",
                      .domain = std::string(kRuntimeDomain),
                      .inputs = {node.inputs[0]},
                      .outputs = {codes},
                      .attributes = {{"scale", static_cast<float>(quantizer.scale)},
                                     {"zero", std::int64_t{quantizer.zero}},
                                     {"low", std::int64_t{quantizer.low}},
                                     {"high", std::int64_t{quantizer.high}},
                                     {"bipolar", std::int64_t{quantizer.bipolar}},
                                     {"type", std::int64_t{graph::onnx_number(type)}}}});
    coded_[value] = {.codes = codes, .quantizer = quantizer, .type = type};
  }

  /// A Pad of codes adds the code of its constant. False where there is none.
  bool lower_pad(const Node& node) {
    const UniformQuantizer& quantizer = coded_.at(node.inputs[0]).quantizer;
    const KnownPad pad = known_pad(known_, node);
    padded_[node.outputs[0]] = {node.inputs[0], pad};
    const auto code = pad.fill ? exact_code(quantizer, *pad.fill) : std::nullopt;
    if (pad.is_constant && !code) return false;
    Node in_floats = node, in_codes = node;
    state_fill(in_floats, pad.fill.value_or(0));
    state_fill(in_codes, code.value_or(0));
    emit_move(in_floats, in_codes, coded_.at(node.inputs[0]));
    return true;
  }

  /// Codes that stand for the same values are joined as codes. False where others are among the inputs.
  bool lower_concat(const Node& node) {
    Coded joined = coded_.at(node.inputs[0]);
    UniformQuantizer& all = joined.quantizer;
    for (const std::string& input : node.inputs) {
      const auto found = coded_.find(input);
      if (found == coded_.end()) return false;
      const UniformQuantizer& own = found->second.quantizer;
      const bool is_same = own.scale == all.scale && own.zero == all.zero && own.bipolar == all.bipolar;
      if (!is_same || found->second.type != joined.type) return false;
      all.low = std::min(all.low, own.low);
      all.high = std::max(all.high, own.high);
    }
    emit_move(node, node, joined);
    return true;
  }

  /// States what a Pad adds as the attribute, which the operator takes in place of an input.
  static void state_fill(Node& pad, double fill) {
    if (pad.has_input(2)) pad.inputs[2].clear();
    pad.attributes["value"] = static_cast<float>(fill);
  }

  /// A convolution that takes what the Pads before it take, and adds their zeros itself; else the node.
  Node without_pads(Node node) const {
    const auto product = graph::weighted_product(node, 2);
    if (!product || product->terms != graph::Terms::kConvolution) return node;
    const std::size_t rank = known_.weight_shape(node.inputs[1]).size();
    for (auto pad = padded_.find(node.inputs[0]); pad != padded_.end(); pad = padded_.find(node.inputs[0])) {
      auto made = with_zeros_of(pad->second.second, node, rank);
      if (!made) break;
      node = std::move(*made);
      node.inputs[0] = pad->second.first;
    }
    return node;
  }

  /// Moves codes as `node` moves values. `moved`: the node where it takes codes; `result`: what it makes.
  void emit_move(const Node& node, Node moved, const Coded& result) {
    const std::string& value = node.outputs[0];
    const bool joins = node.is("Concat");
    for (std::size_t i = 0; i < moved.inputs.size(); ++i) {
      if (i == 0 || joins) {
        moved.inputs[i] = coded_.at(node.inputs[i]).codes;
      } else {
        need_floats(moved.inputs[i]);
      }
    }
    const std::string codes = made_graph_.fresh(value + ".codes");
    moved.outputs = {codes};
    made_graph_.know(codes, result.type, value);
    made_graph_.push(std::move(moved));
    movers_[codes] = node;
    coded_[value] = {.codes = codes, .quantizer = result.quantizer, .type = result.type};
  }

  /// Makes floats of codes where somebody takes the value itself.
  void need_floats(const std::string& value) {
    const auto found = coded_.find(value);
    if (found == coded_.end() || found->second.has_floats) return;
    found->second.has_floats = true;
    made_graph_.push({.name = value + ".floats",
                      .op = "Values",
                      .domain = std::string(kRuntimeDomain),
                      .inputs = {found->second.codes},
                      .outputs = {value},
                      .attributes = {{"scale", static_cast<float>(found->second.quantizer.scale)},
                                     {"zero", std::int64_t{found->second.quantizer.zero}}}});
  }

  const Graph from_;
  const Known known_;
  std::vector<bool> done_;
  Lowered made_;  ///< without its graph
  MadeGraph made_graph_;
  std::map<std::string, Coded> coded_;
  std::map<std::string, Node> movers_;  ///< by the codes that they make: nodes as they move floats
  std::map<std::string, std::pair<std::string, KnownPad>> padded_;  ///< outputs of Pads of codes: the input
};

}  // namespace

Lowered lower(Graph graph) {
  // A node without its first input or output is hardly one that a network has: such a graph is left as it is,
  // and what computes it says what is wrong.
  const auto is_usual = [](const Node& node) {
    return node.has_output(0) && (node.has_input(0) || node.is("Constant"));
  };
  if (!std::ranges::all_of(graph.nodes, is_usual))
    return {.graph = std::move(graph), .integers = {}, .thresholds = {}, .floats = {}};
  Lowered lowered = Lowering(std::move(graph)).run();
  lowered.weights = packed_weights(lowered.graph);
  return lowered;
}

}  // namespace crumb::runtime
