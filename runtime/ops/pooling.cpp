// Pooling over windows, and over all positions.
#include <algorithm>
#include <limits>

#include "base/processor.h"
#include "base/threads/parallel.h"
#include "graph/window.h"
#include "runtime/exact/products.h"
#include "runtime/ops/by_shape.h"
#include "runtime/ops/convert.h"
#include "runtime/ops/families.h"
#include "runtime/ops/larger_floats.h"
#include "runtime/ops/movement.h"

namespace crumb::runtime {
namespace {

constexpr std::size_t kFewMaxima = std::size_t{1} << 17;  // not worth a thread

struct Pool {
  graph::Window window;
  std::size_t planes;  ///< samples times channels
  Ints shape;          ///< of the output
};

Pool pool_of(const Call& call, const Array& x) {
  if (x.rank() < 3)
    call.fail("expected an input of 3 or more axes (batch, channels, sizes), found " + text_of(x));
  const Ints sizes(x.shape().begin() + 2, x.shape().end());
  const Ints kernel = call.node().ints_or("kernel_shape", {});
  Pool pool{.window = graph::window_of(call.node(), sizes, kernel, true),
            .planes = static_cast<std::size_t>(x.dim(0) * x.dim(1)),
            .shape = {x.dim(0), x.dim(1)}};
  pool.shape.insert(pool.shape.end(), pool.window.output.begin(), pool.window.output.end());
  return pool;
}

/// The pool of a run; counts its work.
std::shared_ptr<const Pool> known_pool(const Call& call, ByShape<Pool>& known) {
  const Array& x = call.in(0);
  auto pool = known.of(x.shape(), [&] { return pool_of(call, x); });
  std::vector<std::size_t> work{pool->planes};
  for (const Ints* sizes_of : {&pool->window.output, &pool->window.kernel})
    work.insert(work.end(), sizes_of->begin(), sizes_of->end());
  call.spend(work);
  return pool;
}

/// Calls f(position, offsets, count) for each window of a plane: the offsets of its elements, row by row, and
/// the number of them that are inside of the input or its padding.
template <class F>
void for_windows(const graph::Window& w, const F& f) {
  const std::size_t axes = w.axes();
  const Ints strides = strides_of(w.input);
  const auto places = static_cast<std::size_t>(product_of(w.output, 0, axes));
  const std::int64_t taps = product_of(w.kernel, 0, axes);
  Ints k(axes), offsets;
  for (std::size_t place = 0; place < places; ++place) {
    Ints out(axes);
    auto rest = static_cast<std::int64_t>(place);
    for (std::size_t i = axes; i-- > 0; rest /= w.output[i]) out[i] = rest % w.output[i];
    offsets.clear();
    std::ranges::fill(k, 0);
    std::size_t padded = 0;
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      std::int64_t offset = 0;
      bool inside = true, in_padding = true;
      for (std::size_t i = 0; i < axes; ++i) {
        const std::int64_t at = out[i] * w.strides[i] + k[i] * w.dilations[i] - w.begin[i];
        inside = inside && at >= 0 && at < w.input[i];
        in_padding = in_padding && at < w.input[i] + w.end[i];
        offset += at * strides[i];
      }
      if (inside) offsets.push_back(offset);
      padded += in_padding ? 1 : 0;
      for (std::size_t i = axes; i-- > 0;) {
        if (++k[i] < w.kernel[i]) break;
        k[i] = 0;
      }
    }
    f(place, offsets, padded);
  }
}

/// The positions of an axis whose window has tap k inside of the input, [begin, end); position p takes
/// element p * stride + from.
struct Reach {
  std::int64_t begin = 0, end = 0, from = 0;
};

std::vector<Reach> reaches_of(const graph::Window& w, std::size_t axis) {
  std::vector<Reach> reaches;
  const std::int64_t stride = w.strides[axis];
  for (std::int64_t k = 0; k < w.kernel[axis]; ++k) {
    const std::int64_t from = k * w.dilations[axis] - w.begin[axis];
    const std::int64_t begin = from < 0 ? (-from + stride - 1) / stride : 0;
    const std::int64_t end = from < w.input[axis] ? (w.input[axis] - from - 1) / stride + 1 : 0;
    reaches.push_back({begin, std::min(end, w.output[axis]), from});
  }
  return reaches;
}

/// Windows over planes with two axes.
struct PlaneWindows {
  const graph::Window& window;
  std::size_t width, columns;  ///< of the input's rows, of the output's
  std::size_t plane, made;     ///< elements of a plane of the input, of the output
  std::size_t stride;          ///< along a row
  std::vector<Reach> down, across;

