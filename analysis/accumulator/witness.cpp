#include "analysis/accumulator/witness.h"

#include <algorithm>
#include <cmath>

#include "graph/datatypes.h"
#include "graph/edit.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/qonnx/quantizer_nodes.h"

namespace crumb::analysis {
namespace {

using Ints = std::vector<std::int64_t>;
using Kind = ProductLayer::Kind;

constexpr std::int64_t kOpset = 13;
constexpr float kBiasBits = 32;
constexpr std::int64_t kMostInputs = std::int64_t{1} << 26;  // of a sample

/// A register, and which of its extremes is sought.
struct Extreme {
  std::size_t channel = 0;
  std::uint32_t number = 0;
  bool is_max = true;
};

class Builder {
 public:
  Builder(const ProductLayer& layer, std::size_t tile) : layer_(layer), tile_(tile), x_(*layer.input_range) {}

  /// Dilations can spread a kernel over any number of inputs.
  bool is_small() const {
    const auto size = graph::count_elements(sample_shape());
    return size.ok() && size.value() <= kMostInputs;
  }

  /// Whether one model's bias serves both extremes.
  bool agree(const Extreme& max, const Extreme& min) const {
    return max.channel != min.channel || bias_for(max) == bias_for(min);
  }

  /// With the biases that the extremes to be shown want.
  Witness run(const Extreme& max, const Extreme& min, bool shows_max, bool shows_min) {
    Witness made{.input = {},
                 .channel_of_max = max.channel,
                 .channel_of_min = min.channel,
                 .shows_max = shows_max,
                 .shows_min = shows_min};
    std::vector<std::int64_t> bias(layer_.channels, 0);
    if (shows_max) bias[max.channel] = bias_for(max);
    if (shows_min) bias[min.channel] = bias_for(min);
    std::vector<float> values(2 * sample_size(), static_cast<float>(absent()));
    const std::span<float> both(values);
    made.reached.max = drive(max, both.first(sample_size())) + bias[max.channel];
    made.reached.min = drive(min, both.last(sample_size())) + bias[min.channel];
    Ints shape = sample_shape();
    shape.insert(shape.begin(), 2);
    made.input = graph::Tensor::floats(shape, values);
    made.graph = graph(shape, bias);
    return made;
  }

 private:
  /// The input nearest to none.
  std::int64_t absent() const { return std::clamp<std::int64_t>(0, x_.low, x_.high); }

  std::size_t rank() const { return layer_.weight_shape.size(); }

  /// Without the axis of samples.
  Ints sample_shape() const {
    const Ints& w = layer_.weight_shape;
    const auto length = static_cast<std::int64_t>(layer_.length);
    if (layer_.kind == Kind::kMatrix) {
      // What lies before the matrix's own axes broadcasts.
      Ints shape(rank() > 2 ? rank() - 2 : 0, 1);
      if (layer_.weight_first) {
        shape.insert(shape.end(), {length, 1});
      } else {
        if (rank() > 2) shape.push_back(1);
        shape.push_back(length);
      }
      return shape;
    }
    if (layer_.kind == Kind::kConvolution) {
      Ints shape(w.begin() + 1, w.end());
      shape[0] *= layer_.groups;
      return shape;
    }
    Ints shape{w[0] * w[1]};
    for (std::size_t i = 0; i < layer_.strides.size(); ++i) {
      shape.push_back((w[3 + i] - 1) * layer_.dilations[i] / layer_.strides[i] + 1);
    }
    return shape;
  }

  std::size_t sample_size() const {
    return static_cast<std::size_t>(
        graph::count_elements(sample_shape()).take("the witness of " + layer_.name));
  }

  /// Writes the inputs of a register's extreme; the sum that the channel's result then is.
  std::int64_t drive(const Extreme& extreme, std::span<float> sample) const {
    const auto number = layer_.registers(extreme.channel, tile_);
    const std::size_t first = extreme.channel * layer_.length;
    std::uint32_t part = 0;
    for (std::size_t i = 0; i < layer_.length && !layer_.part.empty(); ++i) {
      if (number[i] == extreme.number) part = layer_.part[first + i];
    }
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < layer_.length; ++i) {
      const bool meets =
          layer_.kind != Kind::kTransposed || layer_.part.empty() || layer_.part[first + i] == part;
      if (!meets) continue;  // another result's
      const std::int64_t code = layer_.codes[first + i];
      std::int64_t x = absent();
      if (number[i] == extreme.number && code != 0) x = (code > 0) == extreme.is_max ? x_.high : x_.low;
      sum += code * x;
      sample[place_of(extreme.channel, i)] = static_cast<float>(x);
    }
    return sum;
  }

