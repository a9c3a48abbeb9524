#include "ptq/sampled_layers.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "graph/adapters.h"
#include "graph/window.h"

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
  if (!node.is("Conv") || !node.has_input(1)) return std::nullopt;
  const Tensor* weight = graph.constant(node.inputs[1]);
  const std::int64_t groups = node.int_or("group", 1);
  if (!weight || weight->rank() < 3 || weight->size() == 0 || groups < 1 || weight->shape()[0] % groups != 0)
    return std::nullopt;
  return SampledLayer{.node = index,
                      .input = node.inputs[0],
                      .groups = static_cast<std::size_t>(groups),
                      .rows = static_cast<std::size_t>(weight->shape()[0] / groups),
                      .columns = static_cast<std::size_t>(weight->size() / weight->shape()[0]),
                      .is_window = true};
}

/// [rows, size] to columns, a part at a time.
void visit_rows(const Tensor& value, std::size_t size,
                const std::function<void(std::size_t, const SampleColumns&)>& visit) {
  const std::vector<float> values = value.to_floats();
  const std::size_t rows = size == 0 ? 0 : values.size() / size;
  std::vector<float> turned(values.size());
  constexpr std::size_t kTile = 16;
  for (std::size_t r = 0; r < rows; r += kTile)
    for (std::size_t c = 0; c < size; c += kTile)
      for (std::size_t column = c; column < std::min(size, c + kTile); ++column)
        for (std::size_t row = r; row < std::min(rows, r + kTile); ++row)
          turned[column * rows + row] = values[row * size + column];
  visit(0, {turned, rows});
}

/// One image's windows at a time.
void visit_windows(const Node& node, const Sizes& weight, const SampledLayer& layer, const Tensor& value,
                   const std::function<void(std::size_t, const SampleColumns&)>& visit) {
  const Sizes kernel(weight.begin() + 2, weight.end());
  if (value.rank() != static_cast<std::int64_t>(weight.size()) ||
      value.shape()[1] != weight[1] * static_cast<std::int64_t>(layer.groups))
    throw Error(text_of(node) + " takes a value of shape " + graph::text_of(std::span(value.shape())) +
                ", which does not fit its weight");
  const Sizes input(value.shape().begin() + 2, value.shape().end());
  const graph::Window window = graph::window_of(node, input, kernel);
  const std::vector<float> values = value.to_floats();
  const auto plane = static_cast<std::size_t>(product_of(input)),
             channels = static_cast<std::size_t>(weight[1]);
  const auto taps = static_cast<std::size_t>(product_of(kernel)),
             places = static_cast<std::size_t>(product_of(window.output));
  // Where each tap of each place lies in a plane; -1 in the padding.
  std::vector<std::int64_t> at(taps * places);
  for (std::size_t tap = 0; tap < taps; ++tap) {
    for (std::size_t place = 0; place < places; ++place) {
      std::int64_t offset = 0, stride = 1;
      auto rest_tap = static_cast<std::int64_t>(tap), rest_place = static_cast<std::int64_t>(place);
      for (std::size_t axis = window.axes(); axis-- > 0;) {
        const std::int64_t k = rest_tap % kernel[axis], out = rest_place % window.output[axis];
        rest_tap /= kernel[axis];
        rest_place /= window.output[axis];
        const std::int64_t in = out * window.strides[axis] + k * window.dilations[axis] - window.begin[axis];
        offset = offset < 0 || in < 0 || in >= input[axis] ? -1 : offset + in * stride;
        stride *= input[axis];
      }
      at[tap * places + place] = offset;
    }
  }
  std::vector<float> columns(channels * taps * places);
  for (std::int64_t image = 0; image < value.shape()[0]; ++image) {
    for (std::size_t group = 0; group < layer.groups; ++group) {
      for (std::size_t channel = 0; channel < channels; ++channel) {
        const float* from =
            values.data() +
            ((static_cast<std::size_t>(image) * layer.groups + group) * channels + channel) * plane;
        float* to = columns.data() + channel * taps * places;
        for (std::size_t i = 0; i < taps * places; ++i) to[i] = at[i] < 0 ? 0.0F : from[at[i]];
      }
      visit(group, {columns, places});
    }
  }
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
  std::map<std::string, std::size_t> planned;
  for (std::size_t i = 0; i < plan.constants.size(); ++i)
    if (plan.constants[i].spec && !(open && plan.constants[i].rounded)) planned[plan.constants[i].value] = i;
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
  for (auto& [index, layer] : found) {
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

void visit_samples(const Node& node, const Graph& graph, const SampledLayer& layer, const Tensor& value,
                   const std::function<void(std::size_t, const SampleColumns&)>& visit) {
  if (layer.is_window)
    return visit_windows(node, graph.constant(node.inputs[1])->shape(), layer, value, visit);
  if (value.rank() < 1 || value.shape().back() != static_cast<std::int64_t>(layer.columns))
    throw Error(text_of(node) + " takes a value of shape " + graph::text_of(std::span(value.shape())) +
                ", expected " + std::to_string(layer.columns) + " numbers along its last axis");
  visit_rows(value, layer.columns, visit);
}

}  // namespace crumb::ptq
