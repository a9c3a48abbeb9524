#include "formats/gguf/value.h"

#include <array>
#include <utility>

namespace crumb {
namespace {

struct TypeRow {
  std::string_view name;
  std::uint64_t bytes;
};

/// By the type's number.
constexpr std::array<TypeRow, 13> kValueTypes = {{
    {"u8", 1},
    {"i8", 1},
    {"u16", 2},
    {"i16", 2},
    {"u32", 4},
    {"i32", 4},
    {"f32", 4},
    {"bool", 1},
    {"text", 0},
    {"array", 0},
    {"u64", 8},
    {"i64", 8},
    {"f64", 8},
}};

const TypeRow& row_of(GgufValueType type) { return kValueTypes[static_cast<std::size_t>(type)]; }

std::string_view characters(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Failure expected(std::string_view what, const GgufValue& value) {
  std::string found(gguf_value_type_name(value.type));
  if (value.type == GgufValueType::kArray)
    found += " of " + std::to_string(value.count) + " " + std::string(gguf_value_type_name(value.element));
  return Failure{"expected " + std::string(what) + ", found a value of type " + found};
}

template <class T>
T load(const GgufValue& value) {
  T number;
  std::memcpy(&number, value.bytes.data(), sizeof number);
  return number;
}

/// Calls `use` with the number of an integer type. False where it is no integer.
template <class Use>
bool with_integer(const GgufValue& value, Use use) {
  switch (value.type) {
    case GgufValueType::kU8: use(load<std::uint8_t>(value)); return true;
    case GgufValueType::kI8: use(load<std::int8_t>(value)); return true;
    case GgufValueType::kU16: use(load<std::uint16_t>(value)); return true;
    case GgufValueType::kI16: use(load<std::int16_t>(value)); return true;
    case GgufValueType::kU32: use(load<std::uint32_t>(value)); return true;
    case GgufValueType::kI32: use(load<std::int32_t>(value)); return true;
    case GgufValueType::kU64: use(load<std::uint64_t>(value)); return true;
    case GgufValueType::kI64: use(load<std::int64_t>(value)); return true;
    default: return false;
  }
}

Result<GgufValue> read_array(GgufCursor& cursor, unsigned depth) {
  const std::uint64_t begin = cursor.at();
  if (depth >= kGgufDeepestArray)
    return Failure{"the array at byte " + std::to_string(begin) + " lies in " + std::to_string(depth) +
                   " others, at most " + std::to_string(kGgufDeepestArray - 1) + " are read"};
  const Result<std::uint32_t> number = cursor.number<std::uint32_t>("an array's element type");
  if (!number.ok()) return number.failure();
  const Result<GgufValueType> element = gguf_value_type(number.value());
  if (!element.ok())
    return Failure{"the array at byte " + std::to_string(begin) + ": " + element.failure().message};
  const Result<std::uint64_t> count = cursor.number<std::uint64_t>("an array's length");
  if (!count.ok()) return count.failure();

  GgufValue array{GgufValueType::kArray, {}, element.value(), count.value()};
  GgufCursor elements = cursor;
  const std::uint64_t size = gguf_number_bytes(element.value());
  // Texts and arrays begin with their length, in 8 and 12 bytes.
  const std::uint64_t least = size != 0 ? size : element.value() == GgufValueType::kText ? 8 : 12;
  const checked::Size bytes = checked::multiply(count.value(), least);
  if (!bytes || *bytes > cursor.left())
    return Failure{"the array at byte " + std::to_string(begin) + " claims " + std::to_string(count.value()) +
                   " elements of type " + std::string(gguf_value_type_name(element.value())) + ", of " +
                   std::to_string(least) + (size != 0 ? "" : " or more") + " bytes each, but " +
                   byte_text(cursor.left()) + " are left in the file"};
  // Any bytes are numbers; what is not, a bool too, is looked at one by one.
  const bool are_numbers = size != 0 && element.value() != GgufValueType::kBool;
  if (are_numbers) {
    (void)elements.take(*bytes, "an array").ok();
  } else {
    for (std::uint64_t i = 0; i < count.value(); ++i) {
      const Result<GgufValue> value = read_gguf_value(elements, element.value(), depth + 1);
      if (!value.ok()) return value;
    }
  }
  Result<std::span<const std::byte>> all = cursor.take(elements.at() - cursor.at(), "an array");
  if (!all.ok()) return all.failure();
  array.bytes = all.value();
  return array;
}

}  // namespace

std::string_view gguf_value_type_name(GgufValueType type) { return row_of(type).name; }

std::uint64_t gguf_number_bytes(GgufValueType type) { return row_of(type).bytes; }

Result<GgufValueType> gguf_value_type(std::uint32_t number) {
  if (number >= kValueTypes.size())
    return Failure{"unknown value type " + std::to_string(number) + ", expected 0 to 12"};
  return static_cast<GgufValueType>(number);
}

Result<GgufValue> read_gguf_value(GgufCursor& cursor, GgufValueType type, unsigned depth) {
  if (type == GgufValueType::kArray) return read_array(cursor, depth);
  const std::uint64_t begin = cursor.at();
  const Result<std::span<const std::byte>> bytes =
      type == GgufValueType::kText ? cursor.text("a text") : cursor.take(gguf_number_bytes(type), "a number");
  if (!bytes.ok()) return bytes.failure();
  GgufValue value{type, bytes.value(), {}, 0};
  if (type == GgufValueType::kBool && load<std::uint8_t>(value) > 1)
    return Failure{"the bool at byte " + std::to_string(begin) + " is " +
                   std::to_string(load<std::uint8_t>(value)) + ", expected 0 or 1"};
  return value;
}

Result<std::uint64_t> gguf_natural(const GgufValue& value) {
  checked::Size number;
  std::string text;
  if (!with_integer(value, [&](auto integer) {
        number = checked::Operand(integer).size();
        text = std::to_string(integer);
      }))
    return expected("a natural number", value);
  if (!number) return Failure{"expected a natural number, found " + text};
  return *number;
}

Result<double> gguf_number(const GgufValue& value) {
  double number = 0;
  if (value.type == GgufValueType::kF32) return static_cast<double>(load<float>(value));
  if (value.type == GgufValueType::kF64) return load<double>(value);
  if (!with_integer(value, [&](auto integer) { number = static_cast<double>(integer); }))
    return expected("a number", value);
  return number;
}

Result<bool> gguf_bool(const GgufValue& value) {
  if (value.type != GgufValueType::kBool) return expected("a bool", value);
  return load<std::uint8_t>(value) != 0;
}

Result<std::string_view> gguf_text(const GgufValue& value) {
  if (value.type != GgufValueType::kText) return expected("a text", value);
  const std::string_view text = characters(value.bytes);
  if (!is_utf8(text)) return Failure{"expected UTF-8, found " + quote_text(text)};
  return text;
}

Status gguf_for_each(const GgufValue& array, GgufValueType element,
                     const std::function<Status(const GgufValue&)>& sink) {
  if (array.type != GgufValueType::kArray || (array.element != element && array.count != 0))
    return expected("an array of " + std::string(gguf_value_type_name(element)), array);
  GgufCursor cursor(array.bytes);
  for (std::uint64_t i = 0; i < array.count; ++i) {
    const Result<GgufValue> value = read_gguf_value(cursor, element);
    if (!value.ok()) return value.failure();
    if (Status used = sink(value.value()); !used.ok()) return used;
  }
  return {};
}

}  // namespace crumb
