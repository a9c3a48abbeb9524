// Convolutions and transposed convolutions.
#include "runtime/ops/convolution.h"

#include <algorithm>

#include "graph/window.h"
#include "runtime/ops/convolve.h"
#include "runtime/ops/families.h"
#include "runtime/ops/movement.h"

namespace crumb::runtime {
namespace {

/// For two operands that fit each other. Input channels are on axis `input_axis` of the weight.
ConvolutionLayer layer_of(const Call& call, bool transposed) {
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
  const std::int64_t inputs = x.dim(1) / groups, outputs = transposed ? w.dim(1) : w.dim(0) / groups;
  const std::int64_t taps = product_of(kernel, 0, kernel.size());
  ConvolutionLayer layer{static_cast<std::size_t>(groups),
                         static_cast<std::size_t>(inputs),
                         static_cast<std::size_t>(outputs),
                         static_cast<std::size_t>(inputs * taps),
                         {}};
  layer.windows.kernel = kernel;
  layer.windows.input.assign(x.shape().begin() + 2, x.shape().end());
  layer.windows.transposed = transposed;
  return layer;
}

void run(Call& call, const ConvolutionLayer& layer, const float* w, const exact::TermsThen& then = {}) {
  const Array& x = call.in(0);
  std::span<const float> bias;
  if (call.has(2)) {
    bias = call.floats(2);
    if (bias.size() != layer.groups * layer.outputs)
      call.fail("a bias " + text_of(call.in(2)) + " does not fit the weight " + text_of(call.in(1)));
  }
  Ints shape{x.dim(0), static_cast<std::int64_t>(layer.groups * layer.outputs)};
  shape.insert(shape.end(), layer.windows.output.begin(), layer.windows.output.end());
  Array& made = call.make(0, x.type(), shape);
  if (made.size() == 0) return;
  call.spend({made.size(), layer.terms});
  const ConvolutionOperands operands{.samples = static_cast<std::size_t>(x.dim(0)),
                                     .x = call.floats(0).data(),
                                     .w = w,
                                     .bias = bias.empty() ? nullptr : bias.data(),
                                     .y = made.writable<float>().data(),
                                     .then = then};
  convolve(layer, operands, call.threads());
}

Kernel convolution(const NodeFacts&) {
  return [](Call& call) { convolve_then(call, {}); };
}

/// The weight [inputs, outputs, kernel...] of each group as rows of terms: [group][output][input][kernel].
std::vector<float> rows_of(const ConvolutionLayer& layer, std::span<const float> w) {
  const std::size_t taps = layer.terms / std::max<std::size_t>(layer.inputs, 1);
  std::vector<float> rows;
  rows.reserve(w.size());
  for (std::size_t g = 0; g < layer.groups; ++g) {
    for (std::size_t o = 0; o < layer.outputs; ++o) {
      for (std::size_t c = 0; c < layer.inputs; ++c) {
        const float* const from = w.data() + ((g * layer.inputs + c) * layer.outputs + o) * taps;
        rows.insert(rows.end(), from, from + taps);
      }
    }
  }
  return rows;
}

Kernel transposed_convolution(const NodeFacts&) {
  return [](Call& call) {
    ConvolutionLayer layer = layer_of(call, true);
    Windows& windows = layer.windows;
    windows.strides = graph::sizes_attribute(call.node(), "strides", windows.kernel.size(), 1);
    windows.dilations = graph::sizes_attribute(call.node(), "dilations", windows.kernel.size(), 1);
    const graph::KeptResult kept =
        graph::kept_of(call.node(), windows.input, windows.kernel, windows.strides, windows.dilations);
    windows.begin = kept.begin;
    windows.output = kept.output;
    run(call, layer, rows_of(layer, call.floats(1)).data());
  };
}

}  // namespace

bool is_convolution(const graph::Node& node) {
  return node.op == "Conv" && node.domain == graph::kOnnxDomain;
}

void convolve_then(Call& call, const exact::TermsThen& then) {
  ConvolutionLayer layer = layer_of(call, false);
  graph::Window window = graph::window_of(call.node(), layer.windows.input, layer.windows.kernel);
  layer.windows = {window.kernel, window.strides, window.dilations,
                   window.begin,  window.input,   window.output};
  run(call, layer, call.floats(1).data(), then);
}

std::span<const OperatorRow> convolution_operators() {
  static constexpr OperatorRow kRows[] = {{"Conv", convolution, Takes::kFloats},
                                          {"ConvTranspose", transposed_convolution, Takes::kFloats}};
  return kRows;
}

}  // namespace crumb::runtime
