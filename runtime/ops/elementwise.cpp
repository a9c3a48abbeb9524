// Arithmetic, comparison and logic, element by element.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "runtime/exact/by_double.h"
#include "runtime/ops/broadcast.h"
#include "runtime/ops/convert.h"
#include "runtime/ops/families.h"

namespace crumb::runtime {
namespace {

template <class T>
inline constexpr bool kIsFloat = std::is_floating_point_v<T>;

/// out[i] = f(a[i], b[i]) where a and b broadcast to the shape of out.
template <class T, class R, class F>
void binary(Call& call, ElementType type, const F& f) {
  const Array &a = call.in(0), &b = call.in(1);
  const Ints* shapes[] = {&a.shape(), &b.shape()};
  const Ints whole = broadcast_shape(call, shapes);
  const auto x = a.values<T>(), y = b.values<T>();
  const Ints a_shape = a.shape(), b_shape = b.shape();
  Array& made = a_shape == whole ? call.make_over(0, 0, type, whole) : call.make_over(0, 1, type, whole);
  R* const out = made.writable<R>().data();
  for_broadcast(whole, std::array<const Ints*, 2>{&a_shape, &b_shape},
                [&](std::size_t to, const Offsets& at, const Offsets& step, std::size_t count) {
                  const T *p = x.data() + at[0], *q = y.data() + at[1];
                  R* const r = out + to;
                  if (step[0] == 1 && step[1] == 1) {
                    for (std::size_t i = 0; i < count; ++i) r[i] = f(p[i], q[i]);
                  } else if (step[0] == 1) {
                    for (std::size_t i = 0; i < count; ++i) r[i] = f(p[i], *q);
                  } else if (step[1] == 1) {
                    for (std::size_t i = 0; i < count; ++i) r[i] = f(*p, q[i]);
                  } else {
                    for (std::size_t i = 0; i < count; ++i) r[i] = f(*p, *q);
                  }
                });
}

Carrier same_carrier(const Call& call) {
  const Array &a = call.in(0), &b = call.in(1);
  if (a.carrier() != b.carrier()) call.fail("cannot take " + text_of(a) + " and " + text_of(b));
  return a.carrier();
}

/// The kernel of an operator whose output has the type of its inputs. F<T> takes two elements.
template <template <class> class F>
void arithmetic_run(Call& call) {
  with_wide_carrier(same_carrier(call), [&]<class T>() {
    if constexpr (std::is_same_v<T, bool>) {
      call.fail("cannot take booleans");
    } else {
      binary<T, T>(call, call.in(0).type(), F<T>());
    }
  });
}

/// Output 0 of the same kernel for other operands.
template <template <class> class F>
Array made_of(const Call& call, const Array& a, const Array& b) {
  Array pair[] = {a, b}, made[1];
  const char last[] = {0, 0};
  const std::vector<Array*> pointers = pointers_to(pair);
  Call step(call.node(), pointers, last, made, call.threads());
  arithmetic_run<F>(step);
  made[0].round();
  return made[0];
}

/// Before version 7 the second operand broadcasts only where `broadcast` says so, with its axes at `axis` of
/// the first, by default the last ones.
template <template <class> class F>
Kernel arithmetic(const NodeFacts& facts) {
  if (facts.version() >= 7 || facts.int_or("broadcast", 0) == 0 || !facts.node.has("axis"))
    return arithmetic_run<F>;
  return [requested = facts.int_or("axis", 0)](Call& call) {
    const Array &a = call.in(0), &b = call.in(1);
    const std::int64_t behind = a.rank() - call.usual_axis(requested, a.rank()) - b.rank();
    if (behind < 0) call.fail("cannot place " + text_of(b) + " in " + text_of(a));
    Ints shape = b.shape();
    shape.insert(shape.end(), static_cast<std::size_t>(behind), 1);
    call.give(0, made_of<F>(call, a, b.reshaped(shape)));
  };
}

// Integers wrap; they are computed as unsigned ones, where wrapping is defined.
template <class T, class F>
T wrapped(T a, T b, const F& f) {
  if constexpr (kIsFloat<T>) {
    return f(a, b);
  } else {
    using U = std::conditional_t<(sizeof(T) < sizeof(unsigned)), unsigned, std::make_unsigned_t<T>>;
    return static_cast<T>(f(static_cast<U>(a), static_cast<U>(b)));
  }
}
template <class T>
struct Sum {
  T operator()(T a, T b) const {
    return wrapped(a, b, [](auto x, auto y) { return x + y; });
  }
};
template <class T>
struct Difference {
  T operator()(T a, T b) const {
    return wrapped(a, b, [](auto x, auto y) { return x - y; });
  }
};
template <class T>
struct Product {
  T operator()(T a, T b) const {
    return wrapped(a, b, [](auto x, auto y) { return x * y; });
  }
};
/// Integers are divided toward zero. Division by 0 gives 0, the least integer by -1 itself.
template <class T>
struct Quotient {
  T operator()(T a, T b) const {
    if constexpr (kIsFloat<T>) {
      return a / b;
    } else {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>) {
        if (b == -1) return Difference<T>()(0, a);
      }
      return static_cast<T>(a / b);
    }
  }
};
/// NaN where one operand is NaN.
template <class T>
struct Larger {
  T operator()(T a, T b) const { return larger_of(a, b); }
};
template <class T>
struct Smaller {
  T operator()(T a, T b) const { return smaller_of(a, b); }
};

/// Mod with the sign of the divisor, or of the dividend where `fmod` is set.
Kernel modulo(const NodeFacts& facts) {
  const bool of_dividend = facts.int_or("fmod", 0) != 0;
  return [of_dividend](Call& call) {
    with_wide_carrier(same_carrier(call), [&]<class T>() {
      if constexpr (std::is_same_v<T, bool>) {
        call.fail("cannot take booleans");
      } else if constexpr (kIsFloat<T>) {
        binary<T, T>(call, call.in(0).type(), [&](T a, T b) {
          const T left = std::fmod(a, b);  // exact
          return of_dividend || left == 0 || (left < 0) == (b < 0) ? left : left + b;
        });
      } else {
        binary<T, T>(call, call.in(0).type(), [&](T a, T b) {
          if (b == 0 || b == static_cast<T>(-1))
            return std::is_signed_v<T> || b == 0 ? T{0} : static_cast<T>(a % b);
          const T left = static_cast<T>(a % b);
          return of_dividend || left == 0 || (left < 0) == (b < 0) ? left : static_cast<T>(left + b);
        });
      }
    });
  };
}

/// Min, Max and Sum of any number of inputs, from left to right.
template <template <class> class F, bool kMean = false>
Kernel folded(const NodeFacts& facts) {
  (void)facts;
  return [](Call& call) {
    const std::size_t count = call.inputs();
    Array all = call.in(0);
    for (std::size_t i = 1; i < count; ++i) all = made_of<F>(call, all, call.in(i));
    if (kMean) {
      if (all.carrier() != Carrier::kFloat) call.fail("cannot take " + text_of(all));
      Array made(all.type(), all.shape());
      std::ranges::transform(all.values<float>(), made.writable<float>().begin(),
                             [&](float x) { return x / static_cast<float>(count); });
      all = std::move(made);
    }
    call.give(0, all);
  };
}

template <class Compare>
Kernel comparison(const NodeFacts&) {
  return [](Call& call) {
    with_wide_carrier(same_carrier(call),
                      [&]<class T>() { binary<T, bool>(call, ElementType::kBool, Compare()); });
  };
}

template <class Combine>
Kernel logic(const NodeFacts&) {
  return [](Call& call) {
    if (same_carrier(call) != Carrier::kBool) call.fail("cannot take " + text_of(call.in(0)));
    binary<bool, bool>(call, ElementType::kBool, Combine());
  };
}

template <class Combine>
Kernel bits(const NodeFacts&) {
  return [](Call& call) {
    with_wide_carrier(same_carrier(call), [&]<class T>() {
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
        binary<T, T>(call, call.in(0).type(), [](T a, T b) { return static_cast<T>(Combine()(a, b)); });
      } else {
        call.fail("cannot take " + text_of(call.in(0)));
      }
    });
  };
}