  /// Where the input that meets a term lies in a sample.
  std::size_t place_of(std::size_t channel, std::size_t term) const {
    const Ints& w = layer_.weight_shape;
    if (layer_.kind == Kind::kMatrix) return term;
    if (layer_.kind == Kind::kConvolution) {
      const std::size_t outputs = layer_.channels / static_cast<std::size_t>(layer_.groups);
      return channel / outputs * layer_.length + term;
    }
    return transposed_place(channel / static_cast<std::size_t>(w[2]), term);
  }

  /// The result at o = the last tap of the phase: the input (o - k * dilation) / stride meets tap k.
  std::size_t transposed_place(std::size_t group, std::size_t term) const {
    const Ints& w = layer_.weight_shape;
    const Ints shape = sample_shape();
    std::size_t place = 0, step = 1;
    for (std::size_t i = layer_.strides.size(); i-- > 0;) {
      const auto taps = static_cast<std::size_t>(w[3 + i]);
      const auto tap = static_cast<std::int64_t>(term % taps);
      term /= taps;
      const std::int64_t stride = layer_.strides[i], dilation = layer_.dilations[i];
      std::int64_t last = tap;
      for (std::int64_t k = tap; k < w[3 + i]; ++k) {
        if ((k - tap) * dilation % stride == 0) last = k;
      }
      place += step * static_cast<std::size_t>((last - tap) * dilation / stride);
      step *= static_cast<std::size_t>(shape[1 + i]);
    }
    return place + step * (group * static_cast<std::size_t>(w[1]) + term);
  }

  /// A bias is a term of an extreme that it takes further.
  std::int64_t bias_for(const Extreme& extreme) const {
    const std::int64_t start = layer_.starts(extreme.channel, tile_)[extreme.number];
    return extreme.is_max ? std::max<std::int64_t>(start, 0) : std::min<std::int64_t>(start, 0);
  }

  // ---- The graph ----

  std::string constant(const std::string& name, graph::Tensor tensor) {
    return add_constant(graph_, name, std::move(tensor));
  }

  /// A Quant of scale 1 behind a value.
  std::string quantized(const std::string& value, const std::string& name, float zero, float bits,
                        bool is_signed, bool narrow) {
    graph::Node node = graph::quant_node({value, constant(name + "_scale", graph::Tensor::scalar(1.0F)),
                                          constant(name + "_zeropt", graph::Tensor::scalar(zero)),
                                          constant(name + "_bits", graph::Tensor::scalar(bits))},
                                         is_signed, narrow);
    node.name = graph_.unused_node_name(name + "_quant");
    node.outputs = {add_value(graph_, name + "_quantized", {.type = graph::ElementType::kFloat})};
    graph_.nodes.push_back(std::move(node));
    return graph_.nodes.back().outputs[0];
  }

  /// With exactly the layer's range where a Quant has it, else with the least that holds it.
  std::string quantized_input() {
    const graph::DataType least =
        graph::DataType::least_integer(static_cast<double>(x_.low), static_cast<double>(x_.high));
    const double span = static_cast<double>(x_.high) - static_cast<double>(x_.low);
    const auto bits = static_cast<float>(std::log2(span + 1));
    if (x_.low < 0 && x_.low == -x_.high) {
      return quantized("x", "x", 0, std::log2(static_cast<float>(x_.high) + 1) + 1, true, true);
    }
    if (span > 0 && std::trunc(bits) == bits && x_.low != 0 && -x_.low != x_.high + 1) {
      return quantized("x", "x", static_cast<float>(-x_.low), bits, false, false);
    }
    return quantized("x", "x", 0, static_cast<float>(std::max(least.bits(), 2)), least.is_signed(), false);
  }

  graph::Tensor weights() const {
    const Ints& w = layer_.weight_shape;
    std::vector<float> values(layer_.codes.size());
    const auto outputs = static_cast<std::size_t>(layer_.kind == Kind::kTransposed             ? w[2]
                                                  : layer_.kind == Kind::kMatrix && rank() > 1 ? w.back()
                                                                                               : 1);
    for (std::size_t c = 0; c < layer_.channels; ++c) {
      for (std::size_t i = 0; i < layer_.length; ++i) {
        std::size_t to = c * layer_.length + i;
        if (layer_.kind == Kind::kMatrix && !layer_.weight_first && rank() > 1)
          to = (c / outputs * layer_.length + i) * outputs + c % outputs;
        if (layer_.kind == Kind::kTransposed) {
          const std::size_t taps = layer_.length / static_cast<std::size_t>(w[1]);
          to = ((c / outputs * static_cast<std::size_t>(w[1]) + i / taps) * outputs + c % outputs) * taps +
               i % taps;
        }
        values[to] = static_cast<float>(layer_.codes[c * layer_.length + i]);
      }
    }
    Ints shape = w;
    if (layer_.kind == Kind::kTransposed) {
      shape.erase(shape.begin());
      shape[0] *= w[0];
    }
    return graph::Tensor::floats(shape, values);
  }

