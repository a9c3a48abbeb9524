#include "jobs/language/base_copies.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "formats/half.h"

namespace crumb::jobs {
namespace {

/// How a copy differs from the base's numbers, which are rounded to its type.
struct Difference {
  std::size_t count = 0;
  double norm = 0;  ///< of the difference, over that of the base
};

float rounded_to(DType dtype, float value) {
  if (dtype == DType::kF16) return f16_to_float(float_to_f16(value));
  return dtype == DType::kBF16 ? bf16_to_float(float_to_bf16(value)) : value;
}

std::string short_text(double number) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2g", number);
  return text.data();
}

Difference difference_of(const BaseCopy& copy, std::span<const float> base) {
  constexpr std::size_t kPiece = 1 << 16;
  std::vector<float> piece(std::min(kPiece, base.size()));
  Difference difference;
  double moved = 0, whole = 0;
  for (std::size_t begin = 0; begin < base.size(); begin += kPiece) {
    const auto values = std::span(piece).first(std::min(kPiece, base.size() - begin));
    widen_to_float(copy.dtype, copy.bytes, begin, values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double meant = rounded_to(copy.dtype, base[begin + i]), found = values[i];
      difference.count += !(meant == found);
      moved += (meant - found) * (meant - found);
      whole += meant * meant;
    }
  }
  difference.norm = whole > 0 ? std::sqrt(moved / whole) : std::sqrt(moved);
  return difference;
}

bool is_stored_in_floats(const SourceTensor& tensor) {
  return tensor.spec.empty() && tensor.stored_as == dtype_name(tensor.dtype);
}

Status check_copy(const BaseCopy& copy, const TensorSource& base, Observer& observer) {
  const SourceTensor* tensor = base.find(copy.tensor);
  if (!tensor)
    return Failure{"is saved whole, and the base model has no tensor " + quote_text(copy.tensor) +
                   " with which to compare it"};
  if (tensor->shape != copy.shape)
    return Failure{"is saved whole with the shape " + shape_text(copy.shape) + ", and the base's " +
                   quote_text(copy.tensor) + " has the shape " + shape_text(tensor->shape)};
  const Difference difference = difference_of(copy, base.floats(*tensor));
  if (difference.count == 0) return {};
  const std::string measured = short_text(difference.norm) + " of its norm";
  if (is_stored_in_floats(*tensor))
    return Failure{"is saved whole and differs from the base's " + quote_text(copy.tensor) + " in " +
                   count_text(difference.count, "number") + ", by " + measured +
                   ": it was trained, or is of another base; expected a copy, or only " +
                   "base_model.model.MODULE.lora_A.weight and .lora_B.weight"};
  observer.note("the adapter holds " + quote_text(copy.tensor) + " whole; the base's own, in " +
                tensor->stored_as + ", stays in use, and differs from it by " + measured);
  return {};
}

}  // namespace

CheckCopy check_with_base(const TensorSource& base, Observer& observer) {
  return [&base, &observer](const BaseCopy& copy) { return check_copy(copy, base, observer); };
}

}  // namespace crumb::jobs