/// out[i] = f(x[i]), in the type of the input.
template <class T, class F>
void unary(Call& call, const F& f) {
  const auto x = call.in(0).values<T>();
  Array& made = call.make_over(0, 0, call.in(0).type(), call.in(0).shape());
  std::ranges::transform(x, made.writable<T>().begin(), f);
}

/// For floats; with `of_ints` also for integers.
template <class F>
Kernel numbers(const NodeFacts&) {
  return [](Call& call) {
    with_wide_carrier(call.in(0).carrier(), [&]<class T>() {
      if constexpr (std::is_same_v<T, bool> || !std::is_invocable_v<F, T>) {
        call.fail("cannot take " + text_of(call.in(0)));
      } else {
        unary<T>(call, [](T x) { return F()(x); });
      }
    });
  };
}
struct Magnitude {
  template <class T>
  T operator()(T x) const {
    if constexpr (kIsFloat<T>) {
      return std::fabs(x);
    } else if constexpr (std::is_signed_v<T>) {
      return x < 0 ? Difference<T>()(0, x) : x;
    } else {
      return x;
    }
  }
};
struct Negative {
  template <class T>
  T operator()(T x) const {
    if constexpr (kIsFloat<T>) {
      return -x;
    } else {
      return Difference<T>()(0, x);
    }
  }
};
struct SignOf {
  template <class T>
  T operator()(T x) const {
    return x > 0 ? T(1) : x < 0 ? T(-1) : x;
  }
};
template <auto kFunction>
struct OfFloats {
  template <class T>
  requires kIsFloat<T> T operator()(T x) const { return kFunction(x); }
};
// These are exact, so every implementation gives the same bits.
constexpr auto kFloor = [](auto x) { return std::floor(x); };
constexpr auto kCeil = [](auto x) { return std::ceil(x); };
constexpr auto kRound = [](auto x) { return std::nearbyint(x); };  // half to even
constexpr auto kSquareRoot = [](auto x) { return std::sqrt(x); };
constexpr auto kReciprocal = [](auto x) { return 1 / x; };
template <float (*kFunction)(float)>
Kernel of_float32(const NodeFacts&) {
  return [](Call& call) {
    const auto x = call.floats(0);
    const auto y = call.make_over(0, 0, call.in(0).type(), call.in(0).shape()).writable<float>();
    std::ranges::transform(x, y.begin(), kFunction);
  };
}

