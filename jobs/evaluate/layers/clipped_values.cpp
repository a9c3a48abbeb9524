#include "jobs/evaluate/layers/clipped_values.h"

#include <cmath>

#include "graph/qonnx/quant_arithmetic.h"
#include "graph/strided_index.h"

namespace crumb::jobs {
namespace {

using graph::Tensor;

/// One number of a constant for each of a tensor's elements, one after the other.
class Spread {
 public:
  static std::optional<Spread> of(const LayeredNetwork& network, const std::string& constant,
                                  const Tensor& values) {
    if (!network.constants().contains(constant)) return {};
    const auto numbers = network.values_of(constant);
    if (!numbers) return {};
    auto index = graph::StridedIndex::broadcast(values.shape(), numbers->shape());
    if (!index) return {};
    return Spread(numbers->to_floats(), std::move(*index));
  }

  float next() {
    const float number = numbers_[index_.at()];
    index_.next();
    return number;
  }
  float first() const { return numbers_[0]; }

 private:
  Spread(std::vector<float> numbers, graph::StridedIndex index)
      : numbers_(std::move(numbers)), index_(std::move(index)) {}

  std::vector<float> numbers_;
  graph::StridedIndex index_;
};

std::optional<std::uint64_t> clipped_floats(const LayeredNetwork& network, const graph::Node& quantizer,
                                            const Tensor& values, Spread& scale) {
  const auto mantissa = Spread::of(network, quantizer.inputs.at(3), values),
             most = Spread::of(network, quantizer.inputs.at(5), values);
  if (!mantissa || !most) return {};
  const float largest = most->first();
  const float limit = largest + std::ldexp(0.5F, std::ilogb(largest) - static_cast<int>(mantissa->first()));
  std::uint64_t count = 0;
  for (const float x : values.to_floats()) count += std::fabs(x / scale.next()) >= limit;
  return count;
}

}  // namespace

std::optional<std::uint64_t> count_clipped(const LayeredNetwork& network, const graph::Node& quantizer,
                                           const Tensor& values) {
  if (quantizer.op == "BipolarQuant" || values.size() == 0) return {};
  auto scale = Spread::of(network, quantizer.inputs.at(1), values);
  if (!scale) return {};
  if (quantizer.op == "FloatQuant") return clipped_floats(network, quantizer, values, *scale);
  auto zero = Spread::of(network, quantizer.inputs.at(2), values);
  const auto bits = Spread::of(network, quantizer.inputs.at(3), values);
  const auto mode = graph::find_quant_rounding(quantizer.text_or("rounding_mode", "ROUND"));
  if (!zero || !bits || !mode) return {};
  const graph::IntegerFormat format{.bits = bits->first(),
                                    .is_signed = quantizer.int_or("signed", 1) != 0,
                                    .narrow = quantizer.int_or("narrow", 0) != 0};
  if (format.is_bipolar()) return {};
  const double lower = format.lower(), upper = format.upper();
  std::uint64_t count = 0;
  for (const float x : values.to_floats()) {
    const float ratio = x / scale->next() + zero->next();
    const double code = graph::rounded(static_cast<double>(ratio), *mode);
    count += code < lower || code > upper;
  }
  return count;
}

}  // namespace crumb::jobs
