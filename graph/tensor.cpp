#include "graph/tensor.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include "base/checked_size.h"
#include "quant/row_source.h"

namespace crumb::graph {
namespace {

constexpr std::size_t kMostShown = 8;

/// Returns element i of a type narrower than one byte.
std::uint8_t bits_at(std::span<const std::byte> bytes, unsigned bits, std::int64_t i) {
  const auto bit = static_cast<std::uint64_t>(i) * bits;
  return static_cast<std::uint8_t>((static_cast<unsigned>(bytes[bit / 8]) >> (bit % 8)) & ((1u << bits) - 1));
}

template <class T>
void append_all(std::span<const std::byte> bytes, std::vector<std::int64_t>& out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    out[i] = static_cast<std::int64_t>(value);  // NOLINT(bugprone-signed-char-misuse): int8 keeps its sign
  }
}

/// All values, [cols, rows], decoded a few rows at a time.
std::vector<float> transposed_values(const RowSource& source) {
  constexpr std::uint64_t kPanel = std::uint64_t{1} << 16;  // floats, or one block of rows
  const std::uint64_t rows = source.rows(), cols = source.cols(), block = source.rows_together();
  const std::uint64_t together =
      std::max<std::uint64_t>(1, kPanel / std::max<std::uint64_t>(cols * block, 1)) * block;
  std::vector<float> made(rows * cols), panel;
  for (std::uint64_t first = 0; first < rows; first += together) {
    const std::uint64_t count = std::min(together, rows - first);
    panel.resize(count * cols);
    source.decode(first, panel);
    for (std::uint64_t r = 0; r < count; ++r) {
      for (std::uint64_t c = 0; c < cols; ++c) made[c * rows + first + r] = panel[r * cols + c];
    }
  }
  return made;
}

[[noreturn]] void throw_wrong_type(const Tensor& tensor, const char* wanted) {
  throw Error("expected a tensor of " + std::string(wanted) + ", found one of " +
              std::string(name_of(tensor.type())) + " " + text_of(tensor.shape()));
}

}  // namespace

Result<std::int64_t> count_elements(std::span<const std::int64_t> shape) {
  checked::Size count = 1;
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) return Failure{"a shape holds the size " + std::to_string(size)};
    empty = empty || size == 0;
    if (size != 0) count = checked::multiply(count, size);
  }
  const std::optional<std::int64_t> elements = checked::narrow<std::int64_t>(count);
  if (!elements) return Failure{"a tensor of shape " + text_of(shape) + " has more than 2^63 elements"};
  return empty ? 0 : *elements;
}

std::int64_t count_around_zeros(std::span<const std::int64_t> shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size == 0 ? 1 : size;
  return count;
}

Result<std::uint64_t> packed_bytes(ElementType type, std::int64_t elements) {
  if (info(type).bits == 0) {
    return Failure{"tensors of type " + std::string(name_of(type)) + " hold no numbers"};
  }
  const checked::Size bits = checked::multiply(elements, info(type).bits);
  if (!bits) {
    return Failure{std::to_string(elements) + " elements of type " + std::string(name_of(type)) +
                   " take more than 2^64 bits"};
  }
  return *bits / 8 + (*bits % 8 != 0 ? 1 : 0);
}

