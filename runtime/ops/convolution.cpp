// Convolutions and transposed convolutions.
#include "runtime/ops/convolution.h"

#include <algorithm>
#include <memory>

#include "graph/window.h"
#include "runtime/ops/convolve.h"
#include "runtime/ops/families.h"
#include "runtime/ops/movement.h"
#include "runtime/ops/transposed.h"

namespace crumb::runtime {
namespace {

/// Of a convolution's operands, which fit each other. Channels are those of one group.
struct OperandSizes {
  std::size_t groups, inputs, outputs;
  Ints kernel, input;
};

/// Input channels are on axis 0 of a transposed convolution's weight, on axis 1 of another's.
OperandSizes sizes_of(const Call& call, bool transposed) {
  const Array &x = call.in(0), &w = call.in(1);
  const std::int64_t groups = call.node().int_or("group", 1);
  const bool fits =
      x.rank() >= 3 && w.rank() == x.rank() && groups >= 1 && x.dim(1) % groups == 0 &&
      (transposed ? w.dim(0) == x.dim(1) : w.dim(0) % groups == 0 && w.dim(1) * groups == x.dim(1));
  if (!fits)
    call.fail("cannot take " + text_of(x) + " and a weight " + text_of(w) + " in " + std::to_string(groups) +
              " groups");
  const Ints kernel(w.shape().begin() + 2, w.shape().end());
  const Ints stated = call.node().ints_or("kernel_shape", kernel);
  if (stated != kernel)
    call.fail("kernel_shape is " + graph::text_of(stated) + ", and the weight is " + text_of(w));
  return {.groups = static_cast<std::size_t>(groups),
          .inputs = static_cast<std::size_t>(x.dim(1) / groups),
          .outputs = static_cast<std::size_t>(transposed ? w.dim(1) : w.dim(0) / groups),
          .kernel = kernel,
          .input = {x.shape().begin() + 2, x.shape().end()}};
}

/// The bias of so many channels; empty where there is none.
std::span<const float> bias_of(const Call& call, std::size_t channels) {
  if (!call.has(2)) return {};
  const std::span<const float> bias = call.floats(2);
  if (bias.size() != channels)
    call.fail("a bias " + text_of(call.in(2)) + " does not fit the weight " + text_of(call.in(1)));
  return bias;
}

/// Makes the output [samples, channels, output...] and counts its products.
Array& make_output(Call& call, std::size_t channels, const Ints& output, std::size_t terms) {
  Ints shape{call.in(0).dim(0), static_cast<std::int64_t>(channels)};
  shape.insert(shape.end(), output.begin(), output.end());
  Array& made = call.make(0, call.in(0).type(), shape);
  call.spend({made.size(), terms});
  return made;
}

Kernel convolution(const NodeFacts&) {
  return [](Call& call) { convolve_then(call, {}); };
}

/// Of a node's attributes, for a weight [inputs, outputs, kernel...].
TransposedLayer transposed_layer(const graph::Node& node, const Ints& weight) {
  TransposedLayer layer;
  layer.groups = static_cast<std::size_t>(std::max<std::int64_t>(node.int_or("group", 1), 1));
  layer.outputs = static_cast<std::size_t>(weight[1]);
  layer.kernel.assign(weight.begin() + 2, weight.end());
  layer.inputs = static_cast<std::size_t>(weight[0]) / layer.groups;
  layer.strides = graph::sizes_attribute(node, "strides", layer.kernel.size(), 1);
  layer.dilations = graph::sizes_attribute(node, "dilations", layer.kernel.size(), 1);
  return layer;
}

void run_transposed(Call& call, const TransposedLayer& layer, const Transposed* prepared) {
  const OperandSizes of = sizes_of(call, true);
  const graph::KeptResult kept =
      graph::kept_of(call.node(), of.input, layer.kernel, layer.strides, layer.dilations);
  const std::size_t channels = layer.groups * layer.outputs;
  const std::span<const float> bias = bias_of(call, channels);
  Array& made = make_output(call, channels, kept.output, layer.inputs * layer.taps());
  if (made.size() == 0) return;
  const TransposedSizes sizes{.samples = static_cast<std::size_t>(call.in(0).dim(0)),
                              .begin = kept.begin,
                              .input = of.input,
                              .output = kept.output};
  const TransposedOperands operands{.x = call.floats(0).data(),
                                    .bias = bias.empty() ? nullptr : bias.data(),
                                    .y = made.writable<float>().data()};
  if (prepared) return prepared->run(sizes, operands, call.threads());
  Transposed(layer, call.floats(1).data()).run(sizes, operands, call.threads());
}

/// Constant weights are brought once into the order in which they are taken.
Kernel transposed_convolution(const NodeFacts& facts) {
  const Array* const w = facts.constant(1);
  std::shared_ptr<const Transposed> prepared;
  if (w && w->carrier() == Carrier::kFloat && w->rank() >= 3 && facts.int_or("group", 1) >= 1)
    prepared = std::make_shared<const Transposed>(transposed_layer(facts.node, w->shape()),
                                                  w->values<float>().data());
  return [prepared](Call& call) {
    sizes_of(call, true);
    run_transposed(call, transposed_layer(call.node(), call.in(1).shape()), prepared.get());
  };
}

}  // namespace

bool is_convolution(const graph::Node& node) {
  return node.op == "Conv" && node.domain == graph::kOnnxDomain;
}

void convolve_then(Call& call, const exact::TermsThen& then) {
  const OperandSizes of = sizes_of(call, false);
  const graph::Window window = graph::window_of(call.node(), of.input, of.kernel);
  ConvolutionLayer layer{
      .groups = of.groups,
      .inputs = of.inputs,
      .outputs = of.outputs,
      .terms = of.inputs * static_cast<std::size_t>(product_of(of.kernel, 0, of.kernel.size())),
      .windows = {window.kernel, window.strides, window.dilations, window.begin, window.input,
                  window.output}};
  const std::size_t channels = of.groups * of.outputs;
  const std::span<const float> bias = bias_of(call, channels);
  Array& made = make_output(call, channels, window.output, layer.terms);
  if (made.size() == 0) return;
  const ConvolutionOperands operands{.samples = static_cast<std::size_t>(call.in(0).dim(0)),
                                     .x = call.floats(0).data(),
                                     .w = call.floats(1).data(),
                                     .bias = bias.empty() ? nullptr : bias.data(),
                                     .y = made.writable<float>().data(),
                                     .then = then};
  convolve(layer, operands, call.threads());
}

std::span<const OperatorRow> convolution_operators() {
  static constexpr OperatorRow kRows[] = {{"Conv", convolution, Takes::kFloats},
                                          {"ConvTranspose", transposed_convolution, Takes::kFloats}};
  return kRows;
}

}  // namespace crumb::runtime
