#include "ptq/transforms/bias_correction.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/files/counted.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "ptq/matrices/finite_constants.h"
#include "ptq/matrices/weight_rows.h"
#include "ptq/precision/quantized_network.h"
#include "ptq/rounding/branch_weights.h"
#include "ptq/rounding/final_constants.h"
#include "ptq/samples/input_means.h"
#include "ptq/samples/sample_stream.h"
#include "ptq/transforms/biased_layers.h"

namespace crumb::ptq {
namespace {

using graph::Tensor;

struct Corrected {
  BiasedLayer biased;
  InputMeans floats, made;  ///< of the value in the float network, and in the quantized one
};

class Correction {
 public:
  Correction(Setting& setting, std::vector<BiasedLayer> layers, bool quantizes_values)
      : setting_(setting), quantizes_values_(quantizes_values), beside_(setting.graph) {
    for (BiasedLayer& layer : layers) {
      const InputMeans none(layer.layer);
      const std::size_t node = layer.layer.node;
      by_node_.emplace(node, Corrected{.biased = std::move(layer), .floats = none, .made = none});
    }
  }

  std::vector<LayerReport> run() {
    std::vector<SampledLayer> sampled;
    for (const auto& [node, one] : by_node_) sampled.push_back(one.biased.layer);
    QuantizedNetwork quantized = quantized_network(setting_, quantizes_values_);
    const std::vector<Station> stations = stations_of(setting_.graph, sampled),
                               quantized_stations = stations_of(quantized.graph, quantized.placed(sampled));
    SampleStream floats(setting_.graph, stations, *setting_.engine, setting_.memory / 4),
        made(std::move(quantized.graph), quantized_stations, *setting_.engine, setting_.memory / 4);
    std::vector<LayerReport> reports;
    for (const Station& station : stations) {
      floats.advance();
      made.advance();
      gather(station, floats, made);
      for (const SampledLayer& layer : station.layers) {
        const Corrected& one = by_node_.at(layer.node);
        reports.push_back(correct(one));
        made.set_constant(one.biased.bias, numbers_of(setting_, one.biased.bias));
      }
    }
    return reports;
  }

 private:
  void gather(const Station& station, SampleStream& floats, SampleStream& made) {
    setting_.samples([&](const std::vector<Tensor>& sample) {
      check_interrupt();
      const auto meant = floats.run(sample), brought = made.run(sample);
      for (const SampledLayer& layer : station.layers) {
        Corrected& one = by_node_.at(layer.node);
        one.floats.add(setting_.graph, layer, meant.at(layer.input));
        one.made.add(setting_.graph, layer, brought.at(layer.input));
      }
    });
    floats.rest();
    made.rest();
  }

  LayerReport correct(const Corrected& one) {
    const SampledLayer& layer = one.biased.layer;
    const graph::PlannedConstant& constant = setting_.plan.constants[layer.constant];
    const std::vector<float> weights =
                                 weight_rows(setting_.graph.initializers.at(constant.value), constant.axes)
                                     .values,
                             codes = weight_rows(constant.rounded->value(), constant.axes).values;
    const std::vector<float> beside = beside_.of(constant.value);
    const std::vector<float> meant = setting_.graph.initializers.at(one.biased.bias).to_floats(),
                             now = numbers_of(setting_, one.biased.bias).to_floats();
    std::vector<double> lost(meant.size()), means(meant.size());
    std::vector<float> biases(meant.size());
    for (std::size_t row = 0; row < meant.size(); ++row) {
      const std::size_t group = row / layer.rows;
      for (std::size_t k = 0; k < layer.columns; ++k) {
        const std::size_t at = row * layer.columns + k;
        const double floats = one.floats.at(group, k), made = one.made.at(group, k);
        const double more = beside.empty() ? 0 : static_cast<double>(beside[at]);
        means[row] += (static_cast<double>(weights[at]) + more) * floats;
        lost[row] += static_cast<double>(weights[at]) * floats - static_cast<double>(codes[at]) * made +
                     more * (floats - made);
      }
      if (!std::isfinite(lost[row]))
        throw Error("what " + constant.node + " takes, value " + quote_text(layer.input) +
                    ", holds inf or NaN on the samples");
      biases[row] = static_cast<float>(static_cast<double>(meant[row]) + lost[row]);
    }
    set_final_values(setting_, one.biased.bias,
                     Tensor::floats(setting_.graph.initializers.at(one.biased.bias).shape(), biases));
    const std::vector<float> then = numbers_of(setting_, one.biased.bias).to_floats();
    double all = 0, before = 0, after = 0;
    for (std::size_t row = 0; row < meant.size(); ++row) {
      const double exact = static_cast<double>(meant[row]) + lost[row];
      all += std::pow(means[row] + static_cast<double>(meant[row]), 2);
      before += std::pow(exact - static_cast<double>(now[row]), 2);
      after += std::pow(exact - static_cast<double>(then[row]), 2);
    }
    return {
        .layer = constant.value, .before = all > 0 ? before / all : 0, .after = all > 0 ? after / all : 0};
  }

  Setting& setting_;
  bool quantizes_values_;
  const BranchWeights beside_;
  std::map<std::size_t, Corrected> by_node_;
};

}  // namespace

StageReport bias_correction(const Stage& stage, Setting& setting) {
  StageReport report{.stage = to_string(stage), .measure = "mean outputs", .layers = {}, .notes = {}};
  BiasedLayers found = biased_layers(setting);
  if (found.layers.empty())
    throw Error("the stage bias_correction finds no layer that becomes codes and has a bias of its own");
  if (found.without > 0)
    report.notes.push_back(count_text(found.without, "layer") + " without a bias of its own: not corrected");
  for (const BiasedLayer& layer : found.layers) require_finite(stage.name, setting.graph, layer.bias);
  report.layers = Correction(setting, std::move(found.layers), stage.value("values") != 0).run();
  return report;
}

}  // namespace crumb::ptq
