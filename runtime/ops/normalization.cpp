// Normalizations: (x - mean) / sqrt(variance + epsilon), scaled and shifted; variances divide by the count.
#include <algorithm>
#include <cmath>

#include "runtime/exact/by_double.h"
#include "runtime/exact/products.h"
#include "runtime/ops/broadcast.h"
#include "runtime/ops/families.h"
#include "runtime/ops/movement.h"

namespace crumb::runtime {
namespace {

struct Moments {
  float mean, inverse;  ///< 1 / sqrt(variance + epsilon)
};

Moments moments_of(const float* x, std::size_t count, float epsilon) {
  const auto n = static_cast<float>(count);
  const float mean = exact::sum_of(count, [&](std::size_t i) { return x[i]; }) / n;
  const float squares = exact::sum_of(count, [&](std::size_t i) { return (x[i] - mean) * (x[i] - mean); });
  return {mean, 1.0F / std::sqrt(squares / n + epsilon)};
}

/// One number for each channel, of an input that may be left out.
std::span<const float> of_channels(const Call& call, std::size_t i, std::size_t channels) {
  const auto values = call.floats(i);
  if (values.size() != channels)
    call.fail("input " + std::to_string(i) + " is " + text_of(call.in(i)) +
              ", expected one number for each of " + std::to_string(channels) + " channels");
  return values;
}

std::size_t channels_of(const Call& call) {
  const Array& x = call.in(0);
  if (x.rank() < 1) call.fail("cannot take " + text_of(x));
  return static_cast<std::size_t>(x.rank() < 2 ? 1 : x.dim(1));
}

/// Inference: with given means and variances.
Kernel batch_normalization(const NodeFacts& facts) {
  const float epsilon = facts.float_or("epsilon", 1e-5F);
  if (facts.int_or("training_mode", 0) != 0) facts.fail("training is not there");
  if (facts.int_or("spatial", 1) == 0) facts.fail("one mean for each place is not there");
  for (std::size_t i = 1; i < facts.node.outputs.size(); ++i) {
    if (facts.node.has_output(i)) facts.fail("further outputs, of training, are not there");
  }
  return [epsilon](Call& call) {
    const std::size_t channels = channels_of(call);
    const auto scale = of_channels(call, 1, channels), bias = of_channels(call, 2, channels),
               mean = of_channels(call, 3, channels), variance = of_channels(call, 4, channels);
    const Ints shape = call.in(0).shape();
    const auto plane =
        static_cast<std::size_t>(product_of(shape, std::min<std::size_t>(2, shape.size()), shape.size()));
    const auto x = call.floats(0);
    const auto y = call.make_over(0, 0, call.in(0).type(), shape).writable<float>();
    for (std::size_t at = 0, c = 0; at < x.size(); at += plane, c = c + 1 == channels ? 0 : c + 1) {
      const float factor = scale[c] / std::sqrt(variance[c] + epsilon);
      for (std::size_t i = at; i < at + plane; ++i) y[i] = (x[i] - mean[c]) * factor + bias[c];
    }
  };
}

Kernel instance_normalization(const NodeFacts& facts) {
  const float epsilon = facts.float_or("epsilon", 1e-5F);
  return [epsilon](Call& call) {
    const std::size_t channels = channels_of(call);
    const auto scale = of_channels(call, 1, channels), bias = of_channels(call, 2, channels);
    const Ints shape = call.in(0).shape();
    if (shape.size() < 3) call.fail("cannot take " + text_of(call.in(0)));
    const auto plane = static_cast<std::size_t>(product_of(shape, 2, shape.size()));
    const auto x = call.floats(0);
    const auto y = call.make_over(0, 0, call.in(0).type(), shape).writable<float>();
    for (std::size_t at = 0, c = 0; plane > 0 && at < x.size();
         at += plane, c = c + 1 == channels ? 0 : c + 1) {
      const Moments m = moments_of(x.data() + at, plane, epsilon);
      for (std::size_t i = at; i < at + plane; ++i) y[i] = (x[i] - m.mean) * m.inverse * scale[c] + bias[c];
    }
  };
}

/// Whether a shape is that of what lies from `axis` on.
bool is_end_of(const Ints& own, const Ints& shape, std::size_t axis) {
  return std::equal(own.begin(), own.end(), shape.begin() + static_cast<std::ptrdiff_t>(axis), shape.end());
}

/// Multiplies each row by the values, or adds them.
void apply_to_rows(std::span<const float> values, bool adds, std::span<float> y) {
  for (std::size_t at = 0; at < y.size(); at += values.size()) {
    float* const row = y.data() + at;
    if (adds) {
      for (std::size_t i = 0; i < values.size(); ++i) row[i] += values[i];
    } else {
      for (std::size_t i = 0; i < values.size(); ++i) row[i] *= values[i];
    }
  }
}

/// Rows are what lies from `axis` on; scale and bias broadcast to them.
template <bool kRootMeanSquare>
Kernel row_normalization(const NodeFacts& facts) {
  const float epsilon = facts.float_or("epsilon", 1e-5F);
  const std::int64_t requested = facts.int_or("axis", -1);
  for (std::size_t i = 1; i < facts.node.outputs.size(); ++i) {
    if (facts.node.has_output(i)) facts.fail("its further outputs are not there");
  }
  return [=](Call& call) {
    const Ints shape = call.in(0).shape();
    const auto axis = static_cast<std::size_t>(call.usual_axis(requested, call.in(0).rank()));
    const auto width = static_cast<std::size_t>(product_of(shape, axis, shape.size()));
    const auto x = call.floats(0);
    const auto y = call.make_over(0, 0, call.in(0).type(), shape).writable<float>();
    for (std::size_t at = 0; width > 0 && at < x.size(); at += width) {
      Moments m{0, 0};
      if (kRootMeanSquare) {
        const float squares = exact::sum_of(width, [&](std::size_t i) { return x[at + i] * x[at + i]; });
        m.inverse = 1.0F / std::sqrt(squares / static_cast<float>(width) + epsilon);
      } else {
        m = moments_of(x.data() + at, width, epsilon);
      }
      for (std::size_t i = at; i < at + width; ++i) y[i] = (x[i] - m.mean) * m.inverse;
    }
    const auto apply = [&](std::size_t input, bool adds) {
      if (!call.has(input)) return;
      const auto values = call.floats(input);
      const Ints& own = call.in(input).shape();
      if (is_end_of(own, shape, axis)) return apply_to_rows(values, adds, y);
      const Ints* shapes[] = {&shape, &own};
      if (broadcast_shape(call, shapes) != shape)
        call.fail("input " + std::to_string(input) + " does not broadcast to " + graph::text_of(shape));
      for_broadcast(shape, std::array<const Ints*, 1>{&own},
                    [&](std::size_t to, const Offsets& from, const Offsets& step, std::size_t count) {
                      for (std::size_t i = 0; i < count; ++i) {
                        const float v = values[from[0] + i * step[0]];
                        y[to + i] = adds ? y[to + i] + v : y[to + i] * v;
                      }
                    });
    };
    apply(1, false);
    if (!kRootMeanSquare) apply(2, true);
  };
}

/// By the squares of neighbouring channels, which are added up in their order.
Kernel local_response_normalization(const NodeFacts& facts) {
  const std::int64_t size = facts.int_or("size", 0);
  if (size < 1) facts.fail("expected a size of 1 or more, found " + std::to_string(size));
  const float beta = facts.float_or("beta", 0.75F), bias = facts.float_or("bias", 1.0F),
              each = facts.float_or("alpha", 1e-4F) / static_cast<float>(size);
  return [=](Call& call) {
    const Array x = call.in(0);
    if (x.rank() < 2) call.fail("cannot take " + text_of(x));
    const std::int64_t channels = x.dim(1);
    const auto plane = product_of(x.shape(), 2, x.shape().size());
    const auto from = call.floats(0);
    const auto to = call.make(0, x.type(), x.shape()).writable<float>();
    call.spend({x.size(), static_cast<std::size_t>(std::min(size, channels))});
    for (std::int64_t at = 0; at < std::ssize(from); ++at) {
      const std::int64_t channel = at / plane % channels, first = at - channel * plane;
      const std::int64_t begin = std::max<std::int64_t>(0, channel - (size - 1) / 2),
                         end = std::min(channels, channel + size / 2 + 1);
      float sum = 0;
      for (std::int64_t c = begin; c < end; ++c) {
        const float v = from[static_cast<std::size_t>(first + c * plane)];
        sum += v * v;
      }
      const auto i = static_cast<std::size_t>(at);
      to[i] = from[i] / exact::pow_of(bias + each * sum, beta);
    }
  };
}

}  // namespace

std::span<const OperatorRow> normalization_operators() {
  static constexpr OperatorRow kRows[] = {
      {"BatchNormalization", batch_normalization, Takes::kFloats},
      {"InstanceNormalization", instance_normalization, Takes::kFloats},
      {"LayerNormalization", row_normalization<false>, Takes::kFloats},
      {"RMSNormalization", row_normalization<true>, Takes::kFloats},
      {"LRN", local_response_normalization, Takes::kFloats},
  };
  return kRows;
}

}  // namespace crumb::runtime
