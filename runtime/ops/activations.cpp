// Activations, elementary functions, softmax.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/threads/parallel.h"
#include "runtime/exact/functions.h"
#include "runtime/exact/products.h"
#include "runtime/ops/broadcast.h"
#include "runtime/ops/convert.h"
#include "runtime/ops/families.h"
#include "runtime/ops/hard_functions.h"

namespace crumb::runtime {
namespace {

using exact::Function;

constexpr std::size_t kGrain = std::size_t{1} << 14;  // elements that are worth a thread

/// Output 0 is f of each piece of input 0: f(x, y), spans of as many.
template <class F>
void in_pieces(Call& call, const F& f) {
  const auto x = call.floats(0);
  const auto y = call.make_over(0, 0, call.in(0).type(), call.in(0).shape()).writable<float>();
  parallel_for(x.size(), kGrain, call.threads(), [&](std::size_t begin, std::size_t end) {
    f(x.subspan(begin, end - begin), y.subspan(begin, end - begin));
  });
}

template <class F>
void each(Call& call, const F& f) {
  in_pieces(call, [&](auto x, auto y) { std::ranges::transform(x, y.begin(), f); });
}

template <Function kFunction>
Kernel function(const NodeFacts&) {
  return [](Call& call) { in_pieces(call, [](auto x, auto y) { exact::apply(kFunction, x, y); }); };
}

Kernel relu(const NodeFacts&) {
  return [](Call& call) {
    with_wide_carrier(call.in(0).carrier(), [&]<class T>() {
      if constexpr (std::is_same_v<T, bool>) {
        call.fail("cannot take booleans");
      } else {
        const auto x = call.in(0).values<T>();
        const auto y = call.make_over(0, 0, call.in(0).type(), call.in(0).shape()).template writable<T>();
        std::ranges::transform(x, y.begin(), [](T v) { return v < 0 ? T{0} : v; });
      }
    });
  };
}

Kernel leaky_relu(const NodeFacts& facts) {
  const float slope = facts.float_or("alpha", 0.01F);
  return [slope](Call& call) { each(call, [slope](float x) { return x < 0 ? slope * x : x; }); };
}

Kernel thresholded_relu(const NodeFacts& facts) {
  const float least = facts.float_or("alpha", 1);
  return [least](Call& call) { each(call, [least](float x) { return x > least ? x : 0; }); };
}

/// Slopes broadcast to x, from the last axis; before version 7 one for each channel too.
Kernel parametric_relu(const NodeFacts&) {
  return [](Call& call) {
    const Array& x = call.in(0);
    Array slope = call.in(1);
    if (slope.rank() == 1 && x.rank() > 2 && slope.dim(0) == x.dim(1) && call.node().version < 7) {
      Ints shape(static_cast<std::size_t>(x.rank()) - 1, 1);
      shape[0] = slope.dim(0);
      slope = slope.reshaped(shape);
    }
    const Ints* shapes[] = {&x.shape(), &slope.shape()};
    if (broadcast_shape(call, shapes) != x.shape()) call.fail("its slopes do not broadcast to " + text_of(x));
    if (x.carrier() != Carrier::kFloat || slope.carrier() != Carrier::kFloat)
      call.fail("cannot take " + text_of(x) + " and " + text_of(slope));
    const auto v = x.values<float>(), s = slope.values<float>();
    const Ints shape = x.shape();
    float* const out = call.make_over(0, 0, x.type(), shape).writable<float>().data();
    for_broadcast(shape, std::array<const Ints*, 2>{&shape, &slope.shape()},
                  [&](std::size_t to, const Offsets& at, const Offsets& step, std::size_t count) {
                    for (std::size_t i = 0; i < count; ++i) {
                      const float one = v[at[0] + i * step[0]];
                      out[to + i] = one < 0 ? one * s[at[1] + i * step[1]] : one;
                    }
                  });
  };
}

Kernel elu(const NodeFacts& facts) {
  const float alpha = facts.float_or("alpha", 1);
  return [alpha](Call& call) {
    each(call, [alpha](float x) { return x < 0 ? alpha * (exact::exp_of(x) - 1) : x; });
  };
}

Kernel selu(const NodeFacts& facts) {
  const float alpha = facts.float_or("alpha", 1.67326319217681884765625F);
  const float gamma = facts.float_or("gamma", 1.05070102214813232421875F);
  return [=](Call& call) {
    each(call, [=](float x) { return gamma * (x > 0 ? x : alpha * exact::exp_of(x) - alpha); });
  };
}

Kernel hard_sigmoid(const NodeFacts& facts) {
  const float alpha = facts.float_or("alpha", 0.2F), beta = facts.float_or("beta", 0.5F);
  return [=](Call& call) { each(call, [=](float x) { return hard_sigmoid_of(x, alpha, beta); }); };
}

Kernel hard_swish(const NodeFacts&) {
  return [](Call& call) { each(call, [](float x) { return hard_swish_of(x); }); };
}

Kernel softsign(const NodeFacts&) {
  return [](Call& call) { each(call, [](float x) { return x / (1 + std::fabs(x)); }); };
}

/// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|).
Kernel softplus(const NodeFacts&) {
  return [](Call& call) {
    in_pieces(call, [](std::span<const float> x, std::span<float> y) {
      std::vector<float> inner(x.size());
      std::ranges::transform(x, inner.begin(), [](float v) { return 1 + exact::exp_of(-std::fabs(v)); });
      exact::apply(Function::kLog, inner, inner);
      for (std::size_t i = 0; i < x.size(); ++i) y[i] = std::fmax(x[i], 0.0F) + inner[i];
    });
  };
}

Kernel swish(const NodeFacts& facts) {
  const float alpha = facts.float_or("alpha", 1);
  return [alpha](Call& call) {
    in_pieces(call, [alpha](std::span<const float> x, std::span<float> y) {
      std::vector<float> inner(x.size());
      std::ranges::transform(x, inner.begin(), [alpha](float v) { return alpha * v; });
      exact::apply(Function::kSigmoid, inner, inner);
      for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * inner[i];
    });
  };
}

/// 0.5 x (1 + erf(x / sqrt 2)), or with tanh(sqrt(2 / pi) (x + 0.044715 x^3)).
Kernel gelu(const NodeFacts& facts) {
  const std::string form = facts.text_or("approximate", "none");
  if (form != "none" && form != "tanh") facts.fail("approximate: expected none or tanh, found " + form);
  const bool by_tanh = form == "tanh";
  return [by_tanh](Call& call) {
    in_pieces(call, [by_tanh](std::span<const float> x, std::span<float> y) {
      std::vector<float> inner(x.size());
      std::ranges::transform(x, inner.begin(), [by_tanh](float v) {
        return by_tanh ? 0x1.988454p-1F * (v + 0.044715F * (v * v * v)) : v * 0x1.6a09e6p-1F;
      });
      exact::apply(by_tanh ? Function::kTanh : Function::kErf, inner, inner);
      for (std::size_t i = 0; i < x.size(); ++i) y[i] = 0.5F * x[i] * (1.0F + inner[i]);
    });
  };
}

/// Limits are attributes before version 11, and inputs from there on.
Kernel clip(const NodeFacts& facts) {
  const bool by_attributes = facts.version() < 11;
  const float low = facts.float_or("min", std::numeric_limits<float>::lowest());
  const float high = facts.float_or("max", std::numeric_limits<float>::max());
  return [=](Call& call) {
    with_wide_carrier(call.in(0).carrier(), [&]<class T>() {
      if constexpr (std::is_same_v<T, bool>) {
        call.fail("cannot take booleans");
      } else {
        T least = std::numeric_limits<T>::lowest(), most = std::numeric_limits<T>::max();
        bool has_least = false, has_most = false;
        if (by_attributes) {
          if constexpr (!std::is_same_v<T, float>) call.fail("cannot take " + text_of(call.in(0)));
          least = converted<T>(low);
          most = converted<T>(high);
          has_least = has_most = true;
        }
        const auto limit = [&](std::size_t i, T& to, bool& has) {
          if (by_attributes || !call.has(i)) return;
          const auto values = call.values<T>(i, call.in(0).carrier());
          if (values.size() != 1)
            call.fail("input " + std::to_string(i) + ": expected one number, found " + text_of(call.in(i)));
          to = values[0];
          has = true;
        };
        limit(1, least, has_least);
        limit(2, most, has_most);
        const auto x = call.in(0).values<T>();
        const auto y = call.make_over(0, 0, call.in(0).type(), call.in(0).shape()).template writable<T>();
        std::ranges::transform(x, y.begin(), [&](T v) {
          if (has_least && v < least) v = least;
          if (has_most && v > most) v = most;
          return v;
        });
      }
    });
  };
}

/// Rows of `width` elements that lie `step` apart.
struct SoftmaxRows {
  std::size_t outer, width, step;
};

/// NaN is none of them; -infinity where there are no others.
float greatest_of(std::span<const float> row) {
  constexpr std::size_t kTogether = 16;
  float most[kTogether];
  std::ranges::fill(most, -std::numeric_limits<float>::infinity());
  std::size_t k = 0;
  for (; k + kTogether <= row.size(); k += kTogether) {
    for (std::size_t i = 0; i < kTogether; ++i) most[i] = row[k + i] > most[i] ? row[k + i] : most[i];
  }
  for (std::size_t i = 0; k + i < row.size(); ++i) most[i] = row[k + i] > most[i] ? row[k + i] : most[i];
  return std::ranges::max(most);
}

/// e^(x - max) / sum of them, or its logarithm x - max - log(sum). `powers`: room for a row.
void softmax_row(std::span<float> row, std::span<float> powers, bool is_log) {
  const float most = greatest_of(row);
  for (float& v : row) v -= most;
  exact::apply(Function::kExp, row, powers);
  const float sum = exact::sum_of(row.size(), [&](std::size_t i) { return powers[i]; });
  if (is_log) {
    float log = sum;
    exact::apply(Function::kLog, {&sum, 1}, {&log, 1});
    for (float& v : row) v -= log;
  } else {
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = powers[i] / sum;
  }
}

void softmax(Call& call, const SoftmaxRows& rows, bool is_log) {
  const auto x = call.floats(0);
  const auto y = call.make_over(0, 0, call.in(0).type(), call.in(0).shape()).writable<float>();
  const std::size_t count = rows.outer * rows.step, width = rows.width;
  parallel_for(count, std::max<std::size_t>(1, kGrain / std::max<std::size_t>(width, 1)), call.threads(),
               [&](std::size_t begin, std::size_t end) {
                 std::vector<float> apart(width), powers(width);
                 for (std::size_t r = begin; r < end; ++r) {
                   const std::size_t first = r / rows.step * width * rows.step + r % rows.step;
                   if (rows.step == 1) {
                     const std::span<float> row = y.subspan(first, width);
                     if (row.data() != x.data() + first)
                       std::ranges::copy(x.subspan(first, width), row.begin());
                     softmax_row(row, powers, is_log);
                     continue;
                   }
                   for (std::size_t i = 0; i < width; ++i) apart[i] = x[first + i * rows.step];
                   softmax_row(apart, powers, is_log);
                   for (std::size_t i = 0; i < width; ++i) y[first + i * rows.step] = apart[i];
                 }
               });
}

/// Along one axis, the last one by default; before version 13 over all axes from `axis` on, 1 by default.
template <bool kLog>
Kernel softmax_of(const NodeFacts& facts) {
  const bool whole = facts.version() < 13;
  const std::int64_t requested = facts.int_or("axis", whole ? 1 : -1);
  return [=](Call& call) {
    const Ints& shape = call.in(0).shape();
    const auto rank = call.in(0).rank();
    const auto axis = static_cast<std::size_t>(
        whole && requested == rank ? requested : call.usual_axis(requested, std::max<std::int64_t>(rank, 1)));
    SoftmaxRows rows{1, 1, 1};
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const auto size = static_cast<std::size_t>(shape[i]);
      (i < axis ? rows.outer : i == axis || whole ? rows.width : rows.step) *= size;
    }
    softmax(call, rows, kLog);
  };
}

Kernel identity(const NodeFacts&) {
  return [](Call& call) { call.give(0, call.in(0)); };
}

/// Of inference: its input, and a mask of ones.
Kernel dropout(const NodeFacts& facts) {
  const Array* training = facts.constant(2);
  const bool trains =
      facts.node.has_input(2) && (!training || training->size() != 1 || training->values<bool>()[0]);
  if (trains && facts.version() >= 12) facts.fail("training is not there");
  return [](Call& call) {
    if (call.outputs() > 1 && call.wants(1)) {
      const ElementType type = call.node().version < 10 ? call.in(0).type() : ElementType::kBool;
      Array& mask = call.make(1, type, call.in(0).shape());
      with_carrier(mask.carrier(), [&]<class T>() { std::ranges::fill(mask.writable<T>(), T{1}); });
    }
    call.give(0, call.in(0));
  };
}

}  // namespace

