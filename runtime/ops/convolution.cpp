// Convolutions and transposed convolutions, as products with the windows laid out term by term.
//
// The terms of an output are the weights of its channel in their order: input channels, then taps of the
// kernel. Padding, and the gaps between the inputs of a transposed convolution, count as zeros.
#include <algorithm>
#include <numeric>

#include "base/threads/parallel.h"
#include "graph/window.h"
#include "runtime/exact/term_products.h"
#include "runtime/ops/families.h"
#include "runtime/ops/movement.h"

namespace crumb::runtime {
namespace {

constexpr std::size_t kWidth = 64;                      // positions of the largest tile
constexpr std::size_t kLaidOut = std::size_t{1} << 16;  // floats of windows that are laid out at a time

/// Where the taps of a kernel are in the input, for any position of the output.
struct Windows {
  Ints kernel, strides, dilations, begin, input, output;
  bool transposed = false;

  /// The index on one axis; -1 where there is no element.
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

  /// Whether every window is one element, at its output's own position.
  bool are_single_elements() const {
    return !transposed && input == output &&
           std::ranges::all_of(kernel, [](std::int64_t size) { return size == 1; }) &&
           std::ranges::all_of(strides, [](std::int64_t stride) { return stride == 1; }) &&
           std::ranges::all_of(begin, [](std::int64_t padding) { return padding == 0; });
  }
};

/// Part of an output row along the last axis, for one tap of the kernel. It has `count` elements; `inside` of
/// them are in the input, from `offset` on, `step` apart. They go to the elements from `before` on, `gap`
/// apart; the others are zeros.
struct Run {
  std::size_t count = 0, before = 0, inside = 0, gap = 1;
  std::size_t offset = 0, step = 1;

  void copy(const float* from, float* to) const {
    from += offset;
    if (gap > 1) {
      std::fill_n(to, count, 0.0F);
      for (std::size_t i = 0; i < inside; ++i) to[before + i * gap] = from[i * step];
      return;
    }
    std::fill_n(to, before, 0.0F);
    if (step == 1) {
      std::copy_n(from, inside, to + before);
    } else {
      for (std::size_t i = 0; i < inside; ++i) to[before + i] = from[i * step];
    }
    std::fill_n(to + before + inside, count - before - inside, 0.0F);
  }
};

/// Writes the windows of outputs [first, end), term by term: terms[t * stride + i] is term t of window first
/// + i.
void lay_out(const Windows& w, const float* x, std::size_t channels, std::size_t first, std::size_t end,
             float* terms, std::size_t stride) {
  const std::size_t axes = w.kernel.size(), last = axes - 1;
  const auto taps = static_cast<std::size_t>(product_of(w.kernel, 0, axes));
  const auto plane = static_cast<std::size_t>(product_of(w.input, 0, axes));
  const Ints strides = strides_of(w.input);
  const auto apart = static_cast<std::size_t>(w.strides[last]);
  Ints out(axes), k(axes);
  for (std::size_t at = first; at < end;) {
    auto rest = static_cast<std::int64_t>(at);
    for (std::size_t i = axes; i-- > 0; rest /= w.output[i]) out[i] = rest % w.output[i];
    const auto line = static_cast<std::size_t>(w.output[last] - out[last]);
    const std::size_t count = std::min(line, end - at);
    std::ranges::fill(k, 0);
    for (std::size_t tap = 0; tap < taps; ++tap) {
      std::int64_t offset = 0;
      for (std::size_t i = 0; i < last && offset >= 0; ++i) {
        const std::int64_t place = w.place(i, out[i], k[i]);
        offset = place < 0 ? -1 : offset + place * strides[i];
      }
      Run run{.count = count, .gap = w.transposed ? apart : 1, .step = w.transposed ? 1 : apart};
      if (offset >= 0) {
        const auto is_inside = [&](std::size_t i) {
          return w.place(last, out[last] + static_cast<std::int64_t>(i), k[last]) >= 0;
        };
        while (run.before < count && !is_inside(run.before)) ++run.before;
        std::size_t behind = count;
        while (behind > run.before && !is_inside(behind - 1)) --behind;
        run.inside = (behind - run.before + run.gap - 1) / run.gap;
        if (run.inside > 0)
          run.offset = static_cast<std::size_t>(
              offset + w.place(last, out[last] + static_cast<std::int64_t>(run.before), k[last]));
      }
      float* to = terms + tap * stride + (at - first);
      for (std::size_t c = 0; c < channels; ++c, to += taps * stride) run.copy(x + c * plane, to);
      for (std::size_t i = axes; i-- > 0;) {
        if (++k[i] < w.kernel[i]) break;
        k[i] = 0;
      }
    }
    at += count;
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
  const bool lies = layer.windows.are_single_elements();
  const std::size_t wanted = kLaidOut / std::max<std::size_t>(layer.terms, 1);
  const std::size_t width = std::min(places, std::max(wanted / kWidth, std::size_t{1}) * kWidth);
  const std::size_t pieces = (places + width - 1) / width;
  parallel_for(samples * layer.groups * pieces, 1, call.threads(), [&](std::size_t begin, std::size_t end) {
    std::vector<float> terms(lies ? 0 : width * layer.terms);
    for (std::size_t job = begin; job < end; ++job) {
      const std::size_t piece = job % pieces, group = job / pieces % layer.groups,
                        n = job / pieces / layer.groups;
      const std::size_t first = piece * width, last = std::min(places, first + width);
      const float* const from = x + (n * layer.groups + group) * layer.inputs * plane;
      if (!lies) lay_out(layer.windows, from, layer.inputs, first, last, terms.data(), width);
      exact::multiply_terms({.outputs = layer.outputs,
                             .positions = last - first,
                             .terms = layer.terms,
                             .x = lies ? from + first : terms.data(),
                             .x_stride = lies ? plane : width,
                             .w = w + group * layer.outputs * layer.terms,
                             .w_stride = layer.terms,
                             .bias = bias ? bias + group * layer.outputs : nullptr,
                             .y = y + (n * layer.groups + group) * layer.outputs * places + first,
                             .y_stride = places});
    }
  });
}

/// For two operands that fit each other. Input channels are on axis `input_axis` of the weight.
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
