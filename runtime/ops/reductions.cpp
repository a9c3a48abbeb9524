// Reductions over some axes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/threads/parallel.h"
#include "runtime/exact/functions.h"
#include "runtime/exact/products.h"
#include "runtime/ops/convert.h"
#include "runtime/ops/families.h"
#include "runtime/ops/movement.h"

namespace crumb::runtime {
namespace {

/// The axes of a reduction, and where the elements of each output are.
struct Reduction {
  Ints shape;  ///< of the output, with sizes of 1 where axes are kept
  Ints outer;  ///< sizes of the axes that stay
  Ints outer_steps;
  Ints offsets;  ///< from the first element of an output to all of its elements, row by row
};

Reduction reduction_of(const Call& call, const Ints& axes, bool keeps) {
  const Array& x = call.in(0);
  std::vector<bool> goes(x.shape().size(), axes.empty());
  for (const std::int64_t axis : axes) goes[static_cast<std::size_t>(call.usual_axis(axis, x.rank()))] = true;
  Reduction made;
  Ints inner, inner_steps;
  const Ints strides = strides_of(x.shape());
  for (std::size_t i = 0; i < goes.size(); ++i) {
    if (goes[i]) {
      inner.push_back(x.shape()[i]);
      inner_steps.push_back(strides[i]);
      if (keeps) made.shape.push_back(1);
    } else {
      made.outer.push_back(x.shape()[i]);
      made.outer_steps.push_back(strides[i]);
      made.shape.push_back(x.shape()[i]);
    }
  }
  for_offsets(inner, inner_steps, 0, [&](std::int64_t at) { made.offsets.push_back(at); });
  return made;
}

/// Output 0 is f(first element, offsets) for each element.
template <class T, class R, class F>
void reduce(Call& call, const Reduction& r, ElementType type, const F& f) {
  const T* const x = call.in(0).values<T>().data();
  R* to = call.make(0, type, r.shape).template writable<R>().data();
  for_offsets(r.outer, r.outer_steps, 0, [&](std::int64_t at) { *to++ = f(x + at, r.offsets); });
}

enum class Kind { kSum, kMean, kMax, kMin, kProduct, kL1, kL2, kSumSquare, kLogSum, kLogSumExp };

float log_of(float x) {
  float made = 0;
  exact::apply(exact::Function::kLog, {&x, 1}, {&made, 1});
  return made;
}

template <Kind kKind>
float reduced(const float* x, const Ints& offsets) {
  // Offsets ascend, so these are all numbers from 0 on where the last is the greatest of so many.
  const bool together = !offsets.empty() && offsets.back() + 1 == std::ssize(offsets);
  const auto sum = [&](const auto& term) {
    if (together) return exact::sum_of(offsets.size(), [&](std::size_t i) { return term(x[i]); });
    return exact::sum_of(offsets.size(), [&](std::size_t i) { return term(x[offsets[i]]); });
  };
  const auto largest = [&] {
    float most = -std::numeric_limits<float>::infinity();
    for (const std::int64_t at : offsets) most = larger_of(most, x[at]);
    return most;
  };
  if constexpr (kKind == Kind::kSum) return sum([](float v) { return v; });
  if constexpr (kKind == Kind::kMean)
    return sum([](float v) { return v; }) / static_cast<float>(offsets.size());
  if constexpr (kKind == Kind::kL1) return sum([](float v) { return std::fabs(v); });
  if constexpr (kKind == Kind::kL2) return std::sqrt(sum([](float v) { return v * v; }));
  if constexpr (kKind == Kind::kSumSquare) return sum([](float v) { return v * v; });
  if constexpr (kKind == Kind::kLogSum) return log_of(sum([](float v) { return v; }));
  if constexpr (kKind == Kind::kMax) return largest();
  if constexpr (kKind == Kind::kMin) {
    float least = std::numeric_limits<float>::infinity();
    for (const std::int64_t at : offsets) least = smaller_of(least, x[at]);
    return least;
  }
  if constexpr (kKind == Kind::kProduct) {
    float product = 1;
    for (const std::int64_t at : offsets) product *= x[at];
    return product;
  }
  if constexpr (kKind == Kind::kLogSumExp) {
    const float most = largest(), from = std::isfinite(most) ? most : 0;
    return from + log_of(sum([from](float v) { return exact::exp_of(v - from); }));
  }
}

/// Modulo 2^64.
template <class T>
std::uint64_t as_bits(T x) {
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(x));
}

/// Integers wrap.
template <Kind kKind, class T>
T reduced_ints(const T* x, const Ints& offsets) {
  T made = kKind == Kind::kMax   ? std::numeric_limits<T>::lowest()
           : kKind == Kind::kMin ? std::numeric_limits<T>::max()
                                 : T(kKind == Kind::kProduct);
  for (const std::int64_t at : offsets) {
    const T v = x[at];
    const auto a = as_bits(made), b = as_bits(v);
    if (kKind == Kind::kMax) made = std::max(made, v);
    if (kKind == Kind::kMin) made = std::min(made, v);
    if (kKind == Kind::kProduct) made = static_cast<T>(a * b);
    if (kKind == Kind::kSum || kKind == Kind::kMean) made = static_cast<T>(a + b);
    if (kKind == Kind::kSumSquare) made = static_cast<T>(a + b * b);
    if (kKind == Kind::kL1) made = static_cast<T>(a + (v < T{0} ? std::uint64_t{0} - b : b));
  }
  return made;
}

template <Kind kKind>
Kernel reduction(const NodeFacts& facts) {
  const auto attribute = facts.ints("axes");
  const bool keeps = facts.int_or("keepdims", 1) != 0,
             nothing_is_nothing = facts.int_or("noop_with_empty_axes", 0) != 0;
  return [=](Call& call) {
    const Ints axes = attribute ? *attribute : call.has(1) ? call.ints(1) : Ints{};
    if (axes.empty() && nothing_is_nothing &&
        (kKind == Kind::kSum || kKind == Kind::kMean || kKind == Kind::kMax || kKind == Kind::kMin ||
         kKind == Kind::kProduct))
      return call.give(0, call.in(0));
    Reduction r = reduction_of(call, axes, keeps);
    if (axes.empty() && nothing_is_nothing) {  // each element alone
      r = {.shape = call.in(0).shape(),
           .outer = call.in(0).shape(),
           .outer_steps = strides_of(call.in(0).shape()),
           .offsets = {0}};
    }
    const ElementType type = call.in(0).type();
    with_carrier(call.in(0).carrier(), [&]<class T>() {
      if constexpr (std::is_same_v<T, float>) {
        reduce<float, float>(call, r, type, reduced<kKind>);
      } else if constexpr (std::is_integral_v<T> && kKind != Kind::kL2 && kKind != Kind::kLogSum &&
                           kKind != Kind::kLogSumExp) {
        if (std::is_same_v<T, bool> && kKind != Kind::kMax && kKind != Kind::kMin)
          call.fail("cannot take " + text_of(call.in(0)));
        reduce<T, T>(call, r, type, [](const T* x, const Ints& offsets) {
          const T made = reduced_ints<kKind, T>(x, offsets);
          return kKind == Kind::kMean && !offsets.empty()
                     ? static_cast<T>(made / static_cast<T>(offsets.size()))
                     : made;
        });
      } else {
        call.fail("cannot take " + text_of(call.in(0)));
      }
    });
  };
}

/// The index of the largest (or smallest) element of an axis; of equal ones the first, or the last.
template <bool kLargest>
Kernel place_of_extreme(const NodeFacts& facts) {
  const std::int64_t axis = facts.int_or("axis", 0);
  const bool keeps = facts.int_or("keepdims", 1) != 0, last = facts.int_or("select_last_index", 0) != 0;
  return [=](Call& call) {
    const Reduction r = reduction_of(call, {axis}, keeps);
    if (r.offsets.empty()) call.fail("nothing to choose from in " + text_of(call.in(0)));
    with_carrier(call.in(0).carrier(), [&]<class T>() {
      reduce<T, std::int64_t>(call, r, ElementType::kInt64, [&](const T* x, const Ints& offsets) {
        std::size_t best = 0;
        for (std::size_t i = 1; i < offsets.size(); ++i) {
          const T v = x[offsets[i]], now = x[offsets[best]];
          if ((kLargest ? v > now : v < now) || (last && v == now)) best = i;
        }
        return static_cast<std::int64_t>(best);
      });
    });
  };
}

/// The order of numbers; NaN is above all.
template <class T>
bool is_below(T a, T b) {
  return a < b || (is_nan(b) && !is_nan(a));
}

/// The k largest (or smallest) elements of an axis in their order, and their indices. Of equal ones the first
/// comes first.
Kernel top_k(const NodeFacts& facts) {
  const std::int64_t axis = facts.int_or("axis", -1);
  const bool largest = facts.int_or("largest", 1) != 0;
  const std::int64_t of_old = facts.int_or("k", 0);
  const bool by_attribute = facts.version() < 10;
  return [=](Call& call) {
    const Array x = call.in(0);
    const Ints k = by_attribute ? Ints{of_old} : call.ints(1);
    const auto along = static_cast<std::size_t>(call.usual_axis(axis, x.rank()));
    if (k.size() != 1 || k[0] < 0 || k[0] > x.shape()[along])
      call.fail("cannot take so many of " + text_of(x));
    Ints shape = x.shape(), outer = x.shape(), steps = strides_of(x.shape());
    const std::int64_t step = steps[along], size = shape[along];
    shape[along] = k[0];
    outer[along] = 1;
    Array& values = call.make(0, x.type(), shape);
    const auto places = call.make(1, ElementType::kInt64, shape).writable<std::int64_t>();
    Ints made_steps = strides_of(shape), froms, tos;
    for_offsets(outer, steps, 0, [&](std::int64_t at) { froms.push_back(at); });
    for_offsets(outer, made_steps, 0, [&](std::int64_t at) { tos.push_back(at); });
    with_wide_carrier(x.carrier(), [&]<class T>() {
      const T* const from = x.values<T>().data();
      const auto to = values.writable<T>();
      Ints order(static_cast<std::size_t>(size));
      for (std::size_t row = 0; row < froms.size(); ++row) {
        std::iota(order.begin(), order.end(), 0);
        const auto value = [&](std::int64_t i) { return from[froms[row] + i * step]; };
        std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) {
          return largest ? is_below(value(b), value(a)) : is_below(value(a), value(b));
        });
        for (std::int64_t i = 0; i < k[0]; ++i) {
          const auto place = static_cast<std::size_t>(tos[row] + i * made_steps[along]);
          to[place] = value(order[static_cast<std::size_t>(i)]);
          places[place] = order[static_cast<std::size_t>(i)];
        }
      }
    });
  };
}

}  // namespace

std::span<const OperatorRow> reduction_operators() {
  static constexpr OperatorRow kRows[] = {
      {"ReduceSum", reduction<Kind::kSum>},
      {"ReduceMean", reduction<Kind::kMean>},
      {"ReduceMax", reduction<Kind::kMax>},
      {"ReduceMin", reduction<Kind::kMin>},
      {"ReduceProd", reduction<Kind::kProduct>},
      {"ReduceL1", reduction<Kind::kL1>},
      {"ReduceL2", reduction<Kind::kL2>, Takes::kFloats},
      {"ReduceSumSquare", reduction<Kind::kSumSquare>},
      {"ReduceLogSum", reduction<Kind::kLogSum>, Takes::kFloats},
      {"ReduceLogSumExp", reduction<Kind::kLogSumExp>, Takes::kFloats},
      {"ArgMax", place_of_extreme<true>},
      {"ArgMin", place_of_extreme<false>},
      {"TopK", top_k, Takes::kWide},
  };
  return kRows;
}

}  // namespace crumb::runtime