std::span<const OperatorRow> activation_operators() {
  static constexpr OperatorRow kRows[] = {
      {"Relu", relu, Takes::kWide},
      {"LeakyRelu", leaky_relu, Takes::kFloats},
      {"ThresholdedRelu", thresholded_relu, Takes::kFloats},
      {"PRelu", parametric_relu, Takes::kFloats},
      {"Elu", elu, Takes::kFloats},
      {"Selu", selu, Takes::kFloats},
      {"HardSigmoid", hard_sigmoid, Takes::kFloats},
      {"HardSwish", hard_swish, Takes::kFloats},
      {"Softsign", softsign, Takes::kFloats},
      {"Softplus", softplus, Takes::kFloats},
      {"Swish", swish, Takes::kFloats},
      {"Gelu", gelu, Takes::kFloats},
      {"Clip", clip, Takes::kWide},
      {"Exp", function<Function::kExp>, Takes::kFloats},
      {"Log", function<Function::kLog>, Takes::kFloats},
      {"Tanh", function<Function::kTanh>, Takes::kFloats},
      {"Sigmoid", function<Function::kSigmoid>, Takes::kFloats},
      {"Erf", function<Function::kErf>, Takes::kFloats},
      {"Softmax", softmax_of<false>, Takes::kFloats},
      {"LogSoftmax", softmax_of<true>, Takes::kFloats},
      {"Identity", identity},
      {"Dropout", dropout},
  };
  return kRows;
}

}  // namespace crumb::runtime
