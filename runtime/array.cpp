#include "runtime/array.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/checked_size.h"
#include "base/files/text.h"
#include "formats/half.h"
#include "runtime/meter.h"

namespace crumb::runtime {
namespace {

/// Whether the stored bytes of the type are those of its carrier.
bool is_stored_as_carried(ElementType type) {
  return graph::info(type).bits == 8 * bytes_of(carrier_of(type));
}

template <class T>
void copy_ints(const graph::Tensor& tensor, Array& made) {
  const std::vector<std::int64_t> values = tensor.to_ints();
  std::ranges::transform(values, made.writable<T>().begin(),
                         [](std::int64_t value) { return static_cast<T>(value); });
}

}  // namespace

Carrier carrier_of(ElementType type) {
  using enum ElementType;
  switch (type) {
    case kFloat:
    case kFloat16:
    case kBfloat16:
    case kFloat8E4M3fn:
    case kFloat8E4M3fnuz:
    case kFloat8E5M2:
    case kFloat8E5M2fnuz:
    case kFloat4E2M1:
    case kFloat8E8M0: return Carrier::kFloat;
    case kDouble: return Carrier::kDouble;
    case kInt8:
    case kInt4:
    case kInt2: return Carrier::kInt8;
    case kUint8:
    case kUint4:
    case kUint2: return Carrier::kUint8;
    case kInt16: return Carrier::kInt16;
    case kInt32: return Carrier::kInt32;
    case kInt64: return Carrier::kInt64;
    case kUint16: return Carrier::kUint16;
    case kUint32: return Carrier::kUint32;
    case kUint64: return Carrier::kUint64;
    case kBool: return Carrier::kBool;
    case kUnknown:
    case kString:
    case kComplex64:
    case kComplex128: break;
  }
  return Carrier::kNone;
}

std::size_t bytes_of(Carrier carrier) {
  if (carrier == Carrier::kNone) return 0;
  return with_carrier(carrier, []<class T>() { return sizeof(T); });
}

Array::Array(ElementType type, Ints shape)
    : type_(type), carrier_(carrier_of(type)), shape_(std::move(shape)) {
  if (carrier_ == Carrier::kNone)
    throw Error("values of type " + std::string(graph::name_of(type)) + " cannot be computed with");
  const auto count = graph::count_elements(shape_);
  if (!count.ok()) throw Error(count.failure().message);
  size_ = static_cast<std::size_t>(count.value());
  const auto what = [&] { return "a value of type " + text_of(*this); };
  const checked::Size bytes = checked::multiply(size_, bytes_of(carrier_));
  if (!bytes) throw Error(what() + " is too large");
  if (const auto& meter = MeterScope::current()) {
    // A kernel may walk the other axes of an array without elements.
    meter->spend(size_ > 0 ? size_ : static_cast<std::uint64_t>(graph::count_around_zeros(shape_)));
  }
  try {
    memory_ = metered_memory(*bytes);
  } catch (const std::bad_alloc&) {
    throw Error("there is no memory for " + what());
  }
}

Array Array::elsewhere(ElementType type, Ints shape) {
  Array made(type, Ints(1, 0));
  made.memory_ = nullptr;
  made.shape_ = std::move(shape);
  const auto count = graph::count_elements(made.shape_);
  if (!count.ok()) throw Error(count.failure().message);
  made.size_ = static_cast<std::size_t>(count.value());
  return made;
}

Array Array::of(ElementType type, const Ints& shape, std::span<const std::byte> stored) {
  if (!is_stored_as_carried(type) || carrier_of(type) == Carrier::kBool)
    return of(graph::Tensor(type, shape, {stored.begin(), stored.end()}));
  Array made(type, shape);
  if (stored.size() != made.bytes()) {
    throw Error(text_of(made) + " takes " + byte_text(made.bytes()) + ", found " +
                std::to_string(stored.size()));
  }
  if (!stored.empty()) std::memcpy(made.writable_data(), stored.data(), stored.size());
  return made;
}

bool Array::is_stored_as_it_lies() const { return is_stored_as_carried(type_); }

Array Array::of(const graph::Tensor& tensor) {
  Array made(tensor.type(), tensor.shape());
  if (made.carrier_ == Carrier::kBool) {  // whatever is not 0 is true
    std::ranges::transform(tensor.bytes(), made.writable<bool>().begin(),
                           [](std::byte byte) { return byte != std::byte{0}; });
  } else if (is_stored_as_carried(tensor.type())) {
    const graph::HeldBytes held = tensor.held();
    if (made.bytes() > 0) std::memcpy(made.writable_data(), held.bytes().data(), made.bytes());
  } else if (made.carrier_ == Carrier::kFloat) {
    std::ranges::copy(tensor.to_floats(), made.writable<float>().begin());
  } else if (made.carrier_ == Carrier::kInt8) {
    copy_ints<std::int8_t>(tensor, made);
  } else {
    copy_ints<std::uint8_t>(tensor, made);
  }
  return made;
}

Array Array::ints(const Ints& values) {
  Array made(ElementType::kInt64, {static_cast<std::int64_t>(values.size())});
  std::ranges::copy(values, made.writable<std::int64_t>().begin());
  return made;
}

graph::Tensor Array::tensor() const {
  if (is_elsewhere()) throw Error("the elements of " + text_of(*this) + " are kept in the session");
  std::vector<std::byte> stored;
  if (is_stored_as_carried(type_)) {
    stored.assign(data(), data() + bytes());
  } else if (type_ == ElementType::kFloat16 || type_ == ElementType::kBfloat16) {
    stored.resize(2 * size_);
    const auto x = values<float>();
    for (std::size_t i = 0; i < size_; ++i) {
      const std::uint16_t bits = type_ == ElementType::kFloat16 ? float_to_f16(x[i]) : float_to_bf16(x[i]);
      std::memcpy(&stored[2 * i], &bits, sizeof bits);
    }
  } else if (graph::is_integer(type_)) {  // below a byte: the lowest bits first
    const unsigned bits = graph::info(type_).bits;
    stored.resize((size_ * bits + 7) / 8);
    for (std::size_t i = 0; i < size_; ++i) {
      const unsigned code = std::to_integer<unsigned>(memory_[i]) & ((1u << bits) - 1);
      stored[i * bits / 8] |= static_cast<std::byte>(code << (i * bits % 8));
    }
  } else {
    throw Error("a value of type " + std::string(graph::name_of(type_)) + " cannot be handed out");
  }
  return {type_, shape_, std::move(stored)};
}

Array Array::reshaped(Ints shape) const {
  Array made = *this;
  made.shape_ = std::move(shape);
  return made;
}

Array Array::typed(ElementType type) const {
  Array made = *this;
  made.type_ = type;
  return made;
}

void Array::round() {
  if (type_ == ElementType::kFloat16) {
    for (float& x : writable<float>()) x = f16_to_float(float_to_f16(x));
  } else if (type_ == ElementType::kBfloat16) {
    for (float& x : writable<float>()) x = bf16_to_float(float_to_bf16(x));
  }
}

std::string text_of(const Array& array) {
  if (!array.defined()) return "nothing";
  return std::string(graph::name_of(array.type())) + " " + graph::text_of(array.shape());
}

Ints ints_of(const Array& array) {
  if (array.carrier() == Carrier::kNone || array.carrier() == Carrier::kFloat ||
      array.carrier() == Carrier::kDouble) {
    throw Error("expected integers, found " + text_of(array));
  }
  return with_carrier(array.carrier(), [&]<class T>() {
    const auto values = array.values<T>();
    Ints ints(values.size());
    std::ranges::transform(values, ints.begin(), [](T value) { return static_cast<std::int64_t>(value); });
    return ints;
  });
}

}  // namespace crumb::runtime
