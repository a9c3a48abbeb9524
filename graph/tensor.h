// A constant tensor of a graph: type, shape and bytes, shared between copies and never changed.
//
// The bytes are ONNX's raw_data: little-endian, row-major; elements of four or two bits packed without gaps,
// lowest bits first, the last byte filled up with zeros.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/element_type.h"

namespace crumb {
class RowSource;
}

namespace crumb::graph {

/// Packed weights that only say their values (quant/row_source.h), as a tensor has them.
struct PackedRows {
  std::shared_ptr<const RowSource> source;  ///< never null
  bool transposed = false;                  ///< the tensor is [cols, rows]
};

/// The bytes of a tensor, valid as long as this object lives.
class HeldBytes {
 public:
  HeldBytes(std::shared_ptr<const void> owner, std::span<const std::byte> bytes)
      : owner_(std::move(owner)), bytes_(bytes) {}
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> bytes_;
};

class Tensor {
 public:
  Tensor() = default;
  /// Throws Error where the bytes are not as many as type and shape need, or a size is negative.
  Tensor(ElementType type, std::vector<std::int64_t> shape, std::vector<std::byte> bytes);

  static Tensor floats(std::vector<std::int64_t> shape, std::span<const float> values);
  static Tensor ints(std::vector<std::int64_t> shape, std::span<const std::int64_t> values);  ///< int64
  /// The same of any integer type. Precondition: the numbers fit.
  static Tensor ints(ElementType type, std::vector<std::int64_t> shape, std::span<const std::int64_t> values);
  /// Makes a tensor of float32 values that are stored elsewhere. `read` returns them row by row, the same
  /// ones each time, and may be called by several threads at once. to_floats() keeps none of them; bytes()
  /// keeps them all, so that its span stays valid.
  static Tensor unread(std::vector<std::int64_t> shape, std::function<std::vector<float>()> read);
  /// The same for any type; `read` returns what bytes() would.
  static Tensor unread(ElementType type, std::vector<std::int64_t> shape,
                       std::function<std::vector<std::byte>()> read);
  /// The same, read in parts: `read` fills `to` with the bytes from `first` on, always whole elements.
  static Tensor in_parts(ElementType type, std::vector<std::int64_t> shape,
                         std::function<void(std::uint64_t first, std::span<std::byte> to)> read);
  /// float32 values of packed weights, which are decoded when they are read. Parts of transposed ones are
  /// not.
  static Tensor of_rows(PackedRows rows);
  static Tensor scalar(float value) { return floats({}, {&value, 1}); }
  static Tensor scalar(std::int64_t value) { return ints({}, {&value, 1}); }

  ElementType type() const { return type_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::int64_t rank() const { return static_cast<std::int64_t>(shape_.size()); }
  std::int64_t size() const { return size_; }  ///< elements
  std::span<const std::byte> bytes() const;
  HeldBytes held() const;            ///< the same bytes; an unread tensor is read for this result alone
  std::uint64_t byte_count() const;  ///< the number of bytes; reads nothing
  bool is_unread() const;            ///< its values are stored elsewhere, and bytes() was not called yet
  bool gives_parts() const;          ///< reading a part does not read the whole
  /// What of_rows() was given, for whoever keeps it packed; null for other tensors, and for what was made
  /// of one.
  const PackedRows* packed_rows() const { return rows_ ? &*rows_ : nullptr; }
  /// Copies the bytes [first, first + to.size()), whole elements, into `to`, which is aligned for elements.
  void read(std::uint64_t first, std::span<std::byte> to) const;

  /// The unread tensor of which this one is a transpose: axis i is axis perm[i] of it.
  struct Origin;
  /// Makes that transpose of `origin`; `read` returns its elements as unread() says.
  static Tensor unread_transpose(Origin origin, std::function<std::vector<float>()> read);
  const Origin* origin() const { return origin_.get(); }  ///< null for all other tensors

  /// Whether both tensors share their elements; reads neither.
  bool shares_with(const Tensor& other) const;

  /// Returns every element as a number. to_ints() throws Error for types other than integers and bool,
  /// to_floats() for complex numbers and strings. to_floats() rounds doubles, and integers beyond float32's
  /// precision.
  std::vector<std::int64_t> to_ints() const;
  std::vector<float> to_floats() const;

  /// Returns the same elements in another shape. Precondition: it has as many elements.
  Tensor reshaped(std::vector<std::int64_t> shape) const;

  bool operator==(const Tensor& other) const;  ///< equal type, shape and bytes

 private:
  template <class Read>
  static Tensor read_later(ElementType type, std::vector<std::int64_t> shape, Read read);

  ElementType type_ = ElementType::kUnknown;
  std::vector<std::int64_t> shape_;
  class Unread;

  std::int64_t size_ = 0;
  std::shared_ptr<const std::vector<std::byte>> bytes_;
  std::shared_ptr<Unread> unread_;  ///< instead of bytes_
  std::optional<PackedRows> rows_;  ///< what unread_ decodes
  std::shared_ptr<const Origin> origin_;
};

struct Tensor::Origin {
  Tensor tensor;  ///< has no origin itself
  std::vector<std::int64_t> perm;
};

/// Reads a tensor in parts; reads the whole once where the tensor does not give parts.
class PartReader {
 public:
  explicit PartReader(const Tensor& tensor);
  void read(std::uint64_t first, std::span<std::byte> to) const;  ///< as Tensor::read

 private:
  Tensor tensor_;
  std::optional<HeldBytes> whole_;
};

/// Returns the number of elements of a shape; a Failure where a size is negative or the product overflows.
Result<std::int64_t> count_elements(std::span<const std::int64_t> shape);

/// Returns the product of the sizes that are not 0, which bounds loops over the axes of a tensor without
/// elements. Precondition: count_elements() accepts the shape.
std::int64_t count_around_zeros(std::span<const std::int64_t> shape);

/// Returns the bytes of that many packed elements, rounded up to whole bytes.
Result<std::uint64_t> packed_bytes(ElementType type, std::int64_t elements);

/// "[2, 3]".
std::string text_of(std::span<const std::int64_t> shape);

}  // namespace crumb::graph
