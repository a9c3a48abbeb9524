#include "jobs/evaluate/input_type.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/files/counted.h"
#include "formats/half.h"
#include "graph/element_type.h"

namespace crumb::jobs {
namespace {

using graph::ElementKind;
using graph::ElementType;
using graph::Tensor;

template <class To, class Convert>
Tensor floats_of(ElementType type, const Tensor& tensor, const Convert& convert) {
  const std::vector<float> values = tensor.to_floats();
  std::vector<std::byte> bytes(values.size() * sizeof(To));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const To value = convert(values[i]);
    std::memcpy(bytes.data() + i * sizeof(To), &value, sizeof(To));
  }
  return {type, tensor.shape(), std::move(bytes)};
}

/// In float32 or another type of the standard's floats; nothing for those of eight bits and fewer.
std::optional<Tensor> in_floats(const Tensor& tensor, ElementType type) {
  if (type == ElementType::kFloat) return Tensor::floats(tensor.shape(), tensor.to_floats());
  if (type == ElementType::kFloat16) return floats_of<std::uint16_t>(type, tensor, float_to_f16);
  if (type == ElementType::kBfloat16) return floats_of<std::uint16_t>(type, tensor, float_to_bf16);
  if (type == ElementType::kDouble)
    return floats_of<double>(type, tensor, [](float value) { return static_cast<double>(value); });
  return std::nullopt;
}

/// The least and the most of an integer type or bool; int64's for uint64.
std::pair<std::int64_t, std::int64_t> ends_of(ElementType type) {
  const graph::ElementTypeInfo& info = graph::info(type);
  if (info.kind == ElementKind::kBool) return {0, 1};
  constexpr unsigned kWidest = 64;
  if (info.bits == kWidest)
    return {info.kind == ElementKind::kSigned ? std::numeric_limits<std::int64_t>::min() : 0,
            std::numeric_limits<std::int64_t>::max()};
  const bool is_signed = info.kind == ElementKind::kSigned;
  const std::int64_t most = (std::int64_t{1} << (is_signed ? info.bits - 1 : info.bits)) - 1;
  return {is_signed ? -most - 1 : 0, most};
}

}  // namespace

Tensor in_type(const Tensor& tensor, ElementType type, const std::string& what) {
  if (type == ElementType::kUnknown || type == tensor.type()) return tensor;
  const auto is_number = [](ElementType of) {
    const ElementKind kind = graph::info(of).kind;
    return kind != ElementKind::kNone && kind != ElementKind::kComplex;
  };
  const std::string types =
      "expected " + std::string(name_of(type)) + ", found " + std::string(name_of(tensor.type()));
  if (!is_number(type) || !is_number(tensor.type())) throw Error(what + ": " + types);
  if (graph::is_float(type)) {
    if (auto made = in_floats(tensor, type)) return *std::move(made);
    throw Error(what + ": " + types);
  }
  const auto [least, most] = ends_of(type);
  const auto refuse = [&](std::size_t at, const std::string& value) {
    return Error(what + ": " + types + ", whose number " + std::to_string(at) + " is " + value + ": no " +
                 std::string(name_of(type)));
  };
  std::vector<std::int64_t> numbers;
  if (graph::is_float(tensor.type())) {
    const std::vector<float> values = tensor.to_floats();
    // Floats beyond 2^62 may round to one that int64 does not have.
    constexpr float kBeyond = 4.6e18F;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool is_whole = std::abs(values[i]) < kBeyond && values[i] == std::trunc(values[i]);
      if (!is_whole || static_cast<std::int64_t>(values[i]) < least ||
          static_cast<std::int64_t>(values[i]) > most)
        throw refuse(i, number_text(values[i]));
      numbers.push_back(static_cast<std::int64_t>(values[i]));
    }
  } else {
    numbers = tensor.to_ints();
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (numbers[i] < least || numbers[i] > most) throw refuse(i, std::to_string(numbers[i]));
  }
  return Tensor::ints(type, tensor.shape(), numbers);
}

}  // namespace crumb::jobs
