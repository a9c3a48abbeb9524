// The operators of lower/domain.h: quantizers to codes and back, and products of codes and integer weights.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/checked_size.h"
#include "base/threads/parallel.h"
#include "graph/window.h"
#include "runtime/integer/products.h"
#include "runtime/lower/domain.h"
#include "runtime/ops/families.h"
#include "runtime/ops/movement.h"

namespace crumb::runtime {
namespace {

constexpr std::size_t kRowsAtATime = 64;
constexpr std::size_t kMostImage = std::size_t{1} << 40;  // elements of a sample with its padding
constexpr std::size_t kWork = std::size_t{1} << 18;       // multiplications that are worth a thread

ElementType type_of(const NodeFacts& facts) {
  return graph::element_type_of(facts.int_or("type", 0)).value_or(ElementType::kUnknown);
}

/// The nearest integer, ties to even. Precondition: |x| <= 2^22.
float nearest(float x) {
  constexpr float kMagic = 0x1.8p23F;
  return (x + kMagic) - kMagic;
}

Kernel codes(const NodeFacts& facts) {
  const float scale = facts.float_or("scale", 1), zero = static_cast<float>(facts.int_or("zero", 0));
  const float low = static_cast<float>(facts.int_or("low", 0)),
              high = static_cast<float>(facts.int_or("high", 0));
  const bool bipolar = facts.int_or("bipolar", 0) != 0;
  return [=, type = type_of(facts)](Call& call) {
    const auto x = call.floats(0);
    Array& made = call.make(0, type, call.in(0).shape());
    const auto fill = [&]<class T>() {
      const auto to = made.writable<T>();
      if (bipolar) {
        std::ranges::transform(x, to.begin(),
                               [&](float v) { return static_cast<T>(v / scale + zero >= 0 ? 1 : -1); });
        return;
      }
      std::ranges::transform(x, to.begin(), [&](float v) {
        float u = v / scale + zero;
        u = u > low ? u : low;
        u = u < high ? u : high;
        return static_cast<T>(static_cast<int>(nearest(u)));
      });
    };
    if (made.carrier() == Carrier::kUint8) {
      fill.operator()<std::uint8_t>();
    } else {
      fill.operator()<std::int8_t>();
    }
  };
}

/// Calls f.operator()<T>() with the type that carries codes.
template <class F>
void with_codes(const Call& call, const Array& array, const F& f) {
  if (array.carrier() == Carrier::kUint8) return f.template operator()<std::uint8_t>();
  if (array.carrier() == Carrier::kInt8) return f.template operator()<std::int8_t>();
  call.fail("cannot take " + text_of(array) + " as codes");
}

Kernel values(const NodeFacts& facts) {
  const float scale = facts.float_or("scale", 1);
  const auto zero = static_cast<int>(facts.int_or("zero", 0));
  return [=](Call& call) {
    const Array& x = call.in(0);
    const auto to = call.make(0, ElementType::kFloat, x.shape()).writable<float>();
    with_codes(call, x, [&]<class T>() {
      std::ranges::transform(x.values<T>(), to.begin(), [&](T code) {
        return static_cast<float>(static_cast<int>(code) - zero) * scale;
      });
    });
  };
}

/// What becomes of the sums of a channel.
struct Finish {
  std::vector<double> factors, shifts;
  std::vector<std::int32_t> thresholds;
  std::size_t steps = 0;
  std::int32_t low = 0;
  bool bipolar = false;
  ElementType type = ElementType::kFloat;

  bool gives_codes() const { return type != ElementType::kFloat; }

  /// Writes element i to out[i * stride].
  void floats(std::size_t channel, std::span<const std::int32_t> sums, float* out, std::size_t stride) const {
    const double factor = factors[channel], shift = shifts[channel];
    for (std::size_t i = 0; i < sums.size(); ++i)
      out[i * stride] = static_cast<float>(static_cast<double>(sums[i]) * factor + shift);
  }

