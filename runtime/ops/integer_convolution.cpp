// Convolutions of codes and weights of 16 bits (lower/domain.h): windows as rows, and exact sums.
//
// A sample is laid out once with its padding, as levels (codes less their zero point), channels last, so that
// a window is a few runs of memory. Integer sums do not mind the order of their terms.
#include <algorithm>
#include <cstring>
#include <memory>

#include "base/checked_size.h"
#include "base/threads/parallel.h"
#include "graph/window.h"
#include "runtime/integer/products.h"
#include "runtime/lower/domain.h"
#include "runtime/ops/by_shape.h"
#include "runtime/ops/families.h"
#include "runtime/ops/integer_bytes.h"
#include "runtime/ops/integer_sums.h"
#include "runtime/ops/movement.h"

namespace crumb::runtime {
namespace {

constexpr std::size_t kMostImage = std::size_t{1} << 40;  // elements of a sample with its padding

/// One sample with its padding, channels last, as levels; and where the runs of a window lie in it.
struct Image {
  Ints sizes, steps;  ///< of the spatial axes, in elements
  std::size_t channels = 0, size = 0;
  std::vector<std::size_t> runs;  ///< from the window's first element
  std::size_t run = 0;            ///< elements of each
};

/// `inputs`: channels of one group, which a window takes.
Image image_of(const Call& call, const graph::Window& w, std::size_t channels, std::size_t inputs) {
  const std::size_t axes = w.axes();
  Image image{.sizes = Ints(axes), .steps = Ints(axes), .channels = channels, .size = channels};
  for (std::size_t i = axes; i-- > 0;) {
    const std::int64_t reach = w.output[i] > 0 ? (w.output[i] - 1) * w.strides[i] + w.extent(i) : 0;
    image.sizes[i] = std::max(w.input[i] + w.begin[i], reach);
    image.steps[i] = static_cast<std::int64_t>(image.size);
    const checked::Size size = checked::multiply(image.size, image.sizes[i]);
    if (!size || *size > kMostImage) call.fail("its padding takes too much");
    image.size = *size;
  }
  // Taps side by side are one run where a window takes all channels.
  const bool joined = axes > 0 && inputs == channels && w.dilations[axes - 1] == 1;
  image.run = inputs * (joined ? static_cast<std::size_t>(w.kernel[axes - 1]) : 1);
  Ints taps(axes);
  for (std::size_t i = 0; i < axes; ++i) taps[i] = joined && i + 1 == axes ? 1 : w.kernel[i];
  const std::int64_t count = product_of(taps, 0, axes);
  Ints k(axes, 0);
  for (std::int64_t tap = 0; tap < count; ++tap) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < axes; ++i) at += k[i] * w.dilations[i] * image.steps[i];
    image.runs.push_back(static_cast<std::size_t>(at));
    for (std::size_t i = axes; i-- > 0;) {
      if (++k[i] < taps[i]) break;
      k[i] = 0;
    }
  }
  return image;
}

/// Levels of a sample [channels, sizes...] into the image; what is padding is 0.
template <class T>
void lay_out(const graph::Window& w, const Image& image, const T* x, int zero,
             std::span<std::int16_t> levels) {
  const std::size_t axes = w.axes();
  const auto plane = static_cast<std::size_t>(product_of(w.input, 0, axes));
  const auto row = static_cast<std::size_t>(axes > 0 ? w.input[axes - 1] : 1);
  std::ranges::fill(levels, std::int16_t{0});
  if (plane == 0) return;
  Ints place(axes, 0);
  for (std::size_t first = 0; first < plane; first += row) {
    std::int64_t at = 0;
    bool inside = true;
    for (std::size_t i = 0; i < axes; ++i) {
      at += (place[i] + w.begin[i]) * image.steps[i];
      inside = inside && place[i] + w.begin[i] < image.sizes[i];
    }
    const std::size_t fits =
        axes == 0 ? 1
                  : static_cast<std::size_t>(std::clamp<std::int64_t>(
                        image.sizes[axes - 1] - w.begin[axes - 1], 0, static_cast<std::int64_t>(row)));
    for (std::size_t c = 0; inside && c < image.channels; ++c) {
      const T* const from = x + c * plane + first;
      std::int16_t* const to = levels.data() + static_cast<std::size_t>(at) + c;
      for (std::size_t i = 0; i < fits; ++i)
        to[i * image.channels] = static_cast<std::int16_t>(from[i] - zero);
    }
    for (std::size_t i = axes > 0 ? axes - 1 : 0; i-- > 0;) {
      if (++place[i] < w.input[i]) break;
      place[i] = 0;
    }
  }
}

