// Cast, CastLike, BitCast.
#include "libtorch/execute/ops/cast.h"

#include <ATen/ATen.h>

#include "base/files/text.h"
#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/integers.h"

namespace crumb::libtorch {

using graph::ElementType;

TypedTensor cast(const TypedTensor& value, ElementType to, SmallFloatRounding rounding) {
  const at::ScalarType carrier = carrier_of(to);
  if (value.type == to) return value;
  const bool complex = graph::info(to).kind == graph::ElementKind::kComplex;
  if (value.tensor.is_complex() && !complex) {
    throw Error(text_of(value) + " cannot be cast to " + std::string(graph::name_of(to)));
  }
  if (complex) return {value.tensor.to(carrier), to};
  if (!graph::is_float(value.type)) {
    if (graph::is_integer(to)) return wrapped(value.tensor.to(at::kLong), to);
    if (to == ElementType::kBool) return {value.tensor != 0, to};
    const at::ScalarType real = is_small_float(to) ? at::kDouble : carrier;
    const at::Tensor numbers = integers_to_float(value.tensor, value.type, real);
    return {is_small_float(to) ? round_to_small_float(numbers, to, rounding) : numbers, to};
  }
  if (is_small_float(to)) return {round_to_small_float(value.tensor, to, rounding), to};
  // LibTorch goes from double to 16 bits through float, which rounds twice.
  if (value.type == ElementType::kDouble && to == ElementType::kFloat16) {
    return {round_mantissa(value.tensor, 10, -14).to(carrier), to};
  }
  if (value.type == ElementType::kDouble && to == ElementType::kBfloat16) {
    return {round_mantissa(value.tensor, 7, -126).to(carrier), to};
  }
  return from_real(value.tensor, to);
}

ElementType type_attribute(const Call& call, const char* name, ElementType otherwise) {
  if (!call.node().has(name)) return otherwise;
  const std::int64_t number = call.int_or(name, 0);
  const auto type = graph::element_type_of(number);
  if (!type)
    call.fail("expected a number of an element type as " + std::string(name) + ", found " +
              std::to_string(number));
  return *type;
}

namespace {

/// The name of a type before operator set 6, when `to` was a text.
ElementType named_type(const Call& call, std::string name) {
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const auto& row : graph::kElementTypes) {
    if (row.type != ElementType::kUnknown && row.name == name) return row.type;
  }
  call.fail("expected the name of an element type as to, found " + quote_text(name));
}

SmallFloatRounding rounding_of(const Call& call) {
  const std::string mode = call.text_or("round_mode", "up");
  SmallFloatRounding rounding{.saturate = call.int_or("saturate", 1) != 0};
  if (mode == "down") {
    rounding.power = PowerRounding::kDown;
  } else if (mode == "nearest") {
    rounding.power = PowerRounding::kNearest;
  } else if (mode != "up") {
    call.fail("expected the round_mode up, down or nearest, found " + quote_text(mode));
  }
  return rounding;
}

Outputs cast_to(const Call& call) {
  const auto& attributes = call.node().attributes;
  const auto to = attributes.find("to");
  if (to == attributes.end()) call.fail("expected the attribute to");
  const auto* name = std::get_if<std::string>(&to->second);
  const ElementType type = name ? named_type(call, *name) : type_attribute(call, "to", ElementType::kUnknown);
  if (type == ElementType::kString) call.fail("strings are not supported");
  return {cast(call.in(0), type, rounding_of(call))};
}

Outputs cast_like(const Call& call) { return {cast(call.in(0), call.type(1), rounding_of(call))}; }

/// The bits of one type read as another of the same width, through the bytes of a constant.
Outputs bit_cast(const Call& call) {
  const ElementType to = type_attribute(call, "to", ElementType::kUnknown), from = call.type(0);
  if (to == ElementType::kString) call.fail("strings are not supported");
  if (graph::info(to).bits != graph::info(from).bits) {
    call.fail("expected a type of " + std::to_string(graph::info(from).bits) + " bits as " +
              std::string(graph::name_of(from)) + " has, found " + std::string(graph::name_of(to)));
  }
  const graph::Tensor constant = to_constant(call.in(0));
  const auto bytes = constant.bytes();
  const bool logical = to == ElementType::kBool;
  TypedTensor value =
      to_typed({logical ? ElementType::kUint8 : to, constant.shape(), {bytes.begin(), bytes.end()}},
               call.tensor(0).device());
  if (logical) value = {value.tensor != 0, to};
  return {value};
}

constexpr OperatorRow kCastRows[] = {
    {"Cast", cast_to},
    {"CastLike", cast_like},
    {"BitCast", bit_cast},
};

}  // namespace

std::span<const OperatorRow> cast_operators() { return kCastRows; }

}  // namespace crumb::libtorch
