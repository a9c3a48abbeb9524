#include "ptq/precision/sensitivity.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "graph/quantized_constant.h"
#include "ptq/matrices/weight_rows.h"
#include "ptq/rounding/output_error.h"
#include "ptq/samples/layer_moments.h"
#include "ptq/samples/sample_stream.h"
#include "quant/quantizer.h"

namespace crumb::ptq {
namespace {

using graph::Tensor;

/// Returns the share of the outputs' squares that rounding rows by a spec loses.
double output_share(const QuantSpec& spec, const WeightRows& rows, const SampledLayer& layer,
                    const LayerMoments& inputs, int threads) {
  std::vector<float> lost(rows.values.size());
  fake_quantize(spec, rows.values, rows.shape, lost, {.threads = threads});
  for (std::size_t i = 0; i < lost.size(); ++i) lost[i] -= rows.values[i];
  const std::size_t count = layer.rows * layer.columns;
  double error = 0, all = 0;
  for (std::size_t group = 0; group < layer.groups; ++group) {
    error += output_squares(std::span(lost).subspan(group * count, count), inputs.moments[group], threads);
    all +=
        output_squares(std::span(rows.values).subspan(group * count, count), inputs.moments[group], threads);
  }
  return all > 0 ? std::max(error, 0.0) / all : 0;
}

/// The sum of a row's exponentials, relative to its largest.
struct RowSums {
  double most, log_sum;
};

RowSums sums_of(std::span<const float> row) {
  const double most = static_cast<double>(std::ranges::max(row));
  double sum = 0;
  for (const float x : row) sum += std::exp(static_cast<double>(x) - most);
  return {most, std::log(sum)};
}

}  // namespace

double own_error(const QuantSpec& spec, const Tensor& constant, graph::MatrixAxes axes, int threads) {
  const WeightRows rows = weight_rows(constant, axes);
  std::vector<float> rounded(rows.values.size());
  fake_quantize(spec, rows.values, rows.shape, rounded, {.threads = threads, .stack_axes = rows.stack_axes});
  double lost = 0, all = 0;
  for (std::size_t i = 0; i < rounded.size(); ++i) {
    lost += std::pow(static_cast<double>(rounded[i]) - static_cast<double>(rows.values[i]), 2);
    all += std::pow(static_cast<double>(rows.values[i]), 2);
  }
  return all > 0 ? lost / all : 0;
}

QuantSpec probe_of(std::vector<QuantSpec> formats) {
  std::ranges::stable_sort(formats, {}, [](const QuantSpec& spec) { return spec.number->bits; });
  return formats[formats.size() / 4];
}

OutputErrors output_errors(const Setting& setting, const std::vector<QuantSpec>& specs) {
  const std::vector<SampledLayer> layers = sampled_layers(setting.graph, setting.plan);
  const std::vector<Station> stations = stations_of(setting.graph, layers);
  SampleStream stream(setting.graph, stations, *setting.engine, setting.memory / 2);
  OutputErrors errors;
  std::size_t done = 0;
  for (const Station& station : stations) {
    stream.advance();
    StationMoments moments(setting.graph, station, false);
    setting.samples([&](const std::vector<Tensor>& sample) {
      check_interrupt();
      const auto brought = stream.run(sample);
      moments.add(brought, brought, setting.threads);
    });
    for (const SampledLayer& layer : station.layers) {
      check_interrupt();
      const graph::PlannedConstant& constant = setting.plan.constants[layer.constant];
      if (const std::string fault = fault_of(moments.of(layer)); !fault.empty())
        throw Error("what layer " + quote_text(constant.value) + " takes, value " + quote_text(layer.input) +
                    ", " + fault);
      const WeightRows rows = weight_rows(setting.graph.initializers.at(constant.value), constant.axes);
      for (const QuantSpec& spec : specs)
        if (!spec.misfit(rows.shape))
          errors[constant.value][spec.to_string()] =
              output_share(spec, rows, layer, moments.of(layer), setting.threads);
      if (setting.progress) setting.progress(++done, layers.size());
    }
  }
  return errors;
}

double relative_distance(const std::vector<Tensor>& floats, const std::vector<Tensor>& found) {
  double lost = 0, all = 0;
  for (std::size_t i = 0; i < floats.size(); ++i) {
    if (!graph::is_float(floats[i].type())) continue;
    const std::vector<float> a = floats[i].to_floats(), b = found.at(i).to_floats();
    for (std::size_t k = 0; k < a.size(); ++k) {
      lost += std::pow(static_cast<double>(b[k]) - static_cast<double>(a[k]), 2);
      all += std::pow(static_cast<double>(a[k]), 2);
    }
  }
  return all > 0 ? lost / all : 0;
}

double prediction_distance(const std::vector<Tensor>& floats, const std::vector<Tensor>& found) {
  const std::vector<float> a = floats.at(0).to_floats(), b = found.at(0).to_floats();
  const auto vocabulary = static_cast<std::size_t>(floats[0].shape().back());
  const std::size_t positions = a.size() / vocabulary, first = positions / 2;
  double sum = 0;
  for (std::size_t position = first; position < positions; ++position) {
    const std::span<const float> p = std::span(a).subspan(position * vocabulary, vocabulary),
                                 q = std::span(b).subspan(position * vocabulary, vocabulary);
    const RowSums of_p = sums_of(p), of_q = sums_of(q);
    for (std::size_t i = 0; i < vocabulary; ++i) {
      const double log_p = static_cast<double>(p[i]) - of_p.most - of_p.log_sum,
                   log_q = static_cast<double>(q[i]) - of_q.most - of_q.log_sum;
      sum += std::exp(log_p) * (log_p - log_q);
    }
  }
  return sum / static_cast<double>(positions - first);
}

FloatResults::FloatResults(const Setting& setting, Distance distance, std::size_t samples)
    : setting_(setting), distance_(std::move(distance)) {
  setting.samples([&](const std::vector<Tensor>& sample) {
    if (inputs_.size() < samples) inputs_.push_back(sample);
  });
  floats_ = results_of(setting.graph);
}

std::vector<std::vector<Tensor>> FloatResults::results_of(const graph::Graph& network) const {
  const std::unique_ptr<graph::Executable> ready = setting_.engine->prepare(network);
  std::vector<std::vector<Tensor>> made;
  for (const std::vector<Tensor>& input : inputs_) {
    check_interrupt();
    made.push_back(ready->run(input));
  }
  return made;
}

double FloatResults::distance_of(const graph::Graph& network) const {
  const std::vector<std::vector<Tensor>> made = results_of(network);
  double sum = 0;
  for (std::size_t i = 0; i < made.size(); ++i) sum += distance_(floats_[i], made[i]);
  return made.empty() ? 0 : sum / static_cast<double>(made.size());
}

void Proportion::add(double distance, double loss) {
  far += distance;
  own += loss;
}

double Proportion::factor(double distance, double loss) const {
  return loss > 0 ? std::max(distance, 0.0) / loss : usual();
}

std::map<std::string, double> distances(const Setting& setting, const QuantSpec& spec,
                                        const FloatResults& floats) {
  graph::Graph graph = setting.graph;
  std::map<std::string, double> found;
  std::size_t done = 0;
  for (const graph::PlannedConstant& constant : setting.plan.constants) {
    check_interrupt();
    if (setting.progress) setting.progress(++done, setting.plan.constants.size());
    if (!constant.spec) continue;
    Tensor& numbers = graph.initializers.at(constant.value);
    if (graph::misfit_of(spec, numbers.shape(), constant.axes)) continue;
    const Tensor before = numbers;
    numbers = graph::quantize_constant(spec, before, constant.axes, constant.value, setting.threads).value();
    const double mean = floats.distance_of(graph);
    numbers = before;
    if (!std::isfinite(mean))
      throw Error("with " + quote_text(constant.value) + " in " + spec.to_string() +
                  " the network gives no finite results on the samples");
    found[constant.value] = mean;
  }
  return found;
}

}  // namespace crumb::ptq