Kernel negation(const NodeFacts&) {
  return [](Call& call) {
    call.values<bool>(0, Carrier::kBool);  // other types have no negation
    unary<bool>(call, [](bool x) { return !x; });
  };
}

template <class F>
Kernel predicate(const NodeFacts&) {
  return [](Call& call) {
    with_wide_carrier(call.in(0).carrier(), [&]<class T>() {
      if constexpr (kIsFloat<T>) {
        const auto x = call.in(0).values<T>();
        Array& made = call.make(0, ElementType::kBool, call.in(0).shape());
        std::ranges::transform(x, made.writable<bool>().begin(), [](T v) { return F()(v); });
      } else {
        call.fail("cannot take " + text_of(call.in(0)));
      }
    });
  };
}
struct IsNan {
  template <class T>
  bool operator()(T x) const {
    return is_nan(x);
  }
};

Kernel is_infinite(const NodeFacts& facts) {
  const bool positive = facts.int_or("detect_positive", 1) != 0,
             negative = facts.int_or("detect_negative", 1) != 0;
  return [=](Call& call) {
    const auto x = call.floats(0);
    std::ranges::transform(x, call.make(0, ElementType::kBool, call.in(0).shape()).writable<bool>().begin(),
                           [&](float v) { return std::isinf(v) && (v > 0 ? positive : negative); });
  };
}

Kernel complement(const NodeFacts&) {
  return [](Call& call) {
    with_wide_carrier(call.in(0).carrier(), [&]<class T>() {
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
        unary<T>(call, [](T x) { return static_cast<T>(~x); });
      } else {
        call.fail("cannot take " + text_of(call.in(0)));
      }
    });
  };
}

Kernel choose(const NodeFacts&) {
  return [](Call& call) {
    const Array &condition = call.in(0), &a = call.in(1), &b = call.in(2);
    if (condition.carrier() != Carrier::kBool || a.carrier() != b.carrier())
      call.fail("cannot take " + text_of(condition) + ", " + text_of(a) + " and " + text_of(b));
    const Ints* shapes[] = {&condition.shape(), &a.shape(), &b.shape()};
    const Ints whole = broadcast_shape(call, shapes);
    with_carrier(a.carrier(), [&]<class T>() {
      const auto c = condition.values<bool>();
      const auto x = a.values<T>(), y = b.values<T>();
      T* const out = call.make(0, a.type(), whole).writable<T>().data();
      for_broadcast(whole, std::array<const Ints*, 3>{&condition.shape(), &a.shape(), &b.shape()},
                    [&](std::size_t to, const Offsets& at, const Offsets& step, std::size_t count) {
                      for (std::size_t i = 0; i < count; ++i)
                        out[to + i] =
                            c[at[0] + i * step[0]] ? x[at[1] + i * step[1]] : y[at[2] + i * step[2]];
                    });
    });
  };
}

/// By squaring. A negative power of an integer is rounded toward zero.
template <class T>
T whole_power(T x, std::int64_t y) {
  if (y < 0) return x == 1 ? T{1} : x == static_cast<T>(-1) ? static_cast<T>(y % 2 == 0 ? 1 : -1) : T{0};
  T made = 1;
  for (auto left = static_cast<std::uint64_t>(y); left > 0; left /= 2) {
    if (left % 2 == 1) made = Product<T>()(made, x);
    x = Product<T>()(x, x);
  }
  return made;
}

