// Moves elements by their size, whatever their type.
#pragma once

#include <cstring>

#include "runtime/operator.h"

namespace crumb::runtime {

/// Calls `f.template operator()<T>()` with an unsigned integer as wide as an element.
template <class F>
decltype(auto) with_width(const Array& array, const F& f) {
  switch (bytes_of(array.carrier())) {
    case 1: return f.template operator()<std::uint8_t>();
    case 2: return f.template operator()<std::uint16_t>();
    case 4: return f.template operator()<std::uint32_t>();
    default: return f.template operator()<std::uint64_t>();
  }
}

/// Throws Error where the product of two sizes passes 64 bits. That cannot happen for an array that exists,
/// but for one that is still to be made.
inline std::int64_t product_of(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) throw Error("a shape has more than 2^63 elements");
  return product;
}

/// The step in elements from one index to the next of each axis. Throws as product_of() does.
inline Ints strides_of(const Ints& shape) {
  Ints strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = product_of(strides[i], shape[i]);
  return strides;
}

/// The product of the sizes of axes [begin, end). Throws as product_of() does.
inline std::int64_t product_of(const Ints& shape, std::size_t begin, std::size_t end) {
  std::int64_t product = 1;
  for (std::size_t i = begin; i < end; ++i) product = product_of(product, shape[i]);
  return product;
}

/// Walks an array of `shape` row by row: calls f(offset) for each element, where a step along axis i is
/// steps[i] and the first offset is `begin`.
template <class F>
void for_offsets(const Ints& shape, const Ints& steps, std::int64_t begin, const F& f) {
  for (const std::int64_t size : shape) {
    if (size == 0) return;
  }
  if (shape.empty()) return f(begin);
  Ints index(shape.size(), 0);
  const std::int64_t width = shape.back(), step = steps.back();
  for (std::int64_t at = begin;;) {
    for (std::int64_t i = 0; i < width; ++i) f(at + i * step);
    std::size_t axis = shape.size() - 1;
    while (axis-- > 0) {
      at += steps[axis];
      if (++index[axis] < shape[axis]) break;
      at -= steps[axis] * shape[axis];
      index[axis] = 0;
    }
    if (axis == ~std::size_t{0}) return;
  }
}

}  // namespace crumb::runtime
