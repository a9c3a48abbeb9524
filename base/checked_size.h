// Arithmetic on sizes, counts and offsets that come from outside the program, without wrapping.
//
// Every operation takes unsigned and signed integers and the results of other operations. It gives the exact
// result, or nothing where the result is negative or beyond 64 bits, or where an operand is nothing. So a
// formula is written as it is and tested once:
//
//   const checked::Size end = checked::add(offset, checked::multiply(count, sizeof(float)));
//   if (!end || *end > file_size) return Failure{...};
//
// Readers of outside bytes use these for every number that a file gives. They use raw operators only on
// numbers that such a check has bounded.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

namespace crumb::checked {

/// A natural number below 2^64, or nothing where the exact number is not one.
using Size = std::optional<std::uint64_t>;

/// An operand of an operation. A negative integer is nothing.
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

/// Returns the product of all operands; 1 without operands. A product that passes 2^64 before a factor of
/// zero is nothing.
template <std::integral T>
constexpr Size product(std::span<const T> factors) {
  Size all = 1;
  for (const T factor : factors) all = multiply(all, factor);
  return all;
}

/// Returns the least multiple of `alignment` that is not below `size`. Precondition: alignment > 0.
constexpr Size align_up(Operand size, std::uint64_t alignment) {
  const Size up = add(size, alignment - 1);
  return up ? Size(*up - *up % alignment) : Size();
}

/// Whether the bytes [offset, offset + length) are within [0, size): for a length of 0, whether offset <=
/// size.
constexpr bool fits(Operand offset, Operand length, Operand size) {
  return offset.size() && length.size() && size.size() && *offset.size() <= *size.size() &&
         *length.size() <= *size.size() - *offset.size();
}

/// A signed number of 64 bits, or nothing where the exact result is not one. For values (an integer of a
/// template's language), where negative ones are as good as others.
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

/// Returns the number as a T, or nothing where T does not hold it.
template <std::integral T>
constexpr std::optional<T> narrow(Operand number) {
  if (!number.size() || !std::in_range<T>(*number.size())) return std::nullopt;
  return static_cast<T>(*number.size());
}

}  // namespace crumb::checked
