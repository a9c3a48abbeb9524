// Convolutions and transposed convolutions, as products with the windows laid out as rows.
//
// The terms of an output are the weights of its channel in their order: input channels, then places of the kernel. What
// lies in the padding, or between the inputs of a transposed convolution, counts as zeros.
#include <algorithm>
#include <numeric>

#include "base/threads/parallel.h"
#include "graph/window.h"
#include "runtime/exact/products.h"
#include "runtime/ops/families.h"
#include "runtime/ops/movement.h"

namespace crumb::runtime {
namespace {

constexpr std::size_t kRowBytes = std::size_t{1} << 18;  // of windows that are laid out at a time

/// Where the places of a kernel lie in the input, for any place of the output.
struct Windows {
  Ints kernel, strides, dilations, begin, input, output;
  bool transposed = false;

  /// On one axis; -1 where there is no element.
  std::int64_t place(std::size_t axis, std::int64_t out, std::int64_t k) const {
    if (!transposed) {
      const std::int64_t at = out * strides[axis] + k * dilations[axis] - begin[axis];
      return at >= 0 && at < input[axis] ? at : -1;
    }
    const std::int64_t from = out + begin[axis] - k * dilations[axis];
    if (from < 0 || from % strides[axis] != 0) return -1;
    const std::int64_t at = from / strides[axis];
    return at < input[axis] ? at : -1;
  }
};

/// Writes the windows of outputs [first, end) as rows: `channels` times the kernel's places each.
void lay_out(const Windows& w, const float* x, std::size_t channels, std::size_t first, std::size_t end,
             float* rows) {
  const std::size_t axes = w.kernel.size();
  const auto taps = static_cast<std::size_t>(product_of(w.kernel, 0, axes));
  const auto plane = static_cast<std::size_t>(product_of(w.input, 0, axes));
  const Ints strides = strides_of(w.input);
  Ints out(axes), k(axes);
  std::vector<std::int64_t> offsets(taps);
  for (std::size_t at = first; at < end; ++at) {
    auto rest = static_cast<std::int64_t>(at);
    for (std::size_t i = axes; i-- > 0; rest /= w.output[i]) out[i] = rest % w.output[i];
    std::ranges::fill(k, 0);
    for (std::size_t tap = 0; tap < taps; ++tap) {
      std::int64_t offset = 0;
      for (std::size_t i = 0; i < axes && offset >= 0; ++i) {
        const std::int64_t place = w.place(i, out[i], k[i]);
        offset = place < 0 ? -1 : offset + place * strides[i];
      }
      offsets[tap] = offset;
      for (std::size_t i = axes; i-- > 0;) {
        if (++k[i] < w.kernel[i]) break;
        k[i] = 0;
      }
    }
    for (std::size_t c = 0; c < channels; ++c) {
      const float* const from = x + c * plane;
      for (std::size_t tap = 0; tap < taps; ++tap) *rows++ = offsets[tap] < 0 ? 0.0F : from[offsets[tap]];
    }
  }
}

/// Sizes of a convolution, in elements.
struct Layer {
  std::size_t groups, inputs, outputs;  ///< channels of one group
  std::size_t terms;
  Windows windows;
};

/// y of shape [samples, groups * outputs, output...]; w has `outputs` rows of `terms` for each group.
void convolve(const Call& call, const Layer& layer, const float* x, std::size_t samples, const float* w,
              const float* bias, float* y) {
  const auto places =
      static_cast<std::size_t>(product_of(layer.windows.output, 0, layer.windows.output.size()));
  const auto plane = static_cast<std::size_t>(product_of(layer.windows.input, 0, layer.windows.input.size()));
  const std::size_t rows_at_a_time =
      std::clamp<std::size_t>(kRowBytes / sizeof(float) / std::max<std::size_t>(layer.terms, 1), 1, places);
  const std::size_t pieces = (places + rows_at_a_time - 1) / rows_at_a_time;
  parallel_for(samples * layer.groups * pieces, 1, call.threads(), [&](std::size_t begin, std::size_t end) {
    std::vector<float> rows(rows_at_a_time * layer.terms);
    for (std::size_t job = begin; job < end; ++job) {
      const std::size_t piece = job % pieces, group = job / pieces % layer.groups,
                        n = job / pieces / layer.groups;
      const std::size_t first = piece * rows_at_a_time, last = std::min(places, first + rows_at_a_time);
      lay_out(layer.windows, x + (n * layer.groups + group) * layer.inputs * plane, layer.inputs, first, last,
              rows.data());
      float* const out = y + (n * layer.groups + group) * layer.outputs * places + first;
      exact::multiply({.rows = last - first,
                       .columns = layer.outputs,
                       .terms = layer.terms,
                       .x = rows.data(),
                       .x_stride = layer.terms,
                       .w = w + group * layer.outputs * layer.terms,
                       .w_stride = layer.terms,
                       .y = out,
                       .y_row = 1,
                       .y_column = places},
                      1);
      for (std::size_t c = 0; bias && c < layer.outputs; ++c) {
        const float added = bias[group * layer.outputs + c];
        for (std::size_t i = 0; i < last - first; ++i) out[c * places + i] += added;
      }
    }
  });
}

/// Of two operands that fit each other; channels of the input lie on axis `input_axis` of the weight.
Layer layer_of(const Call& call, bool transposed) {
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
  Layer layer{static_cast<std::size_t>(groups),
              static_cast<std::size_t>(inputs),
              static_cast<std::size_t>(outputs),
              static_cast<std::size_t>(inputs * taps),
              {}};
  layer.windows.kernel = kernel;
  layer.windows.input.assign(x.shape().begin() + 2, x.shape().end());
  layer.windows.transposed = transposed;
  return layer;
}

void run(Call& call, Layer& layer, const float* w) {
  const Array& x = call.in(0);
  std::span<const float> bias;
  if (call.has(2)) {
    bias = call.floats(2);
    if (bias.size() != layer.groups * layer.outputs)
      call.fail("a bias " + text_of(call.in(2)) + " does not fit the weight " + text_of(call.in(1)));
  }
  Ints shape{x.dim(0), static_cast<std::int64_t>(layer.groups * layer.outputs)};
  shape.insert(shape.end(), layer.windows.output.begin(), layer.windows.output.end());
  const auto samples = static_cast<std::size_t>(x.dim(0));
  Array& made = call.make(0, x.type(), shape);
  if (made.size() == 0) return;
  call.spend({made.size(), layer.terms});
  convolve(call, layer, call.floats(0).data(), samples, w, bias.empty() ? nullptr : bias.data(),
           made.writable<float>().data());
}

Kernel convolution(const NodeFacts&) {
  return [](Call& call) {
    Layer layer = layer_of(call, false);
    graph::Window window = graph::window_of(call.node(), layer.windows.input, layer.windows.kernel);
    layer.windows = {window.kernel, window.strides, window.dilations,
                     window.begin,  window.input,   window.output};
    run(call, layer, call.floats(1).data());
  };
}

/// The weight [inputs, outputs, kernel...] of each group as rows of terms: [group][output][input][kernel].
std::vector<float> rows_of(const Layer& layer, std::span<const float> w) {
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
    Layer layer = layer_of(call, true);
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

std::span<const OperatorRow> convolution_operators() {
  static constexpr OperatorRow kRows[] = {{"Conv", convolution, Takes::kFloats},
                                          {"ConvTranspose", transposed_convolution, Takes::kFloats}};
  return kRows;
}

}  // namespace crumb::runtime
