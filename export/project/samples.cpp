#include "export/project/samples.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "base/error.h"
#include "base/files/text.h"
#include "export/lint/subject.h"
#include "graph/operator_traits.h"
#include "graph/strided_index.h"

namespace crumb::exporting {
namespace {

constexpr std::size_t kDrawn = 48, kOfEnds = 14;  // and the least, and the greatest
constexpr std::size_t kMostChannels = 32;         // of a layer, whose sums are driven
constexpr double kBeyond = 1.25;                  // of the range, so that some samples saturate

/// Without std::uniform_*_distribution, whose numbers are the library's own choice.
double drawn(std::mt19937_64& engine) { return static_cast<double>(engine() >> 11) * 0x1p-53; }

/// Whether each element of what the node makes is one of its first input's, quantized, scaled or shifted.
bool keeps_places(const graph::Graph& graph, const graph::Node& node) {
  if (is_any(node, graph::trait::kArithmetic)) {
    const graph::Tensor* number = constant_input(graph, node, 1);
    return number && number->size() == 1;
  }
  return node.is("Reshape") || node.is("Flatten") || is_thresholds(node) || graph::is_quantizer(node);
}

/// Values that hold an input's elements as they are, quantized, in another order: by name, which of the
/// input's elements each is, in the value's shape.
std::map<std::string, graph::Tensor> moved_values(const graph::Graph& graph, const std::string& input) {
  const auto shape_of = [&](const std::string& value) {
    std::vector<std::int64_t> shape;
    for (const graph::Dim& dim : *graph.find(value)->shape) shape.push_back(dim.size);
    return shape;
  };
  const std::vector<std::int64_t> shape = shape_of(input);
  std::vector<std::int64_t> places(static_cast<std::size_t>(graph::count_elements(shape).take()));
  std::iota(places.begin(), places.end(), std::int64_t{0});
  std::map<std::string, graph::Tensor> moved;
  moved.emplace(input, graph::Tensor::ints(shape, places));
  for (const graph::Node& node : graph.nodes) {
    const auto found = node.has_input(0) ? moved.find(node.inputs[0]) : moved.end();
    const graph::Value* made = node.has_output(0) ? graph.find(node.outputs[0]) : nullptr;
    if (found == moved.end() || !made || !made->is_static()) continue;
    if (node.is("Transpose")) {
      const auto perm = node.ints_or("perm", {});
      if (graph::is_permutation(perm, found->second.shape().size()))
        moved.emplace(node.outputs[0], graph::transposed(found->second, perm));
    } else if (keeps_places(graph, node)) {
      moved.emplace(node.outputs[0], found->second.reshaped(shape_of(node.outputs[0])));
    }
  }
  return moved;
}

/// For each term of a channel, the index into the layer's input in one window inside of it; -1 where the term
/// is padding.
std::vector<std::ptrdiff_t> places_of(const graph::Node& node, const analysis::ProductLayer& layer,
                                      const graph::Tensor& input, std::size_t channel) {
  std::vector<std::ptrdiff_t> places(layer.length);
  std::iota(places.begin(), places.end(), std::ptrdiff_t{0});
  if (layer.kind == analysis::ProductLayer::Kind::kMatrix) return places;
  const std::size_t axes = layer.weight_shape.size() - 2;
  const auto ones = std::vector<std::int64_t>(axes, 1);
  const auto pads = node.ints_or("pads", std::vector<std::int64_t>(2 * axes, 0)),
             strides = node.ints_or("strides", ones), dilations = node.ints_or("dilations", ones);
  const auto groups = static_cast<std::int64_t>(layer.groups), each = layer.weight_shape[1];
  const std::int64_t group =
      static_cast<std::int64_t>(channel) / std::max<std::int64_t>(layer.weight_shape[0] / groups, 1);
  const bool is_last = node.domain == kChannelsLastDomain;
  const std::size_t first_axis = is_last ? 1 : 2;
  const std::int64_t channels = input.shape()[is_last ? axes + 1 : 1];
  for (std::size_t term = 0; term < places.size(); ++term) {
    auto rest = static_cast<std::int64_t>(term);
    std::vector<std::int64_t> tap(axes);
    for (std::size_t axis = axes; axis-- > 0;) {
      tap[axis] = rest % layer.weight_shape[axis + 2];
      rest /= layer.weight_shape[axis + 2];
    }
    std::int64_t at = 0, windows = 1;
    bool is_padding = false;
    for (std::size_t axis = 0; axis < axes; ++axis) {
      const std::int64_t first =
          (pads[axis] + strides[axis] - 1) / strides[axis];  // the first window without padding
      const std::int64_t place = first * strides[axis] - pads[axis] + tap[axis] * dilations[axis];
      const std::int64_t size = input.shape()[first_axis + axis];
      is_padding |= place >= size;
      at = at * size + place;
      windows *= size;
    }
    const std::int64_t from = group * each + rest;
    places[term] =
        is_padding ? -1 : static_cast<std::ptrdiff_t>(is_last ? at * channels + from : from * windows + at);
  }
  return places;
}

/// Samples that take the sums of the layers on an input as far as they go, both ways, for the first 32
/// channels. All other elements are as near to 0 as they come.
void append_worst(const graph::Graph& graph, const analysis::GivenRanges& given, const std::string& input,
                  const InputSpan& range, std::vector<float>& values, std::int64_t& samples) {
  const auto moved = moved_values(graph, input);
  const analysis::ProductLayers layers(graph, given);
  const auto still = static_cast<float>(std::clamp(0.0, range.low, range.high));
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const analysis::ProductLayer layer = layers.layer(l);
    const auto found = moved.find(layer.input);
    if (found == moved.end() || !layer.failure().empty() || !layer.has_codes() || layer.weight_first)
      continue;
    const std::vector<std::int64_t> from = found->second.to_ints();  // of the network's input
    const std::size_t elements = from.size();
    if (layer.kind == analysis::ProductLayer::Kind::kTransposed) continue;
    if (layer.kind == analysis::ProductLayer::Kind::kMatrix && layer.length != elements) continue;
    for (std::size_t c = 0; c < std::min(layer.channels, kMostChannels); ++c) {
      const auto places = places_of(layers.node(l), layer, found->second, c);
      for (const double sign : {1.0, -1.0}) {
        std::vector<float> sample(elements, still);
        for (std::size_t term = 0; term < layer.length; ++term) {
          const double code = sign * static_cast<double>(layer.codes[c * layer.length + term]);
          if (places[term] < 0 || code == 0) continue;
          sample[static_cast<std::size_t>(from[static_cast<std::size_t>(places[term])])] =
              static_cast<float>(code > 0 ? range.high : range.low);
        }
        values.insert(values.end(), sample.begin(), sample.end());
        ++samples;
      }
    }
  }
}

}  // namespace