/// Weights [outputs, inputs, kernel...] as rows in the order of an image's windows: kernel, then inputs;
/// padded.
std::vector<std::int16_t> window_rows(const Array& w) {
  const auto outputs = static_cast<std::size_t>(w.dim(0)), inputs = static_cast<std::size_t>(w.dim(1));
  const std::size_t taps = static_cast<std::size_t>(product_of(w.shape(), 2, w.shape().size()));
  const std::size_t terms = inputs * taps, width = integer::padded(terms);
  const auto from = w.values<std::int16_t>();
  std::vector<std::int16_t> rows(outputs * width, 0);
  for (std::size_t o = 0; o < outputs; ++o) {
    for (std::size_t c = 0; c < inputs; ++c) {
      for (std::size_t tap = 0; tap < taps; ++tap)
        rows[o * width + tap * inputs + c] = from[o * terms + c * taps + tap];
    }
  }
  return rows;
}

/// What a convolution derives from its input's shape.
struct Geometry {
  graph::Window window;
  Image image;
  Ints shape;  ///< of the output
  std::size_t samples = 0, places = 0;
};

/// Windows of the outputs [first, first + count), of the channels from where `levels` begin, as rows of
/// `width`.
void gather_rows(const Geometry& g, const std::int16_t* levels, std::size_t first, std::size_t count,
                 std::size_t width, std::int16_t* rows) {
  const graph::Window& w = g.window;
  const std::size_t axes = w.axes();
  Ints out(axes);
  auto rest = static_cast<std::int64_t>(first);
  std::int64_t at = 0;
  for (std::size_t i = axes; i-- > 0; rest /= w.output[i]) {
    out[i] = rest % w.output[i];
    at += out[i] * w.strides[i] * g.image.steps[i];
  }
  const std::size_t bytes = g.image.run * sizeof(std::int16_t);
  for (std::size_t r = 0; r < count; ++r) {
    std::int16_t* to = rows + r * width;
    for (const std::size_t run : g.image.runs) {
      std::memcpy(to, levels + static_cast<std::size_t>(at) + run, bytes);
      to += g.image.run;
    }
    for (std::size_t i = axes; i-- > 0;) {
      at += w.strides[i] * g.image.steps[i];
      if (++out[i] < w.output[i]) break;
      at -= w.output[i] * w.strides[i] * g.image.steps[i];
      out[i] = 0;
    }
  }
}

struct IntegerConvolution {
  Ints shape;  ///< of the weights
  std::size_t groups = 1;
  int zero = 0;
  std::vector<std::int16_t> weights;
  Finish finish;

  Geometry geometry(const Call& call, const Array& x) const {
    const auto outputs = static_cast<std::size_t>(shape[0]), inputs = static_cast<std::size_t>(shape[1]);
    if (x.rank() != static_cast<std::int64_t>(shape.size()) || groups == 0 || outputs % groups != 0 ||
        static_cast<std::size_t>(x.dim(1)) != inputs * groups)
      call.fail("cannot take " + text_of(x) + " and weights " + graph::text_of(shape));
    Geometry made{.window = graph::window_of(call.node(), std::span(x.shape()).subspan(2),
                                             {shape.begin() + 2, shape.end()})};
    made.image = image_of(call, made.window, inputs * groups, inputs);
    made.shape = {x.dim(0), shape[0]};
    made.shape.insert(made.shape.end(), made.window.output.begin(), made.window.output.end());
    made.samples = static_cast<std::size_t>(x.dim(0));
    made.places = static_cast<std::size_t>(product_of(made.window.output, 0, made.window.axes()));
    return made;
  }

