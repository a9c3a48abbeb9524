// Arithmetic on sizes, counts and offsets that come from outside the program: nothing wraps.
//
// Every operation takes unsigned and signed integers and the results of other operations, and gives the exact
// result, or nothing where it is negative or beyond 64 bits, or where an operand was nothing. So a formula is
// written as it stands and asked once:
//
//   const checked::Size end = checked::add(offset, checked::multiply(count, sizeof(float)));
//   if (!end || *end > file_size) return Failure{...};
//
// Readers of outside bytes use these for every number that a file gives. What they do with raw operators are
// numbers that such a check has bounded before.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

namespace crumb::checked {

/// A natural number below 2^64, or nothing: the exact number is no such.
using Size = std::optional<std::uint64_t>;

/// What an operation takes. A negative integer is nothing.
class Operand {
 public:
  template <std::integral T>
  constexpr Operand(T number)  // NOLINT: implicit
      : size_(std::in_range<std::uint64_t>(number) ? Size(static_cast<std::uint64_t>(number)) : Size()) {}
  constexpr Operand(Size size) : size_(size) {}  // NOLINT: implicit
  constexpr const Size& size() const { return size_; }

 private:
  Size size_;
};

constexpr Size add(Operand a, Operand b) {
  std::uint64_t sum = 0;
  if (!a.size() || !b.size() || __builtin_add_overflow(*a.size(), *b.size(), &sum)) return std::nullopt;
  return sum;
}

constexpr Size multiply(Operand a, Operand b) {
  std::uint64_t product = 0;
  if (!a.size() || !b.size() || __builtin_mul_overflow(*a.size(), *b.size(), &product)) return std::nullopt;
  return product;
}

/// The product of all; 1 of none. One that passes 2^64 on the way to a zero is nothing.
template <std::integral T>
constexpr Size product(std::span<const T> factors) {
  Size all = 1;
  for (const T factor : factors) all = multiply(all, factor);
  return all;
}

/// The least multiple of `alignment` that is not below `size`. Precondition: alignment > 0.
constexpr Size align_up(Operand size, std::uint64_t alignment) {
  const Size up = add(size, alignment - 1);
  return up ? Size(*up - *up % alignment) : Size();
}

/// Whether the bytes [offset, offset + length) lie in [0, size): of a length of 0, whether offset <= size.
constexpr bool fits(Operand offset, Operand length, Operand size) {
  return offset.size() && length.size() && size.size() && *offset.size() <= *size.size() &&
         *length.size() <= *size.size() - *offset.size();
}

/// A number of 64 bits with its sign, or nothing: the exact result is no such. For values (an integer of a template's
/// language), where negative ones are as good as others.
using Integer = std::optional<std::int64_t>;

constexpr Integer add_signed(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? Integer() : Integer(sum);
}

constexpr Integer subtract_signed(std::int64_t a, std::int64_t b) {
  std::int64_t difference = 0;
  return __builtin_sub_overflow(a, b, &difference) ? Integer() : Integer(difference);
}

constexpr Integer multiply_signed(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? Integer() : Integer(product);
}

/// The number as a T, or nothing where T does not hold it.
template <std::integral T>
constexpr std::optional<T> narrow(Operand number) {
  if (!number.size() || !std::in_range<T>(*number.size())) return std::nullopt;
  return static_cast<T>(*number.size());
}

}  // namespace crumb::checked
