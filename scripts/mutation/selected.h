// What the code with many changes in it (scripts/mutation/schema.py) is made of: the change with number CRUMB_MUTANT of
// the environment is in force, and no other. Where the file CRUMB_REACHED is given, byte k of it becomes 1 once change k is
// reached. In constant expressions no change is ever in force, so what only the compiler evaluates is not in the section
// .mutated of a program, which lists the others (as 32-bit numbers, some more than once).
#pragma once

#include <utility>

namespace mutated {

extern int selected;
extern unsigned char* reached;

template <int k>
inline __attribute__((always_inline)) bool is_selected() {
  asm volatile(".pushsection .mutated,\"\",@progbits\n\t.long %c0\n\t.popsection" ::"i"(k));
  if (reached != nullptr) reached[k] = 1;
  return selected == k;
}

template <int k>
constexpr bool on() {
  if (__builtin_is_constant_evaluated()) return false;
  return is_selected<k>();
}

template <int k, class T, class U>
constexpr T pick(T original, U changed) {
  return on<k>() ? static_cast<T>(changed) : original;
}

template <int k>
constexpr bool flip(bool condition) {
  return on<k>() ? !condition : condition;
}

// `a + b` is written `a + plus_minus<k>{} + b`: as the same operator stands in all places, precedence stays. Where the
// types do not allow the other one, there is no change.
#define MUTATED(name, op, other)                                                                            \
  template <int k>                                                                                          \
  struct name {};                                                                                           \
  template <int k, class T>                                                                                 \
  struct name##_held {                                                                                      \
    T value;                                                                                                \
  };                                                                                                        \
  template <int k, class L>                                                                                 \
  constexpr auto operator op(L&& left, name<k>) {                                                           \
    return name##_held<k, L&&>{std::forward<L>(left)};                                                      \
  }                                                                                                         \
  template <int k, class L, class R>                                                                        \
  constexpr auto operator op(name##_held<k, L>&& left, R&& right)                                           \
      ->decltype(std::forward<L>(left.value) op std::forward<R>(right)) {                                   \
    using T = decltype(std::forward<L>(left.value) op std::forward<R>(right));                              \
    if constexpr (requires { static_cast<T>(std::forward<L>(left.value) other std::forward<R>(right)); }) { \
      if (on<k>()) return static_cast<T>(std::forward<L>(left.value) other std::forward<R>(right));         \
    }                                                                                                       \
    return std::forward<L>(left.value) op std::forward<R>(right);                                           \
  }

#define MUTATED_ASSIGNMENT(name, op, other)                                \
  template <int k>                                                         \
  struct name {};                                                          \
  template <int k, class T>                                                \
  struct name##_held {                                                     \
    T value;                                                               \
  };                                                                       \
  template <int k, class R>                                                \
  constexpr auto operator op(name<k>, R&& right) {                         \
    return name##_held<k, R&&>{std::forward<R>(right)};                    \
  }                                                                        \
  template <int k, class L, class R>                                       \
  constexpr L& operator op(L& left, name##_held<k, R>&& right) {           \
    if constexpr (requires { left other std::forward<R>(right.value); }) { \
      if (on<k>()) {                                                       \
        left other std::forward<R>(right.value);                           \
        return left;                                                       \
      }                                                                    \
    }                                                                      \
    left op std::forward<R>(right.value);                                  \
    return left;                                                           \
  }

MUTATED(lt_le, <, <=)
MUTATED(lt_ge, <, >=)
MUTATED(le_lt, <=, <)
MUTATED(le_gt, <=, >)
MUTATED(gt_ge, >, >=)
MUTATED(gt_le, >, <=)
MUTATED(ge_gt, >=, >)
MUTATED(ge_lt, >=, <)
MUTATED(eq_ne, ==, !=)
MUTATED(ne_eq, !=, ==)
MUTATED(plus_minus, +, -)
MUTATED(minus_plus, -, +)
MUTATED(times_over, *, /)
MUTATED(over_times, /, *)
MUTATED(mod_times, %, *)
MUTATED(and_or, &, |)
MUTATED(or_and, |, &)
MUTATED(xor_and, ^, &)
MUTATED(shl_shr, <<, >>)
MUTATED(shr_shl, >>, <<)
MUTATED_ASSIGNMENT(plus_minus_is, +=, -=)
MUTATED_ASSIGNMENT(minus_plus_is, -=, +=)
MUTATED_ASSIGNMENT(times_over_is, *=, /=)
MUTATED_ASSIGNMENT(over_times_is, /=, *=)
MUTATED_ASSIGNMENT(mod_times_is, %=, *=)
MUTATED_ASSIGNMENT(and_or_is, &=, |=)
MUTATED_ASSIGNMENT(or_and_is, |=, &=)
MUTATED_ASSIGNMENT(xor_and_is, ^=, &=)
MUTATED_ASSIGNMENT(shl_shr_is, <<=, >>=)
MUTATED_ASSIGNMENT(shr_shl_is, >>=, <<=)

#undef MUTATED
#undef MUTATED_ASSIGNMENT

}  // namespace mutated
