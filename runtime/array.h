// A value while a graph runs: its element type, its shape, and its elements.
//
// Elements lie row-major and without gaps, each in the C++ type that carries it:
//
//   float, float16, bfloat16, the types of eight and four bits      float, a value that the type holds
//   double                                                          double
//   int8 to int64, uint8 to uint64                                  the same
//   int4, int2; uint4, uint2                                        std::int8_t; std::uint8_t
//   bool                                                            bool
//
// So an operator that computes floats has one kernel for all of them; what it makes is rounded to the type of
// its output by whoever runs it (Array::round). Texts and complex numbers have no carrier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/tensor.h"

namespace crumb::runtime {

using Ints = std::vector<std::int64_t>;
using graph::ElementType;

enum class Carrier : std::uint8_t {
  kNone,
  kFloat,
  kDouble,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kBool,
};

Carrier carrier_of(ElementType type);
std::size_t bytes_of(Carrier carrier);  ///< of one element

class Array {
 public:
  Array() = default;
  /// Elements are not initialized. Throws Error where the type has no carrier, a size is negative, or memory
  /// is lacking.
  Array(ElementType type, Ints shape);

  /// The elements of a constant, widened to their carrier.
  static Array of(const graph::Tensor& tensor);
  /// From elements as the type stores them. Throws Error where the number of bytes does not fit the shape.
  static Array of(ElementType type, const Ints& shape, std::span<const std::byte> stored);
  static Array ints(const Ints& values);  ///< int64, of one axis
  /// An array with a type and a shape, whose elements somebody else keeps. Throws Error as the constructor
  /// does.
  static Array elsewhere(ElementType type, Ints shape);
  /// The elements as the type stores them. Throws Error for floats of eight and of four bits.
  graph::Tensor tensor() const;
  bool is_stored_as_it_lies() const;  ///< data() is what tensor() would hold

  bool is_elsewhere() const { return defined() && !memory_; }
  bool defined() const { return type_ != ElementType::kUnknown; }
  ElementType type() const { return type_; }
  Carrier carrier() const { return carrier_; }
  const Ints& shape() const { return shape_; }
  std::int64_t rank() const { return static_cast<std::int64_t>(shape_.size()); }
  std::int64_t dim(std::int64_t axis) const { return shape_[static_cast<std::size_t>(axis)]; }
  std::size_t size() const { return size_; }  ///< elements
  std::size_t bytes() const { return size_ * bytes_of(carrier_); }

  /// Preconditions: T carries the type; for writable(), nobody else holds the elements.
  template <class T>
  std::span<const T> values() const {
    return {reinterpret_cast<const T*>(memory_.get()), size_};
  }
  template <class T>
  std::span<T> writable() {
    return {reinterpret_cast<T*>(memory_.get()), size_};
  }
  const std::byte* data() const { return memory_.get(); }
  std::byte* writable_data() { return memory_.get(); }

  /// The same elements in another shape of as many, or under another type that the same C++ type carries.
  Array reshaped(Ints shape) const;
  Array typed(ElementType type) const;

  /// Whether this is the only holder of the elements.
  bool alone() const { return memory_.use_count() == 1; }

  /// Rounds every element to the nearest value of the type, ties to even. Does nothing where the carrier is
  /// the type. Precondition: alone().
  void round();

 private:
  ElementType type_ = ElementType::kUnknown;
  Carrier carrier_ = Carrier::kNone;
  Ints shape_;
  std::size_t size_ = 0;
  std::shared_ptr<std::byte[]> memory_;
};

/// "float [2, 3]", for messages.
std::string text_of(const Array& array);

/// The numbers of an array of integers or booleans. Throws Error for others.
Ints ints_of(const Array& array);

/// Calls `f.template operator()<T>()` with the C++ type of a carrier. Precondition: not kNone.
template <class F>
decltype(auto) with_carrier(Carrier carrier, const F& f) {
  switch (carrier) {
    case Carrier::kDouble: return f.template operator()<double>();
    case Carrier::kInt8: return f.template operator()<std::int8_t>();
    case Carrier::kInt16: return f.template operator()<std::int16_t>();
    case Carrier::kInt32: return f.template operator()<std::int32_t>();
    case Carrier::kInt64: return f.template operator()<std::int64_t>();
    case Carrier::kUint8: return f.template operator()<std::uint8_t>();
    case Carrier::kUint16: return f.template operator()<std::uint16_t>();
    case Carrier::kUint32: return f.template operator()<std::uint32_t>();
    case Carrier::kUint64: return f.template operator()<std::uint64_t>();
    case Carrier::kBool: return f.template operator()<bool>();
    case Carrier::kNone:
    case Carrier::kFloat: break;
  }
  return f.template operator()<float>();
}

/// Whether the carrier is an integer that int64 holds but that is narrower than int32 or is uint32.
constexpr bool is_narrow(Carrier carrier) {
  using enum Carrier;
  return carrier == kInt8 || carrier == kInt16 || carrier == kUint8 || carrier == kUint16 ||
         carrier == kUint32;
}

/// with_carrier() for operators that Takes::kWide. Precondition: the carrier is not narrow.
template <class F>
decltype(auto) with_wide_carrier(Carrier carrier, const F& f) {
  switch (carrier) {
    case Carrier::kDouble: return f.template operator()<double>();
    case Carrier::kInt32: return f.template operator()<std::int32_t>();
    case Carrier::kInt64: return f.template operator()<std::int64_t>();
    case Carrier::kUint64: return f.template operator()<std::uint64_t>();
    case Carrier::kBool: return f.template operator()<bool>();
    default: return f.template operator()<float>();
  }
}

}  // namespace crumb::runtime