std::string text_of(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    if (i == kMostShown) return text + "...]";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

Tensor::Tensor(ElementType type, std::vector<std::int64_t> shape, std::vector<std::byte> bytes)
    : type_(type), shape_(std::move(shape)), size_(count_elements(shape_).take()) {
  const std::uint64_t needed = packed_bytes(type_, size_).take();
  if (bytes.size() != needed) {
    throw Error("a tensor of " + std::string(name_of(type_)) + " " + text_of(shape_) + " takes " +
                std::to_string(needed) + " bytes, found " + std::to_string(bytes.size()));
  }
  bytes_ = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

Tensor Tensor::floats(std::vector<std::int64_t> shape, std::span<const float> values) {
  const auto bytes = std::as_bytes(values);
  return {ElementType::kFloat, std::move(shape), {bytes.begin(), bytes.end()}};
}

Tensor Tensor::ints(std::vector<std::int64_t> shape, std::span<const std::int64_t> values) {
  const auto bytes = std::as_bytes(values);
  return {ElementType::kInt64, std::move(shape), {bytes.begin(), bytes.end()}};
}

Tensor Tensor::ints(ElementType type, std::vector<std::int64_t> shape, std::span<const std::int64_t> values) {
  const unsigned bits = info(type).bits;
  std::vector<std::byte> bytes(packed_bytes(type, static_cast<std::int64_t>(values.size())).take());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto code = static_cast<std::uint64_t>(values[i]);
    if (bits >= 8) {
      for (unsigned b = 0; b < bits / 8; ++b)
        bytes[i * (bits / 8) + b] = static_cast<std::byte>((code >> (8 * b)) & 0xFF);
    } else {
      const std::size_t bit = i * bits;
      bytes[bit / 8] |= static_cast<std::byte>((code & ((1u << bits) - 1)) << (bit % 8));
    }
  }
  return {type, std::move(shape), std::move(bytes)};
}

/// Shared between copies, so that they are kept once.
class Tensor::Unread {
 public:
  using ReadPart = std::function<void(std::uint64_t, std::span<std::byte>)>;

  Unread(std::int64_t size, std::uint64_t bytes, std::function<std::vector<float>()> read)
      : size_(size), bytes_(bytes), read_floats_(std::move(read)) {}
  Unread(std::int64_t size, std::uint64_t bytes, std::function<std::vector<std::byte>()> read)
      : size_(size), bytes_(bytes), read_bytes_(std::move(read)) {}
  Unread(std::int64_t size, std::uint64_t bytes, ReadPart read)
      : size_(size), bytes_(bytes), read_part_(std::move(read)) {}

  /// Whether this is a float32 tensor whose reader returns floats.
  bool gives_floats() const { return read_floats_ != nullptr; }
  std::vector<float> floats() const {
    std::vector<float> values = read_floats_();
    if (std::cmp_not_equal(values.size(), size_))
      throw Error("a tensor of " + std::to_string(size_) + " elements was read, and " +
                  std::to_string(values.size()) + " came");
    return values;
  }

  HeldBytes held() const {
    {
      const std::scoped_lock lock(mutex_);
      if (kept_) return *kept_;
    }
    return fresh();
  }

  bool gives_parts() const { return read_part_ || is_kept(); }
  void read(std::uint64_t first, std::span<std::byte> to) const {
    if (read_part_ && !is_kept()) return read_part_(first, to);
    const HeldBytes all = held();
    std::ranges::copy(all.bytes().subspan(first, to.size()), to.begin());
  }

  bool is_kept() const {
    const std::scoped_lock lock(mutex_);
    return kept_.has_value();
  }

  std::span<const std::byte> keep() {
    const std::scoped_lock lock(mutex_);
    if (!kept_) kept_ = fresh();
    return kept_->bytes();
  }

 private:
  HeldBytes fresh() const {
    if (gives_floats()) {
      const auto values = std::make_shared<const std::vector<float>>(floats());
      return {values, std::as_bytes(std::span(*values))};
    }
    if (read_part_) {
      const auto bytes = std::make_shared<std::vector<std::byte>>(bytes_);
      read_part_(0, *bytes);
      return {bytes, std::span(*bytes)};
    }
    const auto bytes = std::make_shared<const std::vector<std::byte>>(read_bytes_());
    if (bytes->size() != bytes_)
      throw Error("a tensor of " + std::to_string(bytes_) + " bytes was read, and " +
                  std::to_string(bytes->size()) + " came");
    return {bytes, std::span(*bytes)};
  }

  std::int64_t size_;
  std::uint64_t bytes_;
  std::function<std::vector<float>()> read_floats_;
  std::function<std::vector<std::byte>()> read_bytes_;
  ReadPart read_part_;
  mutable std::mutex mutex_;
  std::optional<HeldBytes> kept_;  ///< never changed after it is set
};

template <class Read>
Tensor Tensor::read_later(ElementType type, std::vector<std::int64_t> shape, Read read) {
  Tensor made;
  made.type_ = type;
  made.size_ = count_elements(shape).take();
  made.shape_ = std::move(shape);
  made.unread_ = std::make_shared<Unread>(made.size_, packed_bytes(type, made.size_).take(), std::move(read));
  return made;
}

Tensor Tensor::unread(std::vector<std::int64_t> shape, std::function<std::vector<float>()> read) {
  return read_later(ElementType::kFloat, std::move(shape), std::move(read));
}

Tensor Tensor::unread(ElementType type, std::vector<std::int64_t> shape,
                      std::function<std::vector<std::byte>()> read) {
  return read_later(type, std::move(shape), std::move(read));
}

Tensor Tensor::unread_transpose(Origin origin, std::function<std::vector<float>()> read) {
  std::vector<std::int64_t> shape;
  for (const std::int64_t axis : origin.perm)
    shape.push_back(origin.tensor.shape().at(static_cast<std::size_t>(axis)));
  Tensor made = unread(std::move(shape), std::move(read));
  made.origin_ = std::make_shared<const Origin>(std::move(origin));
  return made;
}

Tensor Tensor::in_parts(ElementType type, std::vector<std::int64_t> shape,
                        std::function<void(std::uint64_t first, std::span<std::byte> to)> read) {
  return read_later(type, std::move(shape), std::move(read));
}

Tensor Tensor::of_rows(PackedRows rows) {
  const RowSource& source = *rows.source;
  std::vector<std::int64_t> shape{static_cast<std::int64_t>(source.rows()),
                                  static_cast<std::int64_t>(source.cols())};
  Tensor made;
  if (rows.transposed) {
    std::swap(shape[0], shape[1]);
    made = unread(std::move(shape), [held = rows.source] { return transposed_values(*held); });
  } else {
    made = in_parts(ElementType::kFloat, std::move(shape),
                    [held = rows.source](std::uint64_t first, std::span<std::byte> to) {
                      decode_elements(*held, first / sizeof(float),
                                      {reinterpret_cast<float*>(to.data()), to.size() / sizeof(float)});
                    });
  }
  made.rows_ = std::move(rows);
  return made;
}

bool Tensor::gives_parts() const { return !unread_ || unread_->gives_parts(); }

void Tensor::read(std::uint64_t first, std::span<std::byte> to) const {
  if (unread_) return unread_->read(first, to);
  std::ranges::copy(bytes().subspan(first, to.size()), to.begin());
}

bool Tensor::is_unread() const { return unread_ && !unread_->is_kept(); }

std::uint64_t Tensor::byte_count() const {
  return unread_ ? packed_bytes(type_, size_).take() : bytes().size();
}

std::span<const std::byte> Tensor::bytes() const {
  if (unread_) return unread_->keep();
  return bytes_ ? std::span(*bytes_) : std::span<const std::byte>();
}

HeldBytes Tensor::held() const { return unread_ ? unread_->held() : HeldBytes(bytes_, bytes()); }

bool Tensor::shares_with(const Tensor& other) const {
  return unread_ ? unread_ == other.unread_ : bytes_ && bytes_ == other.bytes_;
}

PartReader::PartReader(const Tensor& tensor) : tensor_(tensor) {
  if (!tensor.gives_parts()) whole_ = tensor.held();
}

void PartReader::read(std::uint64_t first, std::span<std::byte> to) const {
  if (!whole_) return tensor_.read(first, to);
  std::ranges::copy(whole_->bytes().subspan(first, to.size()), to.begin());
}

std::vector<std::int64_t> Tensor::to_ints() const {
  const HeldBytes read = held();
  const std::span<const std::byte> bytes = read.bytes();
  std::vector<std::int64_t> out(static_cast<std::size_t>(size_));
  switch (type_) {
    case ElementType::kUint8: append_all<std::uint8_t>(bytes, out); break;
    case ElementType::kBool: append_all<bool>(bytes, out); break;
    case ElementType::kInt8: append_all<std::int8_t>(bytes, out); break;
    case ElementType::kUint16: append_all<std::uint16_t>(bytes, out); break;
    case ElementType::kInt16: append_all<std::int16_t>(bytes, out); break;
    case ElementType::kUint32: append_all<std::uint32_t>(bytes, out); break;
    case ElementType::kInt32: append_all<std::int32_t>(bytes, out); break;
    case ElementType::kUint64: append_all<std::uint64_t>(bytes, out); break;
    case ElementType::kInt64: append_all<std::int64_t>(bytes, out); break;
    case ElementType::kUint4:
    case ElementType::kUint2:
    case ElementType::kInt4:
    case ElementType::kInt2: {
      const unsigned bits = info(type_).bits;
      const int half = info(type_).kind == ElementKind::kSigned ? 1 << (bits - 1) : 1 << bits;
      for (std::int64_t i = 0; i < size_; ++i) {
        const int code = bits_at(bytes, bits, i);
        out[static_cast<std::size_t>(i)] = code < half ? code : code - 2 * half;
      }
      break;
    }
    default: throw_wrong_type(*this, "integers");
  }
  return out;
}

std::vector<float> Tensor::to_floats() const {
  if (is_unread() && unread_->gives_floats()) return unread_->floats();
  std::vector<float> out(static_cast<std::size_t>(size_));
  if (type_ == ElementType::kFloat) {
    read(0, std::as_writable_bytes(std::span(out)));
    return out;
  }
  if (is_integer(type_) && !info(type_).dtype) {
    const std::vector<std::int64_t> ints = to_ints();
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(ints[i]);
    return out;
  }
  if (!info(type_).dtype || info(type_).kind == ElementKind::kComplex) throw_wrong_type(*this, "numbers");
  const HeldBytes read = held();
  widen_to_float(*info(type_).dtype, read.bytes(), out);
  return out;
}

Tensor Tensor::reshaped(std::vector<std::int64_t> shape) const {
  if (count_elements(shape).take() != size_) {
    throw Error("a tensor of shape " + text_of(shape_) + " cannot have the shape " + text_of(shape));
  }
  Tensor other = *this;
  if (shape != shape_) {
    other.rows_.reset();
    other.origin_ = nullptr;
  }
  other.shape_ = std::move(shape);
  return other;
}

bool Tensor::operator==(const Tensor& other) const {
  if (type_ != other.type_ || shape_ != other.shape_) return false;
  if (shares_with(other)) return true;
  const HeldBytes my_bytes = held(), their_bytes = other.held();
  const auto mine = my_bytes.bytes(), theirs = their_bytes.bytes();
  return mine.size() == theirs.size() &&
         (mine.data() == theirs.data() || std::memcmp(mine.data(), theirs.data(), mine.size()) == 0);
}

}  // namespace crumb::graph