  template <class T>
  void codes(std::size_t channel, std::span<const std::int32_t> sums, T* out, std::size_t stride) const {
    std::int32_t reached[kRowsAtATime] = {};
    const std::int32_t* const steps_of = thresholds.data() + channel * steps;
    constexpr std::size_t kFew = 24;
    if (steps <= kFew) {
      for (std::size_t t = 0; t < steps; ++t) {
        const std::int32_t threshold = steps_of[t];
        for (std::size_t i = 0; i < sums.size(); ++i) reached[i] += sums[i] >= threshold ? 1 : 0;
      }
    } else {
      for (std::size_t i = 0; i < sums.size(); ++i)
        reached[i] =
            static_cast<std::int32_t>(std::upper_bound(steps_of, steps_of + steps, sums[i]) - steps_of);
    }
    const std::int32_t by = bipolar ? 2 : 1, from = bipolar ? -1 : low;
    for (std::size_t i = 0; i < sums.size(); ++i) out[i * stride] = static_cast<T>(from + by * reached[i]);
  }
};

template <class T>
std::vector<T> constant_values(const NodeFacts& facts, std::size_t i) {
  const Array* constant = facts.constant(i);
  if (!constant) return {};
  const auto all = constant->values<T>();
  return {all.begin(), all.end()};
}

Finish finish_of(const NodeFacts& facts) {
  Finish finish{.factors = constant_values<double>(facts, 2),
                .shifts = constant_values<double>(facts, 3),
                .thresholds = constant_values<std::int32_t>(facts, 4),
                .low = static_cast<std::int32_t>(facts.int_or("low", 0)),
                .bipolar = facts.int_or("bipolar", 0) != 0};
  if (facts.constant(4)) {
    finish.steps = static_cast<std::size_t>(facts.constant(4)->dim(1));
    finish.type = type_of(facts);
  }
  return finish;
}

/// Rows of weights, filled up with zeros.
std::vector<std::int16_t> padded_rows(const std::int16_t* w, std::size_t rows, std::size_t terms) {
  const std::size_t width = integer::padded(terms);
  std::vector<std::int16_t> made(rows * width, 0);
  for (std::size_t r = 0; r < rows; ++r) std::copy_n(w + r * terms, terms, made.data() + r * width);
  return made;
}

/// Sums to where they belong: row m of the product is element m of each channel, `row_stride` apart; channels are
/// `channel_stride` apart.
void finish_block(const Finish& finish, std::size_t first_channel, std::size_t channels,
                  const std::int32_t* sums, std::size_t rows, Array& made, std::size_t at,
                  std::size_t channel_stride, std::size_t row_stride) {
  const auto each = [&]<class T>(T* out) {
    for (std::size_t c = 0; c < channels; ++c) {
      const std::span<const std::int32_t> own(sums + c * kRowsAtATime, rows);
      T* const to = out + at + c * channel_stride;
      if constexpr (std::is_same_v<T, float>) {
        finish.floats(first_channel + c, own, to, row_stride);
      } else {
        finish.codes(first_channel + c, own, to, row_stride);
      }
    }
  };
  if (!finish.gives_codes()) return each(made.writable<float>().data());
  if (made.carrier() == Carrier::kUint8) return each(made.writable<std::uint8_t>().data());
  each(made.writable<std::int8_t>().data());
}

int threads_for(const Call& call, std::size_t work) { return work <= kWork ? 1 : call.threads(); }

Kernel integer_mat_mul(const NodeFacts& facts) {
  const Array* w = facts.constant(1);
  if (!w) facts.fail("its weights are computed");
  const auto outputs = static_cast<std::size_t>(w->dim(0)), terms = static_cast<std::size_t>(w->dim(1));
  return [=, zero = static_cast<int>(facts.int_or("zero", 0)), finish = finish_of(facts),
          weights = padded_rows(w->values<std::int16_t>().data(), outputs, terms)](Call& call) {
    const Array x = call.in(0);
    if (x.rank() < 1 || x.dim(x.rank() - 1) != static_cast<std::int64_t>(terms))
      call.fail("cannot multiply " + text_of(x) + " by rows of " + std::to_string(terms));
    Ints shape = x.shape();
    shape.back() = static_cast<std::int64_t>(outputs);
    Array& made = call.make(0, finish.type, shape);
    const std::size_t rows = terms == 0 ? made.size() / std::max<std::size_t>(outputs, 1) : x.size() / terms;
    if (made.size() == 0) return;
    call.spend({rows, outputs, terms});
    const std::size_t width = integer::padded(terms), pieces = (rows + kRowsAtATime - 1) / kRowsAtATime;
    parallel_for(
        pieces, 1, threads_for(call, rows * outputs * terms), [&](std::size_t begin, std::size_t end) {
          std::vector<std::int16_t> levels(kRowsAtATime * width, 0);
          std::vector<std::int32_t> sums(outputs * kRowsAtATime);
          for (std::size_t piece = begin; piece < end; ++piece) {
            const std::size_t first = piece * kRowsAtATime, count = std::min(rows - first, kRowsAtATime);
            with_codes(call, x, [&]<class T>() {
              const T* const from = x.values<T>().data() + first * terms;
              for (std::size_t r = 0; r < count; ++r) {
                for (std::size_t k = 0; k < terms; ++k)
                  levels[r * width + k] = static_cast<std::int16_t>(from[r * terms + k] - zero);
              }
            });
            integer::multiply(
                {count, outputs, width, levels.data(), weights.data(), sums.data(), kRowsAtATime});
            finish_block(finish, 0, outputs, sums.data(), count, made, first * outputs, 1, outputs);
          }
        });
  };
}

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
  Ints taps = w.kernel;
  if (joined) taps.back() = 1;
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

/// Weights [outputs, inputs, kernel...] as rows in the order of an image's windows: kernel, then inputs; padded.
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

Kernel integer_convolution(const NodeFacts& facts) {
  const Array* w = facts.constant(1);
  if (!w) facts.fail("its weights are computed");
  return [shape = w->shape(), weights = window_rows(*w), finish = finish_of(facts),
          zero = static_cast<int>(facts.int_or("zero", 0)),
          groups = static_cast<std::size_t>(facts.int_or("group", 1))](Call& call) {
    const Array x = call.in(0);
    const auto outputs = static_cast<std::size_t>(shape[0]), inputs = static_cast<std::size_t>(shape[1]);
    if (x.rank() != static_cast<std::int64_t>(shape.size()) || groups == 0 || outputs % groups != 0 ||
        static_cast<std::size_t>(x.dim(1)) != inputs * groups)
      call.fail("cannot take " + text_of(x) + " and weights " + graph::text_of(shape));
    const Ints kernel(shape.begin() + 2, shape.end());
    const graph::Window window = graph::window_of(call.node(), std::span(x.shape()).subspan(2), kernel);
    Ints made_shape{x.dim(0), shape[0]};
    made_shape.insert(made_shape.end(), window.output.begin(), window.output.end());
    Array& made = call.make(0, finish.type, made_shape);
    if (made.size() == 0) return;
    const auto places = static_cast<std::size_t>(product_of(window.output, 0, window.axes()));
    const auto samples = static_cast<std::size_t>(x.dim(0)), channels = inputs * groups;
    const std::size_t terms = inputs * static_cast<std::size_t>(product_of(kernel, 0, kernel.size()));
    call.spend({made.size(), terms});
    const Image image = image_of(call, window, channels, inputs);
    const std::size_t plane = x.size() / std::max<std::size_t>(samples, 1), width = integer::padded(terms);
    const std::size_t pieces = (places + kRowsAtATime - 1) / kRowsAtATime, own = outputs / groups;
    const int threads = threads_for(call, made.size() * terms);
    Array held(ElementType::kInt16,
               {static_cast<std::int64_t>(image.size)});  // counted, whatever the padding
    const auto levels = held.writable<std::int16_t>();
    // Samples one after the other, the places of each shared out.
    for (std::size_t n = 0; n < samples; ++n) {
      with_codes(call, x,
                 [&]<class T>() { lay_out(window, image, x.values<T>().data() + n * plane, zero, levels); });
      parallel_for(pieces, 1, threads, [&](std::size_t begin, std::size_t end) {
        std::vector<std::int16_t> rows(kRowsAtATime * width, 0);
        std::vector<std::int32_t> sums(own * kRowsAtATime);
        for (std::size_t piece = begin; piece < end; ++piece) {
          const std::size_t first = piece * kRowsAtATime, count = std::min(places - first, kRowsAtATime);
          for (std::size_t g = 0; g < groups; ++g) {
            for (std::size_t r = 0; r < count; ++r) {
              auto rest = static_cast<std::int64_t>(first + r);
              std::int64_t at = static_cast<std::int64_t>(g * inputs);
              for (std::size_t i = window.axes(); i-- > 0; rest /= window.output[i])
                at += rest % window.output[i] * window.strides[i] * image.steps[i];
              std::int16_t* to = rows.data() + r * width;
              for (const std::size_t run : image.runs) {
                std::memcpy(to, levels.data() + static_cast<std::size_t>(at) + run,
                            image.run * sizeof(std::int16_t));
                to += image.run;
              }
            }
            integer::multiply({count, own, width, rows.data(), weights.data() + g * own * width, sums.data(),
                               kRowsAtATime});
            finish_block(finish, g * own, own, sums.data(), count, made,
                         (n * outputs + g * own) * places + first, places, 1);
          }
        }
      });
    }
  };
}

}  // namespace

std::span<const OperatorRow> integer_operators() {
  static constexpr OperatorRow kRows[] = {
      {"Codes", codes, Takes::kFloats, kRuntimeDomain},
      {"Values", values, Takes::kAll, kRuntimeDomain},
      {"Conv", integer_convolution, Takes::kAll, kRuntimeDomain},
      {"MatMul", integer_mat_mul, Takes::kAll, kRuntimeDomain},
  };
  return kRows;
}

}  // namespace crumb::runtime