/// The output has the type of the base. Squares are products and halves are roots, as everywhere in the
/// runtime; integers take whole exponents only.
Kernel power(const NodeFacts&) {
  return [](Call& call) {
    const Array& x = call.in(0);
    const Array exponent = call.in(1);
    const Ints shape = x.shape();
    const Ints* shapes[] = {&shape, &exponent.shape()};
    const Ints whole = broadcast_shape(call, shapes);
    const auto raise = [&]<class T>(const auto& f) {
      with_wide_carrier(exponent.carrier(), [&]<class Y>() {
        const auto v = x.values<T>();
        const auto y = exponent.values<Y>();
        T* const out = call.make_over(0, 0, x.type(), whole).template writable<T>().data();
        for_broadcast(whole, std::array<const Ints*, 2>{&shape, &exponent.shape()},
                      [&](std::size_t to, const Offsets& at, const Offsets& step, std::size_t count) {
                        for (std::size_t i = 0; i < count; ++i)
                          out[to + i] = f(v[at[0] + i * step[0]], y[at[1] + i * step[1]]);
                      });
      });
    };
    with_wide_carrier(x.carrier(), [&]<class T>() {
      if constexpr (std::is_same_v<T, float>) {
        raise.template operator()<T>([](float v, auto y) {
          const auto by = static_cast<float>(y);
          return by == 2 ? v * v : by == 0.5F ? std::sqrt(v) : exact::pow_of(v, by);
        });
      } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
        raise.template operator()<T>([&](T v, auto y) {
          const auto by = converted<std::int64_t>(y);
          if (static_cast<double>(by) != static_cast<double>(y))
            call.fail("cannot take " + text_of(x) + " to the power of " + std::to_string(y));
          return whole_power(v, by);
        });
      } else {
        call.fail("cannot take " + text_of(x));
      }
    });
  };
}

struct And {
  template <class T>
  auto operator()(T a, T b) const {
    return a & b;
  }
};
struct Or {
  template <class T>
  auto operator()(T a, T b) const {
    return a | b;
  }
};
struct Xor {
  template <class T>
  auto operator()(T a, T b) const {
    return a ^ b;
  }
};
struct Equal {
  template <class T>
  bool operator()(T a, T b) const {
    return a == b;
  }
};

}  // namespace

std::span<const OperatorRow> elementwise_operators() {
  static constexpr OperatorRow kRows[] = {
      {"Add", arithmetic<Sum>, Takes::kWide},
      {"Sub", arithmetic<Difference>, Takes::kWide},
      {"Mul", arithmetic<Product>, Takes::kWide},
      {"Div", arithmetic<Quotient>, Takes::kWide},
      {"Mod", modulo, Takes::kWide},
      {"Pow", power, Takes::kWide},
      {"Max", folded<Larger>, Takes::kWide},
      {"Min", folded<Smaller>, Takes::kWide},
      {"Sum", folded<Sum>, Takes::kWide},
      {"Mean", folded<Sum, true>, Takes::kWide},
      {"Equal", comparison<Equal>, Takes::kWide},
      {"Less", comparison<std::less<>>, Takes::kWide},
      {"LessOrEqual", comparison<std::less_equal<>>, Takes::kWide},
      {"Greater", comparison<std::greater<>>, Takes::kWide},
      {"GreaterOrEqual", comparison<std::greater_equal<>>, Takes::kWide},
      {"And", logic<And>},
      {"Or", logic<Or>},
      {"Xor", logic<Xor>},
      {"BitwiseAnd", bits<And>, Takes::kWide},
      {"BitwiseOr", bits<Or>, Takes::kWide},
      {"BitwiseXor", bits<Xor>, Takes::kWide},
      {"Not", negation},
      {"Where", choose},
      {"Abs", numbers<Magnitude>, Takes::kWide},
      {"Neg", numbers<Negative>, Takes::kWide},
      {"Sign", numbers<SignOf>, Takes::kWide},
      {"Floor", numbers<OfFloats<kFloor>>, Takes::kWide},
      {"Ceil", numbers<OfFloats<kCeil>>, Takes::kWide},
      {"Round", numbers<OfFloats<kRound>>, Takes::kWide},
      {"Sqrt", numbers<OfFloats<kSquareRoot>>, Takes::kWide},
      {"Reciprocal", numbers<OfFloats<kReciprocal>>, Takes::kWide},
      {"IsNaN", predicate<IsNan>, Takes::kWide},
      {"IsInf", is_infinite, Takes::kFloats},
      {"BitwiseNot", complement, Takes::kWide},
      {"Sin", of_float32<exact::sin_of>, Takes::kFloats},
      {"Cos", of_float32<exact::cos_of>, Takes::kFloats},
  };
  return kRows;
}

}  // namespace crumb::runtime