std::vector<graph::Tensor> sample_inputs(const graph::Graph& graph,
                                         const std::map<std::string, InputSpan>& spans,
                                         const analysis::GivenRanges& given) {
  std::mt19937_64 engine(1);
  std::vector<graph::Tensor> inputs;
  for (const std::string& name : graph.inputs) {
    const auto span = spans.find(name);
    const graph::Value* value = graph.find(name);
    if (span == spans.end() || !value || !value->is_static())
      throw Error("input " + quote_text(name) +
                  ": its shape is not known, or something computes with it before it is quantized; give "
                  "samples of it "
                  "(--data), its shape (--shape), or --input-range " +
                  printable(name) + "=LOW:HIGH for whole numbers");
    std::vector<std::int64_t> shape{static_cast<std::int64_t>(kDrawn + kOfEnds + 2)};
    std::size_t each = 1;
    for (std::size_t axis = 1; axis < value->shape->size(); ++axis) {
      shape.push_back((*value->shape)[axis].size);
      each *= static_cast<std::size_t>(shape.back());
    }
    const auto [low, high, step, quantized] = span->second;
    const bool is_quantized_first = quantized && !given.contains(name);
    std::vector<float> values;
    for (std::size_t sample = 0; sample < kDrawn * each; ++sample) {
      const double at = drawn(engine);
      const double middle = (low + high) / 2;
      values.push_back(static_cast<float>(is_quantized_first
                                              ? middle + (at - 0.5) * kBeyond * (high - low)
                                              : low + step * std::floor(at * ((high - low) / step + 1))));
    }
    for (std::size_t i = 0; i < kOfEnds * each; ++i)
      values.push_back(static_cast<float>(drawn(engine) < 0.5 ? low : high));
    values.insert(values.end(), each, static_cast<float>(low));
    values.insert(values.end(), each, static_cast<float>(high));
    if (graph.inputs.size() > 1) {  // samples of all inputs belong together
      inputs.push_back(graph::Tensor::floats(shape, values));
      continue;
    }
    append_worst(graph, given, name, span->second, values, shape[0]);
    inputs.push_back(graph::Tensor::floats(shape, values));
  }
  return inputs;
}

graph::Tensor followed_by(const graph::Tensor& first, const graph::Tensor& second) {
  std::vector<std::int64_t> shape = first.shape(), tail = second.shape();
  if (first.type() != second.type() || shape.size() != tail.size() || shape.empty() ||
      !std::equal(shape.begin() + 1, shape.end(), tail.begin() + 1)) {
    throw Error("--data holds " + std::string(graph::name_of(first.type())) + " of shape " +
                graph::text_of(std::span(shape)) + ", expected " +
                std::string(graph::name_of(second.type())) + " of shape " + graph::text_of(std::span(tail)) +
                " with any number of samples");
  }
  shape[0] += tail[0];
  std::vector<std::byte> bytes(first.bytes().begin(), first.bytes().end());
  bytes.insert(bytes.end(), second.bytes().begin(), second.bytes().end());
  return {first.type(), std::move(shape), std::move(bytes)};
}

}  // namespace crumb::exporting
