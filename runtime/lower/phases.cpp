#include "runtime/lower/phases.h"

#include <algorithm>

#include "base/checked_size.h"
#include "graph/window.h"
#include "runtime/lower/domain.h"
#include "runtime/phase_taps.h"

namespace crumb::runtime {
namespace {

using Ints = std::vector<std::int64_t>;

constexpr std::int64_t kSomeSize = 1 << 16;  // of an input of which no size is known
constexpr std::size_t kMostSpare = 4;        // weights of the convolution for each of the transposed one's
constexpr std::size_t kFewWeights = 4096;    // and so many are always accepted

std::int64_t count_of(const Ints& sizes) {
  const checked::Size size = checked::product(std::span<const std::int64_t>(sizes));
  return size ? static_cast<std::int64_t>(*size) : -1;
}

/// Weights of a row: of each input channel of its group and each tap that the convolution has.
struct Taps {
  Ints kernel, strides, dilations, reach;

  /// By tap of the convolution, the tap of the transposed one that the phase meets there; -1: none.
  Ints of_phase(const Ints& residues) const {
    Ints taps(static_cast<std::size_t>(count_of(reach)), -1);
    for (const PhaseTap& met : phase_taps(kernel, strides, dilations, reach, residues))
      taps[met.of_all] = static_cast<std::int64_t>(met.tap);
    return taps;
  }
};

/// Sets the padding of the convolution, and what Phases cuts off its results.
void set_padding(const graph::KeptResult& kept, const Taps& taps, const Ints& input, PhaseConvolution& made) {
  const std::size_t axes = input.size();
  Ints pads(2 * axes), cut(2 * axes);
  for (std::size_t i = 0; i < axes; ++i) {
    const std::int64_t stride = taps.strides[i], back = taps.reach[i] - 1;
    const std::int64_t first = std::min(kept.begin[i] / stride, back);
    const std::int64_t windows = (kept.begin[i] + kept.output[i] + stride - 1) / stride - first;
    pads[i] = back - first;
    pads[axes + i] = std::max<std::int64_t>(0, windows - input[i] - pads[i] + back);
    cut[i] = kept.begin[i] - stride * first;
    cut[axes + i] = (input[i] + pads[i] + pads[axes + i] - back) * stride - cut[i] - kept.output[i];
  }
  made.convolution.attributes["pads"] = pads;
  made.phases.attributes["cut"] = cut;
}

}  // namespace

std::vector<double> PhaseConvolution::by_row(const std::vector<double>& numbers) const {
  if (numbers.size() <= 1) return numbers;
  std::vector<double> made;
  for (const std::size_t channel : channels) made.push_back(numbers[channel]);
  return made;
}

std::vector<ChainStep> PhaseConvolution::by_row(std::vector<ChainStep> steps) const {
  for (ChainStep& step : steps) step.numbers = by_row(step.numbers);
  return steps;
}

Result<PhaseConvolution> phase_convolution(const graph::Node& node, const IntegerWeight& weight,
                                           const Ints& input) {
  const std::int64_t groups = node.int_or("group", 1);
  const std::size_t axes = weight.shape.size() - 2;
  Taps taps{
      .kernel = {weight.shape.begin() + 2, weight.shape.end()}, .strides = {}, .dilations = {}, .reach = {}};
  taps.strides = graph::sizes_attribute(node, "strides", axes, 1);
  taps.dilations = graph::sizes_attribute(node, "dilations", axes, 1);
  if (axes == 0 || weight.integers.empty() || groups < 1 || weight.shape[1] % groups != 0 ||
      node.ints_or("kernel_shape", taps.kernel) != taps.kernel)
    return Failure{"its weight does not fit its groups or its kernel"};
  for (std::size_t i = 0; i < axes; ++i)
    taps.reach.push_back((taps.kernel[i] - 1) * taps.dilations[i] / taps.strides[i] + 1);
  const std::int64_t phases = count_of(taps.strides), reach = count_of(taps.reach);
  const checked::Size each = phases < 0 || reach < 0 ? checked::Size() : checked::multiply(phases, reach);
  const std::size_t kernel = static_cast<std::size_t>(count_of(taps.kernel));
  const std::size_t matrix = weight.integers.size() / kernel;
  const checked::Size all = each ? checked::multiply(*each, matrix) : each;
  if (!all || *all > std::max(kMostSpare * weight.integers.size(), kFewWeights))
    return Failure{"its strides or dilations leave most of a convolution's weights zero"};
  const bool is_known = std::ranges::all_of(input, [](std::int64_t size) { return size > 0; });
  if (!node.ints_or("output_shape", {}).empty() && (input.empty() || !is_known))
    return Failure{"its output_shape pads by the input's size, which is not known"};

  const Ints sizes = input.empty() || !is_known ? Ints(axes, kSomeSize) : input;
  const graph::KeptResult kept = graph::kept_of(node, sizes, taps.kernel, taps.strides, taps.dilations);
  PhaseConvolution made;
  made.convolution = node;
  made.convolution.op = "Conv";
  made.convolution.attributes = {{"group", groups}};
  made.phases = {.name = node.name + ".phases",
                 .op = "Phases",
                 .domain = std::string(kRuntimeDomain),
                 .attributes = {{"group", groups}, {"strides", taps.strides}}};
  set_padding(kept, taps, sizes, made);

  const auto outputs = static_cast<std::size_t>(weight.shape[0]),
             inputs = static_cast<std::size_t>(weight.shape[1] / groups);
  made.weight.shape = {groups * phases * weight.shape[0], weight.shape[1] / groups};
  made.weight.shape.insert(made.weight.shape.end(), taps.reach.begin(), taps.reach.end());
  made.weight.integers.reserve(*all);
  for (std::size_t g = 0; g < static_cast<std::size_t>(groups); ++g) {
    Ints residues(axes, 0);
    do {
      const Ints of_phase = taps.of_phase(residues);
      for (std::size_t o = 0; o < outputs; ++o) {
        made.channels.push_back(g * outputs + o);
        made.weight.scales.push_back(weight.scales[o]);
        for (std::size_t c = 0; c < inputs; ++c) {
          const std::size_t from = (o * inputs * static_cast<std::size_t>(groups) + g * inputs + c) * kernel;
          for (const std::int64_t tap : of_phase)
            made.weight.integers.push_back(tap < 0 ? std::int16_t{0}
                                                   : weight.integers[from + static_cast<std::size_t>(tap)]);
        }
      }
    } while (next_index(residues, taps.strides));
  }
  return made;
}

}  // namespace crumb::runtime
