#include "runtime/lower/follow.h"

#include <algorithm>
#include <cmath>

#include "graph/operator_traits.h"

namespace crumb::runtime {
namespace {

using graph::ElementType;
using graph::Node;
using graph::Tensor;
using Ints = std::vector<std::int64_t>;
using Kind = ChainStep::Kind;

/// A clip's limit, where the node has it.
double limit(double x) {
  return std::fabs(x) >= 0x1p64 ? std::copysign(std::numeric_limits<double>::infinity(), x) : x;
}

std::optional<ChainStep> clip_of(const Known& known, const Node& node) {
  ChainStep step{.kind = Kind::kClip, .numbers = {0}};
  if (node.version < 11) {
    step.low = limit(node.float_or("min", -INFINITY));
    step.high = limit(node.float_or("max", INFINITY));
    return step;
  }
  for (const std::size_t i : {1u, 2u}) {
    if (!node.has_input(i)) continue;
    const auto found = known.number(node, i);
    if (!found) return std::nullopt;
    (i == 1 ? step.low : step.high) = limit(*found);
  }
  return step;
}

/// (x - mean) * factor + bias, the factor rounded to float32 as it is in float.
std::optional<std::vector<ChainStep>> batch_norm_of(const Known& known, const Node& node,
                                                    const ProductChannels& channels) {
  const bool is_channel_axis = channels.rank == channels.behind + 2;
  if (!is_channel_axis || node.inputs.size() != 5 || node.int_or("training_mode", 0) != 0 ||
      node.int_or("spatial", 1) == 0)
    return std::nullopt;
  std::vector<double> of[4];
  for (std::size_t i = 0; i < 4; ++i) {
    const auto found = operand(known, node.inputs[i + 1], {.count = channels.count});
    if (!found || found->size() != channels.count) return std::nullopt;
    of[i] = *found;
  }
  const float epsilon = node.float_or("epsilon", 1e-5F);
  std::vector<double> factors(channels.count), means(channels.count);
  for (std::size_t c = 0; c < channels.count; ++c) {
    factors[c] = static_cast<float>(of[0][c]) / std::sqrt(static_cast<float>(of[3][c]) + epsilon);
    means[c] = -of[2][c];
  }
  return std::vector<ChainStep>{{.kind = Kind::kAdd, .numbers = means},
                                {.kind = Kind::kMultiply, .numbers = factors},
                                {.kind = Kind::kAdd, .numbers = of[1]}};
}

/// The steps of one node whose input is `value`; nothing where it is none of a chain.
std::optional<std::vector<ChainStep>> steps_of(const Known& known, const Node& node, const std::string& value,
                                               const ProductChannels& channels) {
  const auto one = [](ChainStep step) { return std::vector<ChainStep>{std::move(step)}; };
  if (node.domain != graph::kOnnxDomain || node.has_output(1)) return std::nullopt;
  if (node.op == "Relu") return one({.kind = Kind::kClip, .numbers = {0}, .low = 0});
  if (node.op == "Identity") return std::vector<ChainStep>();
  if (node.op == "LeakyRelu") return one({.kind = Kind::kLeaky, .numbers = {node.float_or("alpha", 0.01F)}});
  if (node.op == "Clip") {
    const auto clip = clip_of(known, node);
    return clip ? std::optional(one(*clip)) : std::nullopt;
  }
  if (node.op == "BatchNormalization") return batch_norm_of(known, node, channels);
  const bool commutes = node.op == "Add" || node.op == "Mul";
  if ((!commutes && node.op != "Sub" && node.op != "Div") || node.inputs.size() != 2 || node.version < 7)
    return std::nullopt;
  const std::size_t place = node.inputs[0] == value ? 0 : 1;
  const auto other = operand(known, node.inputs[1 - place], channels);
  if (!other || (place == 1 && node.op == "Div")) return std::nullopt;
  if (node.op == "Mul") return one({.kind = Kind::kMultiply, .numbers = *other});
  if (node.op == "Div") return one({.kind = Kind::kDivide, .numbers = *other});
  std::vector<double> added = *other;
  if (node.op == "Sub" && place == 0) std::ranges::for_each(added, [](double& x) { x = -x; });
  std::vector<ChainStep> steps;
  if (node.op == "Sub" && place == 1) steps.push_back({.kind = Kind::kMultiply, .numbers = {-1}});
  steps.push_back({.kind = Kind::kAdd, .numbers = std::move(added)});
  return steps;
}

/// Moves that thresholds are put before. Behind others the quantizer rounds floats. What steers them must be
/// there already: the product's codes are moved where the product stands.
bool is_between(const Known& known, const Node& node) {
  const bool moves =
      graph::is_any(node, graph::trait::kReshapes) || node.is("Transpose") || node.is("MaxPool");
  return moves && moves_codes(node) &&
         std::all_of(node.inputs.begin() + 1, node.inputs.end(),
                     [&](const auto& other) { return other.empty() || known.constant(other); });
}

}  // namespace

bool moves_codes(const Node& node) {
  if (node.domain != graph::kOnnxDomain || node.has_output(1)) return false;
  if (node.is("Resize") || node.is("Upsample")) {
    // Another coordinate than these may lie outside, where Resize puts a number of its own.
    return node.text_or("mode", "nearest") == "nearest" &&
           node.text_or("coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize";
  }
  if (node.is("GlobalMaxPool") || node.is("ReverseSequence")) return false;  // whose kernels take no codes
  return graph::is_any(node, graph::trait::kMoves) || node.is("Slice") || node.is("Gather");
}

std::optional<std::vector<double>> operand(const Known& known, const std::string& value,
                                           const ProductChannels& channels) {
  const Tensor* tensor = known.constant(value);
  if (!tensor || tensor->type() != ElementType::kFloat) return std::nullopt;
  const std::vector<float> floats = tensor->to_floats();
  const Ints& shape = tensor->shape();
  if (shape.size() > channels.rank.value_or(1)) return std::nullopt;  // the value would get more axes
  if (floats.size() != 1) {
    if (floats.size() != channels.count || shape.size() <= channels.behind ||
        shape[shape.size() - 1 - channels.behind] != static_cast<std::int64_t>(channels.count))
      return std::nullopt;
  }
  return std::vector<double>(floats.begin(), floats.end());
}

FollowedChain follow(const Known& known, const std::string& value, ProductChannels channels) {
  FollowedChain found{.value = value};
  bool moved = false;  // channels may lie elsewhere now, and elements of several may be compared
  for (std::optional<std::size_t> next = known.only_consumer(value); next;
       next = known.only_consumer(found.value)) {
    const Node& node = known.graph().nodes[*next];
    if (node.inputs.empty() || node.outputs.empty()) break;
    if (node.inputs[0] == found.value) {
      if (node.is("QuantizeLinear") && node.int_or("block_size", 0) == 0 &&
          node.int_or("output_dtype", 0) == 0 && node.has_input(2)) {
        if (const auto quantizer = known.linear_quantizer(node, ElementType::kUnknown)) {
          found.quantizer_node = next;
          found.quantizer = *quantizer;
          if (const auto clip = known.clip_of_codes(node.outputs[0])) {
            found.clip_node = clip->node;
            found.quantizer = narrowed(found.quantizer, clip->range);
          }
          return found;
        }
        break;
      }
      if (const auto quantizer = known.quantizer_of(node)) {
        found.quantizer_node = next;
        found.quantizer = *quantizer;
        return found;
      }
    }
    if (is_between(known, node) && node.inputs[0] == found.value) {
      moved = true;
      channels.rank = known.graph().rank_of(node.outputs[0]);
      found.moves.push_back(*next);
      found.value = node.outputs[0];
      continue;
    }
    const auto steps = steps_of(known, node, found.value, channels);
    if (!steps) break;
    const auto is_simple = [&](const ChainStep& step) {
      const bool scales = step.kind == Kind::kMultiply || step.kind == Kind::kDivide;
      return step.numbers.size() == 1 && (!scales || step.numbers[0] > 0);
    };
    if (moved && !std::ranges::all_of(*steps, is_simple)) break;
    found.steps.insert(found.steps.end(), steps->begin(), steps->end());
    found.nodes.push_back(*next);
    found.value = node.outputs[0];
  }
  return found;
}

}  // namespace crumb::runtime
