#include "jobs/evaluate/layers/layer_advice.h"

#include <algorithm>
#include <cmath>

#include "graph/quantized_constant.h"
#include "quant/quant_spec.h"
#include "quant/recipe/name_pattern.h"

namespace crumb::jobs {
namespace {

using graph::Tensor;

constexpr double kLeastGain = 0.01;    // dB
constexpr double kNearlyAsMuch = 0.8;  // of the gain in floats
constexpr const char* kEightBits = "int8:channel";
constexpr std::int64_t kFloatBits = 32, kByte = 8;

/// Bits of a number of a constant that is kept as codes.
std::optional<std::int64_t> bits_of(const LayeredNetwork& network, const std::string& constant) {
  const auto found = network.graph().quantized.find(constant);
  if (found == network.graph().quantized.end()) return {};
  return found->second.tensor->encoding.number->bits;
}

/// The same weights with eight bits; nothing where they have as many, or the format does not fit.
std::optional<std::vector<Tensor>> in_eight_bits(const AdvisedLayer& layer, const std::vector<Tensor>& floats,
                                                 int threads) {
  const QuantSpec spec = QuantSpec::parse(kEightBits);
  std::vector<Tensor> made;
  for (std::size_t i = 0; i < floats.size(); ++i) {
    const auto bits = bits_of(layer.pair.model, layer.pair.of_model.weights[i].value);
    const graph::WeightInput& at = layer.pair.of_baseline.weights[i].at;
    const graph::MatrixAxes axes(at.output_axis, at.stack_axes);
    if (!bits || *bits >= kByte || graph::misfit_of(spec, floats[i].shape(), axes)) return {};
    made.push_back(graph::quantize_constant(spec, floats[i], axes, layer.name, threads).value());
  }
  return made;
}

std::int64_t bytes_more(const AdvisedLayer& layer, const std::vector<Tensor>& floats, std::int64_t bits) {
  std::int64_t more = 0;
  for (std::size_t i = 0; i < floats.size(); ++i)
    if (const auto now = bits_of(layer.pair.model, layer.pair.of_model.weights[i].value))
      more += floats[i].size() * (bits - *now) / kByte;
  return more;
}

/// Whether nothing but the layer takes what its input's quantizers give.
bool has_own_input(const LayerPair& pair) {
  const LayeredNetwork& model = pair.model;
  if (!pair.of_model.data) return false;
  std::vector<std::string> values;
  for (const std::size_t i : model.quantizers_before(model.node(pair.of_model).inputs[*pair.of_model.data]))
    values.push_back(model.graph().nodes[i].outputs[0]);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (model.links().is_output(values[i])) return false;
    for (const std::size_t consumer : model.links().consumers(values[i])) {
      if (consumer == pair.of_model.node) continue;
      const graph::Node& node = model.graph().nodes[consumer];
      if (!node.is("Concat") && !graph::moves_elements(model.graph(), node)) return false;
      values.push_back(node.outputs[0]);
    }
  }
  return true;
}

std::string flags_of(const AdvisedLayer& layer, const std::string& spec) {
  std::string flags;
  for (const std::string& constant : layer.constants)
    flags += (flags.empty() ? "" : " ") + set_flag(constant, spec);
  return flags;
}

}  // namespace

std::string set_flag(const std::string& constant, const std::string& spec) {
  std::string glob = escape_glob(constant);
  if (glob.starts_with("re:")) glob.insert(0, "\\");
  std::ranges::replace(glob, '=', '?');  // the flag has its first one behind the pattern
  std::string quoted;
  for (const char c : glob + "=" + spec) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return "--set '" + quoted + "'";
}

std::vector<LayerAdvice> advise(const std::vector<AdvisedLayer>& layers, double now,
                                const MeasureModel& measure, int threads) {
  std::vector<LayerAdvice> advice;
  for (const AdvisedLayer& layer : layers) {
    const auto floats = baseline_weights_of(layer.pair);
    if (!floats) continue;
    const auto gain_of = [&](const std::vector<Tensor>& weights, bool input) {
      const auto then = measure(with_baseline_layer(layer.pair, weights, input));
      return then && !std::isnan(*then) ? *then - now : 0.0;
    };
    const double of_floats = gain_of(*floats, has_own_input(layer.pair));
    const auto eight = in_eight_bits(layer, *floats, threads);
    const double of_eight = eight ? gain_of(*eight, false) : 0.0;
    const bool takes_eight = eight && of_eight >= kNearlyAsMuch * of_floats;
    const double gain = takes_eight ? of_eight : of_floats;
    if (!(gain > kLeastGain)) continue;
    advice.push_back({.layer = layer.name,
                      .set = flags_of(layer, takes_eight ? kEightBits : "keep"),
                      .sqnr_db = now + gain,
                      .gain_db = gain,
                      .bytes = bytes_more(layer, *floats, takes_eight ? kByte : kFloatBits)});
  }
  std::ranges::stable_sort(advice, std::ranges::greater(), &LayerAdvice::gain_db);
  return advice;
}

}  // namespace crumb::jobs
