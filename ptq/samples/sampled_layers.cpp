#include "ptq/samples/sampled_layers.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/threads/parallel.h"
#include "graph/adapters.h"
#include "graph/choose.h"
#include "graph/operator_traits.h"
#include "graph/weighted_product.h"

namespace crumb::ptq {
namespace {

using graph::Graph;
using graph::Node;
using graph::Tensor;
using Sizes = std::vector<std::int64_t>;

std::int64_t product_of(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

std::optional<SampledLayer> convolution(const Graph& graph, std::size_t index) {
  const Node& node = graph.nodes[index];
  if (!graph::is_convolution(node) || !node.has_input(1)) return std::nullopt;
  const Tensor* weight = graph.constant(node.inputs[1]);
  const graph::WeightedProduct product = *graph::weighted_product(node, 3);
  const std::int64_t groups = product.groups;
  if (!weight || product.terms == graph::Terms::kTransposed || weight->rank() < 3 || weight->size() == 0 ||
      groups < 1 || weight->shape()[0] % groups != 0)
    return std::nullopt;
  return SampledLayer{.node = index,
                      .input = node.inputs[0],
                      .groups = static_cast<std::size_t>(groups),
                      .rows = static_cast<std::size_t>(weight->shape()[0] / groups),
                      .columns = static_cast<std::size_t>(weight->size() / weight->shape()[0]),
                      .is_window = true};
}

/// Returns indices of the plan's constants that become codes, by name.
std::map<std::string, std::size_t> planned_constants(const graph::QuantPlan& plan, bool open) {
  std::map<std::string, std::size_t> planned;
  for (std::size_t i = 0; i < plan.constants.size(); ++i)
    if (plan.constants[i].spec && !(open && plan.constants[i].rounded)) planned[plan.constants[i].value] = i;
  return planned;
}

/// Where layers lie: outside of branches, or in one.
enum class Where : std::uint8_t { kOutside, kInBranch };

bool lies(Where where, const graph::Sides& sides, std::size_t node) {
  return sides.is_on_one(node) == (where == Where::kInBranch);
}

std::vector<SampledLayer> sampled_layers_at(Where where, const Graph& graph, const graph::QuantPlan& plan,
                                            bool open) {
  const std::map<std::string, std::size_t> planned = planned_constants(plan, open);
  const graph::Links links(graph);
  std::map<std::size_t, SampledLayer> found;  // by node
  for (const graph::LinearProduct& product : graph::linear_products(graph))
    found[product.node] = {.node = product.node,
                           .input = graph.nodes[product.node].inputs[0],
                           .rows = product.out,
                           .columns = product.in};
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (const auto layer = convolution(graph, i)) found[i] = *layer;
  std::vector<SampledLayer> layers;
  const graph::Sides sides(graph, graph.outputs);
  for (auto& [index, layer] : found) {
    if (!lies(where, sides, index)) continue;
    const std::string& weight = graph.nodes[index].inputs[1];
    const auto constant = planned.find(weight);
    if (constant == planned.end() || links.consumers(weight).size() != 1 || layer.columns == 0 ||
        layer.rows == 0)
      continue;
    layer.constant = constant->second;
    layers.push_back(layer);
  }
  return layers;
}

std::vector<SampledLayer> recurrent_layers_at(Where where, const Graph& graph, const graph::QuantPlan& plan) {
  const std::map<std::string, std::size_t> planned = planned_constants(plan, true);
  const graph::Links links(graph);
  const graph::Sides sides(graph, graph.outputs);
  std::vector<SampledLayer> layers;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (!graph::is_any(node, graph::trait::kRecurrent) || !lies(where, sides, i)) continue;
    const auto add = [&](std::size_t weight, const std::string& input) {
      const auto constant = planned.find(node.inputs[weight]);
      if (constant == planned.end() || links.consumers(node.inputs[weight]).size() != 1) return;
      const Tensor* matrix = graph.constant(node.inputs[weight]);
      if (!matrix || matrix->rank() != 3 || matrix->shape()[0] != 1 || matrix->size() == 0) return;
      layers.push_back({.constant = constant->second,
                        .node = i,
                        .input = input,
                        .rows = static_cast<std::size_t>(matrix->shape()[1]),
                        .columns = static_cast<std::size_t>(matrix->shape()[2])});
    };
    if (node.has_input(1)) add(1, node.inputs[0]);
    const bool takes_state = !node.is("GRU") || node.int_or("linear_before_reset", 0) != 0;
    if (node.has_input(2) && node.has_output(0) && takes_state) add(2, node.outputs[0]);
  }
  return layers;
}

}  // namespace

bool SampledLayer::takes_like(const SampledLayer& other, const Graph& graph) const {
  if (input != other.input || is_window != other.is_window || columns != other.columns ||
      groups != other.groups)
    return false;
  if (!is_window) return true;
  const Node &mine = graph.nodes[node], &theirs = graph.nodes[other.node];
  const Sizes a = graph.constant(mine.inputs[1])->shape(), b = graph.constant(theirs.inputs[1])->shape();
  return mine.attributes == theirs.attributes && std::equal(a.begin() + 1, a.end(), b.begin() + 1, b.end());
}

std::vector<SampledLayer> sampled_layers(const Graph& graph, const graph::QuantPlan& plan, bool open) {
  return sampled_layers_at(Where::kOutside, graph, plan, open);
}

std::vector<SampledLayer> recurrent_layers(const Graph& graph, const graph::QuantPlan& plan) {
  return recurrent_layers_at(Where::kOutside, graph, plan);
}

std::vector<SampledLayer> branch_layers(const Graph& graph, const graph::QuantPlan& plan) {
  std::vector<SampledLayer> layers = sampled_layers_at(Where::kInBranch, graph, plan, true);
  std::ranges::move(recurrent_layers_at(Where::kInBranch, graph, plan), std::back_inserter(layers));
  return layers;
}

std::vector<SampledLayer> open_layers(const Graph& graph, const graph::QuantPlan& plan) {
  std::vector<SampledLayer> layers = sampled_layers(graph, plan);
  std::ranges::move(recurrent_layers(graph, plan), std::back_inserter(layers));
  return layers;
}

BroughtSamples::BroughtSamples(const Node& node, const Graph& graph, const SampledLayer& layer,
                               const Tensor& value)
    : size_(layer.columns), groups_(layer.groups) {
  if (!layer.is_window) {
    if (value.rank() < 1 || value.shape().back() != static_cast<std::int64_t>(layer.columns))
      throw Error(text_of(node) + " takes a value of shape " + graph::text_of(std::span(value.shape())) +
                  ", expected " + std::to_string(layer.columns) + " numbers along its last axis");
    values_ = value.to_floats();
    samples_ = values_.size() / size_;
    return;
  }
  const Sizes weight = graph.constant(node.inputs[1])->shape(), kernel(weight.begin() + 2, weight.end());
  if (value.rank() != static_cast<std::int64_t>(weight.size()) ||
      value.shape()[1] != weight[1] * static_cast<std::int64_t>(layer.groups))
    throw Error(text_of(node) + " takes a value of shape " + graph::text_of(std::span(value.shape())) +
                ", which does not fit its weight");
  const Sizes input(value.shape().begin() + 2, value.shape().end());
  window_ = graph::window_of(node, input, kernel);
  values_ = value.to_floats();
  parts_ = static_cast<std::size_t>(value.shape()[0]);
  channels_ = static_cast<std::size_t>(weight[1]);
  plane_ = static_cast<std::size_t>(product_of(input));
  taps_ = static_cast<std::size_t>(product_of(kernel));
  samples_ = static_cast<std::size_t>(product_of(window_->output));
}

std::size_t BroughtSamples::block_of(std::size_t columns) {
  constexpr std::size_t kNumbers = std::size_t{1} << 22;
  return std::max(kNumbers / std::max<std::size_t>(columns, 1) / kSamplesAdded, std::size_t{1}) *
         kSamplesAdded;
}

SampleColumns BroughtSamples::read(std::size_t part, std::size_t group, std::size_t begin, std::size_t count,
                                   std::vector<float>& columns, int threads) {
  columns.resize(size_ * count);
  if (!window_) {
    read_rows(begin, count, columns, threads);
    return {columns, count};
  }
  find_offsets(begin, count);
  for (std::size_t channel = 0; channel < channels_; ++channel) {
    const float* from = values_.data() + ((part * groups_ + group) * channels_ + channel) * plane_;
    float* to = columns.data() + channel * taps_ * count;
    for (std::size_t i = 0; i < taps_ * count; ++i) to[i] = offsets_[i] < 0 ? 0.0F : from[offsets_[i]];
  }
  return {columns, count};
}

/// Reads rows as columns, a tile at a time.
void BroughtSamples::read_rows(std::size_t begin, std::size_t count, std::vector<float>& columns,
                               int threads) const {
  const float* values = values_.data() + begin * size_;
  constexpr std::size_t kTile = 16;
  parallel_for(size_, 4 * kTile, threads, [&](std::size_t first, std::size_t last) {
    for (std::size_t r = 0; r < count; r += kTile)
      for (std::size_t c = first; c < last; c += kTile)
        for (std::size_t column = c; column < std::min(last, c + kTile); ++column)
          for (std::size_t row = r; row < std::min(count, r + kTile); ++row)
            columns[column * count + row] = values[row * size_ + column];
  });
}

void BroughtSamples::find_offsets(std::size_t begin, std::size_t count) {
  if (first_ == begin && count_ == count) return;
  first_ = begin;
  count_ = count;
  const std::size_t axes = window_->axes();
  std::vector<std::int64_t> starts(axes * count), taps(axes), strides(axes, 1);
  for (std::size_t axis = axes - 1; axis > 0; --axis)
    strides[axis - 1] = strides[axis] * window_->input[axis];
  for (std::size_t i = 0; i < count; ++i) {
    auto rest = static_cast<std::int64_t>(begin + i);
    for (std::size_t axis = axes; axis-- > 0; rest /= window_->output[axis])
      starts[axis * count + i] = rest % window_->output[axis] * window_->strides[axis] - window_->begin[axis];
  }
  offsets_.resize(taps_ * count);
  for (std::size_t tap = 0; tap < taps_; ++tap) {
    auto rest = static_cast<std::int64_t>(tap);
    for (std::size_t axis = axes; axis-- > 0; rest /= window_->kernel[axis])
      taps[axis] = rest % window_->kernel[axis] * window_->dilations[axis];
    for (std::size_t i = 0; i < count; ++i) {
      std::int64_t offset = 0;
      for (std::size_t axis = 0; axis < axes && offset >= 0; ++axis) {
        const std::int64_t in = starts[axis * count + i] + taps[axis];
        offset = in < 0 || in >= window_->input[axis] ? -1 : offset + in * strides[axis];
      }
      offsets_[tap * count + i] = offset;
    }
  }
}

void visit_samples(const Node& node, const Graph& graph, const SampledLayer& layer, const Tensor& value,
                   const std::function<void(std::size_t, const SampleColumns&)>& visit) {
  BroughtSamples brought(node, graph, layer, value);
  const std::size_t block = BroughtSamples::block_of(layer.columns);
  std::vector<float> columns;
  for (std::size_t part = 0; part < brought.parts(); ++part)
    for (std::size_t group = 0; group < layer.groups; ++group)
      for (std::size_t begin = 0; begin < brought.samples(); begin += block)
        visit(group, brought.read(part, group, begin, std::min(block, brought.samples() - begin), columns));
}

}  // namespace crumb::ptq
