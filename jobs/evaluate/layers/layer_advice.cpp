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
    const auto bits = bits_of(*layer.pair.model, layer.pair.of_model->weights[i].value);
    const graph::WeightInput& at = layer.pair.of_baseline->weights[i].at;
    const graph::MatrixAxes axes(at.output_axis, at.stack_axes);
    if (!bits || *bits >= kByte || graph::misfit_of(spec, floats[i].shape(), axes)) return {};
    made.push_back(graph::quantize_constant(spec, floats[i], axes, layer.name, threads).value());
  }
  return made;
}

std::int64_t bytes_more(const AdvisedLayer& layer, const std::vector<Tensor>& floats, std::int64_t bits) {
  std::int64_t more = 0;
  for (std::size_t i = 0; i < floats.size(); ++i)
    if (const auto now = bits_of(*layer.pair.model, layer.pair.of_model->weights[i].value))
      more += floats[i].size() * (bits - *now) / kByte;
  return more;
}

/// Whether nothing but the layer takes what its input's quantizers give.
bool has_own_input(const LayerPair& pair) {
  const LayeredNetwork& model = *pair.model;
  if (!pair.of_model->data) return false;
  std::vector<std::string> values;
  for (const std::size_t i : model.quantizers_before(model.node(*pair.of_model).inputs[*pair.of_model->data]))
    values.push_back(model.graph().nodes[i].outputs[0]);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (model.links().is_output(values[i])) return false;
    for (const std::size_t consumer : model.links().consumers(values[i])) {
      if (consumer == pair.of_model->node) continue;
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

void advise(const std::vector<AdvisedLayer>& layers, std::size_t most, const MeasureModel& measure,
            int threads, EvaluateLayers& made) {
  struct Tried {
    LayerAdvice advice;
    PutBack put;
  };
  const double now = *made.sqnr_db;
  const auto gain_of = [&](const PutBack& put) {
    const auto then = measure(with_baseline_layers({put}));
    return then && !std::isnan(*then) ? *then - now : 0.0;
  };
  std::vector<Tried> tried;
  for (const AdvisedLayer& layer : layers) {
    const auto floats = baseline_weights_of(layer.pair);
    if (!floats) continue;
    PutBack put{.pair = layer.pair, .weights = *floats, .input = has_own_input(layer.pair)};
    double gain = gain_of(put);
    std::int64_t bits = kFloatBits;
    if (const auto eight = in_eight_bits(layer, *floats, threads)) {
      PutBack other{.pair = layer.pair, .weights = *eight};
      const double of_eight = gain_of(other);
      if (of_eight >= kNearlyAsMuch * gain) {
        put = std::move(other);
        gain = of_eight;
        bits = kByte;
      }
    }
    if (gain > kLeastGain)
      tried.push_back({.advice = {.layer = layer.name,
                                  .set = flags_of(layer, bits == kByte ? kEightBits : "keep"),
                                  .sqnr_db = now + gain,
                                  .gain_db = gain,
                                  .bytes = bytes_more(layer, *floats, bits)},
                       .put = std::move(put)});
  }
  std::ranges::stable_sort(tried, std::ranges::greater(),
                           [](const Tried& one) { return one.advice.gain_db; });
  if (tried.size() > most) tried.erase(tried.begin() + static_cast<std::ptrdiff_t>(most), tried.end());
  std::vector<PutBack> all;
  for (Tried& one : tried) {
    made.advice.push_back(std::move(one.advice));
    all.push_back(std::move(one.put));
  }
  if (all.size() > 1) made.advised_db = measure(with_baseline_layers(std::move(all)));
}

}  // namespace crumb::jobs