  explicit PlaneWindows(const graph::Window& w)
      : window(w),
        width(static_cast<std::size_t>(w.input[1])),
        columns(static_cast<std::size_t>(w.output[1])),
        plane(static_cast<std::size_t>(w.input[0]) * width),
        made(static_cast<std::size_t>(w.output[0]) * columns),
        stride(static_cast<std::size_t>(w.strides[1])),
        down(reaches_of(w, 0)),
        across(reaches_of(w, 1)) {}

  /// Whether a row of the output has the tap inside.
  static bool has(const Reach& tap, std::int64_t row) { return row >= tap.begin && row < tap.end; }
  /// The offset in a plane of the input's row for the tap.
  std::size_t row_of(const Reach& tap, std::int64_t row) const {
    return static_cast<std::size_t>(row * window.strides[0] + tap.from) * width;
  }
  /// The index in a row of the tap's first element, that of position tap.begin.
  std::int64_t first_of(const Reach& tap) const { return tap.begin * window.strides[1] + tap.from; }
};

template <class T>
void take_larger(T* to, const T* from, std::size_t count, std::size_t step) {
  if (step == 1) {
    for (std::size_t i = 0; i < count; ++i) to[i] = to[i] < from[i] ? from[i] : to[i];
  } else if (step == 2) {
    for (std::size_t i = 0; i < count; ++i) to[i] = to[i] < from[2 * i] ? from[2 * i] : to[i];
  } else {
    for (std::size_t i = 0; i < count; ++i) to[i] = to[i] < from[i * step] ? from[i * step] : to[i];
  }
}

/// Windows of two by two that do not overlap.
bool is_halving(const graph::Window& w) {
  for (std::size_t i = 0; i < 2; ++i) {
    if (w.kernel[i] != 2 || w.strides[i] != 2 || w.dilations[i] != 1 || w.begin[i] != 0 ||
        2 * w.output[i] > w.input[i])
      return false;
  }
  return true;
}

template <class T>
void halve_row(const T* upper, const T* lower, std::size_t count, T* to) {
  for (std::size_t i = 0; i < count; ++i)
    to[i] = std::max(std::max(upper[2 * i], upper[2 * i + 1]), std::max(lower[2 * i], lower[2 * i + 1]));
}

/// Maxima over the windows of planes of bytes with two axes: of rows first, which lie side by side, then of
/// columns.
template <class T>
void max_of_planes(const Pool& pool, const T* x, T* to, int threads) {
  const PlaneWindows w(pool.window);
  const bool halves = is_halving(pool.window);
  constexpr std::size_t kPlaneBytes = std::size_t{1} << 16;  // that are worth a thread
  parallel_for(pool.planes, kPlaneBytes / (w.plane + 1) + 1, threads,
               [&](std::size_t begin, std::size_t end) {
                 std::vector<T> most(w.width);
                 for (std::size_t p = begin; p < end; ++p) {
                   const T* const plane = x + p * w.plane;
                   T* made = to + p * w.made;
                   for (std::int64_t row = 0; row < pool.window.output[0]; ++row, made += w.columns) {
                     if (halves) {
                       const T* const upper = plane + static_cast<std::size_t>(2 * row) * w.width;
                       halve_row(upper, upper + w.width, w.columns, made);
                       continue;
                     }
                     std::ranges::fill(most, std::numeric_limits<T>::lowest());
                     for (const Reach& tap : w.down)
                       if (w.has(tap, row)) take_larger(most.data(), plane + w.row_of(tap, row), w.width, 1);
                     std::fill_n(made, w.columns, std::numeric_limits<T>::lowest());
                     for (const Reach& tap : w.across) {
                       if (tap.begin >= tap.end) continue;
                       const auto first = static_cast<std::size_t>(tap.begin),
                                  count = static_cast<std::size_t>(tap.end) - first;
                       const T* const values = most.data() + w.first_of(tap);
                       for (std::size_t i = 0; i < count; ++i)
                         made[first + i] = std::max(made[first + i], values[i * w.stride]);
                     }
                   }
                 }
               });
}

/// The windows of two axes with the long one last where the last axis has one element, position and tap: the
/// elements lie in the same order.
graph::Window with_long_axis_last(graph::Window window) {
  if (window.input[1] != 1 || window.output[1] != 1 || window.kernel[1] != 1) return window;
  for (Ints* sizes : {&window.kernel, &window.strides, &window.dilations, &window.begin, &window.end,
                      &window.input, &window.output})
    std::swap((*sizes)[0], (*sizes)[1]);
  return window;
}

/// Maxima over the windows of planes with two axes, one tap after the other in the order of the window, so
/// that of zeros and of NaN the first counts.
class MaximaByTaps {
 public:
  explicit MaximaByTaps(const graph::Window& window) : w_(window), behind_(window.output[1]) {
    for (const Reach& tap : w_.across) {
      first_ = std::max(first_, tap.begin);
      behind_ = std::min(behind_, tap.end);
    }
    if (first_ >= behind_) first_ = behind_ = 0;
    for (std::int64_t row = 0; row < window.output[0]; ++row) {
      Row& made = rows_.emplace_back();
      for (const Reach& down : w_.down) {
        if (!PlaneWindows::has(down, row)) continue;
        for (const Reach& across : w_.across) {
          made.taps.push_back({w_.row_of(down, row), &across});
          if (behind_ > 0)
            made.offsets.push_back(w_.row_of(down, row) +
                                   static_cast<std::size_t>(first_ * window.strides[1] + across.from));
        }
      }
    }
  }

