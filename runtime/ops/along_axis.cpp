// What goes along one axis, element by element: running sums, norms of 1, sequences in reverse.
#include <cmath>
#include <type_traits>

#include "runtime/exact/products.h"
#include "runtime/ops/families.h"
#include "runtime/ops/movement.h"
#include "runtime/ops/one_integer.h"

namespace crumb::runtime {
namespace {

/// Lines along an axis: where each begins, how far apart its elements lie, how many they are.
struct Lines {
  Ints begins;
  std::int64_t step = 0, size = 0;
};

Lines lines_of(const Array& x, std::int64_t axis) {
  const auto along = static_cast<std::size_t>(axis);
  const Ints steps = strides_of(x.shape());
  Lines made{{}, steps[along], x.shape()[along]};
  Ints outer = x.shape();
  outer[along] = std::min<std::int64_t>(1, outer[along]);
  for_offsets(outer, steps, 0, [&](std::int64_t at) { made.begins.push_back(at); });
  return made;
}

/// a + b; of integers modulo the type.
template <class T>
T sum_of_two(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
  } else {
    return a + b;
  }
}

/// One element after the other; without the element itself where exclusive, from the end where reverse.
Kernel cum_sum(const NodeFacts& facts) {
  const bool exclusive = facts.int_or("exclusive", 0) != 0, reverse = facts.int_or("reverse", 0) != 0;
  return [=](Call& call) {
    const Array x = call.in(0);
    const Lines lines = lines_of(x, call.usual_axis(one_integer(call, 1, "axis"), x.rank()));
    Array& made = call.make(0, x.type(), x.shape());
    with_carrier(x.carrier(), [&]<class T>() {
      if constexpr (std::is_same_v<T, bool>) {
        call.fail("cannot take booleans");
      } else {
        const auto from = x.values<T>();
        const auto to = made.writable<T>();
        for (const std::int64_t begin : lines.begins) {
          T sum{0};
          for (std::int64_t i = 0; i < lines.size; ++i) {
            const auto at = static_cast<std::size_t>(begin + (reverse ? lines.size - 1 - i : i) * lines.step);
            const T next = sum_of_two(sum, from[at]);
            to[at] = exclusive ? sum : next;
            sum = next;
          }
        }
      }
    });
  };
}

/// x / norm of its line, the sum of |x| or the root of the sum of squares; 0 where that is 0.
Kernel lp_normalization(const NodeFacts& facts) {
  const std::int64_t requested = facts.int_or("axis", -1), p = facts.int_or("p", 2);
  if (p != 1 && p != 2) facts.fail("p: expected 1 or 2, found " + std::to_string(p));
  return [=](Call& call) {
    const Array& x = call.in(0);
    const Lines lines = lines_of(x, call.usual_axis(requested, x.rank()));
    const auto from = call.floats(0);
    const auto to = call.make(0, x.type(), x.shape()).writable<float>();
    for (const std::int64_t begin : lines.begins) {
      const auto at = [&](std::size_t i) {
        return static_cast<std::size_t>(begin + static_cast<std::int64_t>(i) * lines.step);
      };
      const auto size = static_cast<std::size_t>(lines.size);
      const float sum = exact::sum_of(size, [&](std::size_t i) {
        const float v = from[at(i)];
        return p == 1 ? std::fabs(v) : v * v;
      });
      const float norm = p == 1 ? sum : std::sqrt(sum);
      for (std::size_t i = 0; i < size; ++i) to[at(i)] = norm == 0 ? 0 : from[at(i)] / norm;
    }
  };
}

/// The first elements along the time axis, as many as each sequence of the batch has, in reverse.
Kernel reverse_sequence(const NodeFacts& facts) {
  const std::int64_t of_batch = facts.int_or("batch_axis", 1), of_time = facts.int_or("time_axis", 0);
  return [=](Call& call) {
    const Array x = call.in(0);
    const auto batch = static_cast<std::size_t>(call.usual_axis(of_batch, x.rank())),
               time = static_cast<std::size_t>(call.usual_axis(of_time, x.rank()));
    if (batch == time) call.fail("batch_axis and time_axis are the same");
    const Ints lengths = call.ints(1);
    if (std::ssize(lengths) != x.shape()[batch])
      call.fail("expected the lengths of " + std::to_string(x.shape()[batch]) + " sequences, found " +
                std::to_string(lengths.size()));
    for (const std::int64_t length : lengths)
      if (length < 0 || length > x.shape()[time])
        call.fail("a sequence of length " + std::to_string(length) + " in " + text_of(x));
    Array& made = call.make(0, x.type(), x.shape());
    const Ints steps = strides_of(x.shape());
    Ints others = x.shape();
    others[batch] = others[time] = std::min<std::int64_t>(1, static_cast<std::int64_t>(x.size()));
    with_width(x, [&]<class T>() {
      const T* const from = reinterpret_cast<const T*>(x.data());
      T* const to = reinterpret_cast<T*>(made.writable_data());
      for (std::int64_t b = 0; b < std::ssize(lengths); ++b) {
        const std::int64_t length = lengths[static_cast<std::size_t>(b)];
        for (std::int64_t t = 0; t < x.shape()[time]; ++t) {
          const std::int64_t source = t < length ? length - 1 - t : t;
          for_offsets(others, steps, b * steps[batch],
                      [&](std::int64_t at) { to[at + t * steps[time]] = from[at + source * steps[time]]; });
        }
      }
    });
  };
}

}  // namespace

std::span<const OperatorRow> along_axis_operators() {
  static constexpr OperatorRow kRows[] = {
      {"CumSum", cum_sum},
      {"LpNormalization", lp_normalization, Takes::kFloats},
      {"ReverseSequence", reverse_sequence},
  };
  return kRows;
}

}  // namespace crumb::runtime
