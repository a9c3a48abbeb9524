#include "analysis/accumulator/lay_out_weight.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "analysis/products.h"
#include "analysis/rows.h"
#include "graph/strided_index.h"

namespace crumb::analysis {
namespace {

using Ints = std::vector<std::int64_t>;

constexpr std::int64_t kMostStep = 1 << 20;  // of strides, of dilations, all axes together

/// The taps of a kernel that meet in one result of a ConvTranspose have one phase: a number for each.
std::uint32_t phase_of(const ProductLayer& layer, std::span<const std::int64_t> place) {
  std::int64_t phase = 0;
  for (std::size_t i = 0; i < layer.strides.size(); ++i) {
    phase = phase * layer.strides[i] + place[3 + i] * layer.dilations[i] % layer.strides[i];
  }
  return static_cast<std::uint32_t>(phase);
}

/// Axes as ProductLayer::weight_shape has them: channels first, and no transB. Nothing where they are so, or
/// where the node takes no weight of this rank.
std::optional<Ints> canonical_order(const graph::Node& node, std::size_t at, std::size_t rank) {
  Ints order(rank);
  std::iota(order.begin(), order.end(), 0);
  if (node.is("Conv", graph::kChannelsLastDomain)) {
    if (rank < 3) return {};
    std::rotate(order.begin() + 1, order.end() - 1, order.end());
    return order;
  }
  if (node.is("Gemm") && node.int_or(at == 1 ? "transB" : "transA", 0) != 0 && rank == 2) return Ints{1, 0};
  return {};
}

/// Codes as rows, and the parts of each.
void lay_out(const WeightCodes& weight, const WeightAxes& axes, ProductLayer& layer) {
  const RowOrder order(axes.shape, axes.summed);
  if (weight.codes.empty()) return;
  layer.channels = order.rows();
  layer.length = order.length();
  layer.codes.resize(weight.codes.size());
  const bool phases = std::ranges::any_of(layer.strides, [](std::int64_t stride) { return stride > 1; });
  std::vector<std::uint32_t> group(weight.group.empty() ? 0 : weight.codes.size());
  std::vector<std::uint32_t> phase(phases ? weight.codes.size() : 0);
  order.for_each([&](std::size_t i, std::size_t row, std::size_t term, std::span<const std::int64_t> place) {
    const std::size_t to = row * layer.length + term;
    layer.codes[to] = weight.codes[i];
    if (!group.empty()) group[to] = weight.group[i];
    if (phases) phase[to] = phase_of(layer, place);
  });
  layer.scale.assign(layer.channels, weight.scale.empty() ? 1.0 : weight.scale[0]);
  for (std::size_t c = 0; c < layer.channels && !group.empty(); ++c) {
    const auto row = std::span(group).subspan(c * layer.length, layer.length);
    layer.one_scale = layer.one_scale && std::ranges::all_of(row, [&](auto g) { return g == row[0]; });
    layer.scale[c] = weight.scale[row[0]];
  }
  if (layer.one_scale && !phases) return;
  layer.part.resize(layer.codes.size());
  for (std::size_t c = 0; c < layer.channels; ++c) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> met;
    for (std::size_t i = c * layer.length; i < (c + 1) * layer.length; ++i) {
      const std::pair key(layer.one_scale ? 0 : group[i], phases ? phase[i] : 0);
      layer.part[i] = met.emplace(key, static_cast<std::uint32_t>(met.size())).first->second;
    }
  }
}

/// The node as one whose weight's axes are known: b of a MatMul, Conv and so on.
graph::Node plain_product(const graph::Node& node, const graph::ProductRule& rule) {
  graph::Node plain = node;
  plain.domain = graph::kOnnxDomain;
  if (rule.terms == graph::Terms::kMatrix && !node.is("Gemm")) plain.op = "MatMul";
  if (rule.terms == graph::Terms::kConvolution) plain.op = "Conv";
  return plain;
}

bool is_sound(const Ints& steps, std::size_t spatial) {
  const bool fits = steps.size() == spatial && std::ranges::all_of(steps, [](std::int64_t step) {
                      return step >= 1 && step <= kMostStep;
                    });
  const auto product = fits ? graph::count_elements(steps) : Result<std::int64_t>(Failure{});
  return product.ok() && product.value() <= kMostStep;
}

/// Whether an operand of so many axes has these labels; '.' stands for any number of axes.
bool fits_labels(const std::string& labels, std::size_t rank) {
  const bool has_dots = labels.find('.') != std::string::npos;
  return has_dots ? rank + 1 >= labels.size() : rank == labels.size();
}

}  // namespace