  void run(Call& call, const Array& x, const Geometry& g) const {
    Array& made = call.make(0, finish.type(), g.shape);
    if (made.size() == 0) return;
    const auto outputs = static_cast<std::size_t>(shape[0]), inputs = static_cast<std::size_t>(shape[1]);
    const std::size_t own = outputs / groups, places = g.places;
    const std::size_t terms = inputs * static_cast<std::size_t>(product_of(shape, 2, shape.size()));
    const std::size_t width = integer::padded(terms), plane = x.size() / g.samples;
    const std::size_t pieces = (places + kRowsAtATime - 1) / kRowsAtATime;
    call.spend({made.size(), terms});
    const int threads = threads_for(call, places * outputs * terms);
    Array held(ElementType::kInt16,
               {static_cast<std::int64_t>(g.image.size)});  // counted, whatever the padding
    const auto levels = held.writable<std::int16_t>();
    // Samples one after the other; threads share the positions of each.
    for (std::size_t n = 0; n < g.samples; ++n) {
      with_codes(call, x, [&]<class T>() {
        lay_out(g.window, g.image, x.values<T>().data() + n * plane, zero, levels);
      });
      parallel_for(pieces, 1, threads, [&](std::size_t begin, std::size_t end) {
        std::vector<std::int16_t> rows(kRowsAtATime * width, 0);
        std::vector<std::int32_t> sums(own * kRowsAtATime);
        for (std::size_t piece = begin; piece < end; ++piece) {
          const std::size_t first = piece * kRowsAtATime, count = std::min(places - first, kRowsAtATime);
          for (std::size_t group = 0; group < groups; ++group) {
            gather_rows(g, levels.data() + group * inputs, first, count, width, rows.data());
            integer::multiply({count, own, width, rows.data(), weights.data() + group * own * width,
                               sums.data(), kRowsAtATime});
            for (std::size_t c = 0; c < own; ++c) {
              finish.put(integer::Channels::kOne, group * own + c,
                         std::span(sums).subspan(c * kRowsAtATime, count), made,
                         (n * outputs + group * own + c) * places + first);
            }
          }
        }
      });
    }
  }
};

Kernel integer_convolution(const NodeFacts& facts) {
  const Array* w = facts.constant(1);
  if (!w) facts.fail("its weights are computed");
  if (w->type() == ElementType::kInt8) return byte_convolution(facts);
  if (w->type() != ElementType::kInt16 || w->rank() < 2) facts.fail("cannot take weights " + text_of(*w));
  auto layer = std::make_shared<const IntegerConvolution>(
      IntegerConvolution{.shape = w->shape(),
                         .groups = static_cast<std::size_t>(facts.int_or("group", 1)),
                         .zero = static_cast<int>(facts.int_or("zero", 0)),
                         .weights = window_rows(*w),
                         .finish = Finish::of(facts, static_cast<std::size_t>(w->dim(0)))});
  return [layer = std::move(layer), known = std::make_shared<ByShape<Geometry>>()](Call& call) {
    const Array x = call.in(0);
    layer->run(call, x, *known->of(x.shape(), [&] { return layer->geometry(call, x); }));
  };
}

}  // namespace

std::span<const OperatorRow> integer_convolution_operators() {
  static constexpr OperatorRow kRows[] = {{"Conv", integer_convolution, Takes::kAll, kRuntimeDomain}};
  return kRows;
}

}  // namespace crumb::runtime