  const PlaneWindows& windows() const { return w_; }

  /// The outputs of a plane.
  template <class T>
  void take(const T* plane, T* made) const {
    const std::int64_t columns = w_.window.output[1];
    for (const Row& row : rows_) {
      take_each(row, plane, 0, first_, made);
      if constexpr (std::is_same_v<T, float>)
        largest_of_taps({plane, row.offsets, w_.stride}, static_cast<std::size_t>(behind_ - first_),
                        made + first_);
      else
        take_each(row, plane, first_, behind_, made);
      take_each(row, plane, behind_, columns, made);
      made += w_.columns;
    }
  }

 private:
  struct Tap {
    std::size_t row;  ///< of the input, its offset in a plane
    const Reach* across;
  };
  /// Of outputs: the taps that are in the input, and where those of output first_ are in a plane.
  struct Row {
    std::vector<Tap> taps;
    std::vector<std::size_t> offsets;
  };

  /// By the definition, the outputs [begin, end) of a row.
  template <class T>
  void take_each(const Row& row, const T* plane, std::int64_t begin, std::int64_t end, T* made) const {
    for (std::int64_t at = begin; at < end; ++at) {
      T most = -std::numeric_limits<T>::infinity();
      for (const Tap& tap : row.taps) {
        if (PlaneWindows::has(*tap.across, at))
          most = larger_of(
              most, plane[tap.row + static_cast<std::size_t>(at * w_.window.strides[1] + tap.across->from)]);
      }
      made[at] = most;
    }
  }

  PlaneWindows w_;
  std::int64_t first_ = 0, behind_;  ///< outputs of a row that have all taps of the row inside
  std::vector<Row> rows_;
};

template <class T>
void max_by_taps(const Pool& pool, const T* x, T* to, int threads) {
  const graph::Window window = with_long_axis_last(pool.window);
  const MaximaByTaps maxima(window);
  const PlaneWindows& w = maxima.windows();
  parallel_for(pool.planes, kFewMaxima / (w.plane * w.across.size() + 1) + 1, threads,
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t p = begin; p < end; ++p) maxima.take(x + p * w.plane, to + p * w.made);
               });
}

/// Calls f.operator()<T>() for the types that MaxPool is defined for.
template <class F>
void with_pooled(const Call& call, const Array& x, const F& f) {
  switch (x.carrier()) {
    case Carrier::kFloat: return f.template operator()<float>();
    case Carrier::kDouble: return f.template operator()<double>();
    case Carrier::kInt8: return f.template operator()<std::int8_t>();
    case Carrier::kUint8: return f.template operator()<std::uint8_t>();
    default: call.fail("cannot take " + text_of(x));
  }
}

