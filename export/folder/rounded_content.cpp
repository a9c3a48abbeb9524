#include "export/folder/rounded_content.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/files/text.h"
#include "formats/half.h"

namespace crumb::exporting {
namespace {

/// The elements of a piece of a tensor, in double, which holds all of them.
std::vector<double> widened(DType dtype, std::span<const std::byte> bytes) {
  std::vector<double> values(bytes.size() * 8 / dtype_bits(dtype));
  if (dtype == DType::kF64) {
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(double));
    return values;
  }
  std::vector<float> floats(values.size());
  widen_to_float(dtype, bytes, floats);
  std::ranges::copy(floats, values.begin());
  return values;
}

/// Appends the rounded number's bytes; its value.
double append_rounded(DType type, double value, std::vector<std::byte>& out) {
  const auto append = [&out](const auto& number) {
    const std::size_t at = out.size();
    out.resize(at + sizeof number);
    std::memcpy(out.data() + at, &number, sizeof number);
  };
  const auto single = static_cast<float>(value);
  if (type == DType::kF32) {
    append(single);
    return static_cast<double>(single);
  }
  const std::uint16_t half = type == DType::kF16 ? float_to_f16(single) : float_to_bf16(single);
  append(half);
  return static_cast<double>(type == DType::kF16 ? f16_to_float(half) : bf16_to_float(half));
}

}  // namespace

RoundedContent::RoundedContent(const FolderContent& content, DType type)
    : content_(content), type_(type), tensors_(content.tensors()) {
  std::ranges::sort(tensors_, {}, &TensorDescription::name);
}

std::vector<TensorDescription> RoundedContent::tensors() const {
  std::vector<TensorDescription> tensors = content_.tensors();
  for (TensorDescription& tensor : tensors)
    if (is_floating(tensor.dtype)) tensor.dtype = type_;
  return tensors;
}

void RoundedContent::read_tensor(std::string_view name, const std::filesystem::path& scratch, int threads,
                                 const Sink& sink) const {
  const auto found = std::ranges::lower_bound(tensors_, name, {}, &TensorDescription::name);
  const DType dtype = found->dtype;
  if (!is_floating(dtype) || dtype == type_) return content_.read_tensor(name, scratch, threads, sink);
  std::vector<std::byte> out;
  content_.read_tensor(name, scratch, threads, [&](std::span<const std::byte> bytes) {
    out.clear();
    for (const double value : widened(dtype, bytes)) {
      const double rounded = append_rounded(type_, value, out);
      ++cost_.numbers;
      if (rounded == value || std::isnan(value)) continue;
      if (!std::isfinite(rounded))
        throw Error("the tensor " + quote_text(found->name) + " holds " + std::to_string(value) +
                    ", which is beyond the largest number of " + std::string(dtype_name(type_)) +
                    (type_ == DType::kF16 ? ", 65504; choose --dtype bf16 or f32" : "; choose --dtype f32"));
      ++cost_.changed;
      if (rounded == 0) {
        ++cost_.vanished;
        continue;
      }
      const double relative = std::fabs(rounded - value) / std::fabs(value);
      if (relative <= cost_.largest) continue;
      cost_.largest = relative;
      cost_.tensor = found->name;
    }
    sink(out);
  });
}

}  // namespace crumb::exporting