std::string lay_out_weight(const graph::Node& node, const graph::ProductRule& rule, std::size_t at,
                           WeightCodes weight, ProductLayer& layer) {
  layer.unit = weight.unit;
  layer.weight_at = at;
  layer.weight_first = at == 0;
  graph::Node plain = plain_product(node, rule);
  if (const auto order = canonical_order(node, at, weight.shape.size())) {
    weight.codes = graph::permuted(weight.codes, weight.shape, *order);
    if (!weight.group.empty()) weight.group = graph::permuted(weight.group, weight.shape, *order);
    weight.shape = graph::permuted_shape(weight.shape, *order);
    plain.attributes.erase(at == 1 ? "transB" : "transA");
  }
  if (rule.terms == graph::Terms::kGates || rule.terms == graph::Terms::kEquation) {
    WeightAxes axes{.shape = weight.shape, .summed = std::vector<bool>(weight.shape.size(), false)};
    if (rule.terms == graph::Terms::kGates) {
      if (!axes.summed.empty()) axes.summed.back() = true;
    } else {
      const auto contraction = contraction_of(node);
      if (!contraction.ok()) {
        return contraction.failure().message;
      }
      const std::string& labels = at == 0 ? contraction.value().a : contraction.value().b;
      if (!fits_labels(labels, weight.shape.size()))
        return "its weight is " + graph::text_of(weight.shape) + ", which does not fit its equation";
      axes.summed = contraction.value().summed_axes(labels, weight.shape.size());
    }
    lay_out(weight, axes, layer);
    layer.weight_shape = {static_cast<std::int64_t>(layer.length), static_cast<std::int64_t>(layer.channels)};
    layer.weight_first = false;
    return {};
  }
  const auto axes = weight_axes(plain, weight.shape, at);
  if (!axes) return "its weight is no operand of its kind";
  const std::int64_t groups = node.int_or("group", 1);
  const bool is_convolution =
      rule.terms == graph::Terms::kConvolution || rule.terms == graph::Terms::kTransposed;
  if (is_convolution && (groups < 1 || weight.shape[0] % groups != 0))
    throw Error(text_of(node) + ": " + std::to_string(weight.shape[0]) + " channels are no " +
                std::to_string(groups) + " equal groups");
  if (rule.terms == graph::Terms::kTransposed) {
    layer.kind = ProductLayer::Kind::kTransposed;
    layer.groups = axes->shape[0];
    const std::size_t spatial = weight.shape.size() - 2;
    layer.strides = node.ints_or("strides", Ints(spatial, 1));
    layer.dilations = node.ints_or("dilations", Ints(spatial, 1));
    if (!is_sound(layer.strides, spatial) || !is_sound(layer.dilations, spatial)) {
      throw Error(text_of(node) + ": strides or dilations do not fit a weight of the shape " +
                  graph::text_of(weight.shape));
    }
  } else if (rule.terms == graph::Terms::kConvolution) {
    layer.kind = ProductLayer::Kind::kConvolution;
    layer.groups = groups;
  }
  layer.weight_shape = axes->shape;
  lay_out(weight, *axes, layer);
  return {};
}

}  // namespace crumb::analysis