Kernel max_pool(const NodeFacts& facts) {
  if (facts.node.has_output(1)) facts.fail("its second output, the places, is not there");
  return [known = std::make_shared<ByShape<Pool>>()](Call& call) {
    const auto held = known_pool(call, *known);
    const Pool& pool = *held;
    const Array x = call.in(0);
    const auto plane = static_cast<std::size_t>(product_of(pool.window.input, 0, pool.window.axes()));
    const auto places = static_cast<std::size_t>(product_of(pool.window.output, 0, pool.window.axes()));
    Array& made = call.make(0, x.type(), pool.shape);
    with_pooled(call, x, [&]<class T>() {
      const T* const from = x.values<T>().data();
      T* const to = made.writable<T>().data();
      if (pool.window.axes() == 2) {
        const int threads = made.size() < kFewMaxima ? 1 : call.threads();
        if constexpr (sizeof(T) == 1) return max_of_planes(pool, from, to, threads);
        if constexpr (sizeof(T) > 1) return max_by_taps(pool, from, to, threads);
      }
      const T least = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                           : std::numeric_limits<T>::lowest();
      for_windows(pool.window, [&](std::size_t place, const Ints& offsets, std::size_t) {
        for (std::size_t p = 0; p < pool.planes; ++p) {
          T most = least;
          for (const std::int64_t offset : offsets) {
            const T v = from[p * plane + static_cast<std::size_t>(offset)];
            most = larger_of(most, v);
          }
          to[p * places + place] = most;
        }
      });
    });
  };
}

Kernel average_pool(const NodeFacts& facts) {
  const bool counts_padding = facts.int_or("count_include_pad", 0) != 0;
  return [counts_padding, known = std::make_shared<ByShape<Pool>>()](Call& call) {
    const auto held = known_pool(call, *known);
    const Pool& pool = *held;
    const Array x = call.in(0);
    const auto plane = static_cast<std::size_t>(product_of(pool.window.input, 0, pool.window.axes()));
    const auto places = static_cast<std::size_t>(product_of(pool.window.output, 0, pool.window.axes()));
    const float* const from = call.floats(0).data();
    float* const to = call.make(0, x.type(), pool.shape).writable<float>().data();
    for_windows(pool.window, [&](std::size_t place, const Ints& offsets, std::size_t padded) {
      const auto count = static_cast<float>(counts_padding ? padded : offsets.size());
      for (std::size_t p = 0; p < pool.planes; ++p) {
        const float* const values = from + p * plane;
        to[p * places + place] =
            exact::sum_of(offsets.size(), [&](std::size_t i) { return values[offsets[i]]; }) / count;
      }
    });
  };
}

/// One number for each channel of each sample.
template <class F>
void global_pool(Call& call, const F& f) {
  const Array x = call.in(0);
  if (x.rank() < 2) call.fail("cannot take " + text_of(x));
  Ints shape(x.shape().size(), 1);
  shape[0] = x.dim(0);
  shape[1] = x.dim(1);
  const auto plane = static_cast<std::size_t>(product_of(x.shape(), 2, x.shape().size()));
  const float* const from = call.floats(0).data();
  const auto to = call.make(0, x.type(), shape).writable<float>();
  for (std::size_t p = 0; p < to.size(); ++p) to[p] = f(from + p * plane, plane);
}

Kernel global_average_pool(const NodeFacts&) {
  return [](Call& call) {
    global_pool(call, [](const float* x, std::size_t count) {
      return exact::sum_of(count, [&](std::size_t i) { return x[i]; }) / static_cast<float>(count);
    });
  };
}

Kernel global_max_pool(const NodeFacts&) {
  return [](Call& call) {
    global_pool(call, [](const float* x, std::size_t count) {
      float most = -std::numeric_limits<float>::infinity();
      for (std::size_t i = 0; i < count; ++i) most = larger_of(most, x[i]);
      return most;
    });
  };
}

}  // namespace

std::span<const OperatorRow> pooling_operators() {
  static constexpr OperatorRow kRows[] = {
      {"MaxPool", max_pool},
      {"AveragePool", average_pool, Takes::kFloats},
      {"GlobalAveragePool", global_average_pool, Takes::kFloats},
      {"GlobalMaxPool", global_max_pool, Takes::kFloats},
  };
  return kRows;
}

}  // namespace crumb::runtime