  std::map<std::string, graph::Attribute> attributes() const {
    if (layer_.kind == Kind::kMatrix) return {};
    const std::size_t before = layer_.kind == Kind::kTransposed ? 3 : 2;
    const Ints kernel(layer_.weight_shape.begin() + static_cast<std::ptrdiff_t>(before),
                      layer_.weight_shape.end());
    std::map<std::string, graph::Attribute> made{{"group", layer_.groups}, {"kernel_shape", kernel}};
    const Ints ones(kernel.size(), 1);
    made["strides"] = layer_.kind == Kind::kTransposed ? layer_.strides : ones;
    made["dilations"] = layer_.kind == Kind::kTransposed ? layer_.dilations : ones;
    made["pads"] = Ints(2 * kernel.size(), 0);
    return made;
  }

  float weight_bits() const {
    const auto [low, high] = std::ranges::minmax(layer_.codes);
    const graph::DataType least = graph::DataType::least_integer(
        std::min<double>(static_cast<double>(low), -1), static_cast<double>(std::max<std::int64_t>(high, 0)));
    return static_cast<float>(std::max(least.bits(), 2));
  }

  graph::Graph graph(const Ints& shape, const std::vector<std::int64_t>& bias) {
    graph_ = {.name = "witness",
              .inputs = {"x"},
              .outputs = {"y"},
              .opsets = {{std::string(graph::kOnnxDomain), kOpset}, {std::string(graph::kQonnxDomain), 1}}};
    graph_.values["x"] = {.type = graph::ElementType::kFloat,
                          .shape = graph::Shape(shape.begin(), shape.end())};
    graph_.values["y"] = {.type = graph::ElementType::kFloat};
    const std::string x = quantized_input();
    const std::string w = quantized(constant("w", weights()), "w", 0, weight_bits(), true, false);
    const bool adds = std::ranges::any_of(bias, [](std::int64_t b) { return b != 0; });
    const bool is_matrix = layer_.kind == Kind::kMatrix;
    graph::Node product{
        .name = layer_.name,
        .op = is_matrix                           ? "MatMul"
              : layer_.kind == Kind::kConvolution ? "Conv"
                                                  : "ConvTranspose",
        .version = kOpset,
        .inputs = layer_.weight_first ? std::vector<std::string>{w, x} : std::vector<std::string>{x, w},
        .outputs = {"y"},
        .attributes = attributes()};
    if (!adds) {
      graph_.nodes.push_back(std::move(product));
      return infer_shapes(std::move(graph_));
    }
    const std::string b = quantized(constant("b", bias_tensor(bias)), "b", 0, kBiasBits, true, false);
    if (!is_matrix) {
      product.inputs.push_back(b);
      graph_.nodes.push_back(std::move(product));
      return infer_shapes(std::move(graph_));
    }
    product.outputs = {add_value(graph_, "product", {.type = graph::ElementType::kFloat})};
    graph_.nodes.push_back(product);
    graph_.nodes.push_back({.name = graph_.unused_node_name("bias"),
                            .op = "Add",
                            .version = kOpset,
                            .inputs = {product.outputs[0], b},
                            .outputs = {"y"}});
    return infer_shapes(std::move(graph_));
  }

  /// As it broadcasts to the result.
  graph::Tensor bias_tensor(const std::vector<std::int64_t>& bias) const {
    const std::vector<float> values(bias.begin(), bias.end());
    Ints shape{static_cast<std::int64_t>(bias.size())};
    if (layer_.kind == Kind::kMatrix) {
      shape = layer_.weight_shape;
      if (rank() == 1) {
        shape = {1};
      } else {
        shape[rank() - (layer_.weight_first ? 1 : 2)] = 1;
      }
    }
    return graph::Tensor::floats(shape, values);
  }

  const ProductLayer& layer_;
  std::size_t tile_;
  IntegerRange x_;
  graph::Graph graph_;
};

}  // namespace

std::vector<Witness> witnesses_of(const ProductLayer& layer, std::size_t tile) {
  if (!layer.has_codes() || !layer.input_range || layer.input_cases.size() > 1 || layer.codes.empty())
    return {};
  const auto sums = layer.worst_sums(*layer.input_range, tile);
  if (!sums) return {};
  Extreme max{.is_max = true}, min{.is_max = false};
  const auto at = [&](const Extreme& extreme) { return (*sums)[extreme.channel][extreme.number]; };
  for (std::size_t c = 0; c < sums->size(); ++c) {
    for (std::uint32_t r = 0; r < (*sums)[c].size(); ++r) {
      if ((*sums)[c][r].max > at(max).max) max = {c, r, true};
      if ((*sums)[c][r].min < at(min).min) min = {c, r, false};
    }
  }
  const Builder builder(layer, tile);
  if (!builder.is_small()) return {};
  const auto run = [&](bool shows_max, bool shows_min) {
    return Builder(layer, tile).run(max, min, shows_max, shows_min);
  };
  if (builder.agree(max, min)) return {run(true, true)};
  return {run(true, false), run(false, true)};
}

}  // namespace crumb::analysis
