#include "ptq/transforms/awq.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "graph/quantized_constant.h"
#include "ptq/matrices/weight_rows.h"
#include "ptq/rounding/output_error.h"
#include "ptq/samples/layer_moments.h"
#include "ptq/transforms/open_sites.h"

namespace crumb::ptq {
namespace {

using graph::Tensor;

/// Root mean squares relative to the largest: smaller ones count as this.
constexpr double kLeastShare = 1e-4;

/// A matrix that takes the channels and becomes codes.
struct Sink {
  std::size_t axis = 0;  ///< with the channels
  const graph::PlannedConstant* constant = nullptr;
  SampledLayer layer;
  std::vector<Eigen::MatrixXd> moments;  ///< of the inputs before any factor of this stage
  std::vector<double> taken;             ///< by which each channel was multiplied since
};

/// Returns the channel of a column of a group's moments.
std::size_t channel_of(const Sink& sink, std::size_t channels, std::size_t group, std::size_t column) {
  return sink.axis == sink.constant->axes ? group : column / (sink.layer.columns / channels);
}

/// Returns the mean square of each input channel.
std::vector<double> mean_squares(const Sink& sink) {
  const std::size_t channels = sink.taken.size();
  std::vector<double> sums(channels);
  for (std::size_t group = 0; group < sink.moments.size(); ++group)
    for (std::size_t k = 0; k < sink.layer.columns; ++k) {
      const std::size_t channel = channel_of(sink, channels, group, k);
      sums[channel] += sink.moments[group].diagonal()[static_cast<Eigen::Index>(k)] * sink.taken[channel] *
                       sink.taken[channel];
    }
  return sums;
}

class Search {
 public:
  Search(const Stage& stage, Setting& setting)
      : setting_(setting),
        steps_(static_cast<int>(stage.value("steps"))),
        by_weights_(stage.value("weights") != 0) {}

  /// Returns the best candidate for the factors s of the channels' consumers; all 1 where none loses less.
  std::vector<double> best(const std::vector<Sink*>& sinks, std::vector<double>& before,
                           std::vector<double>& after) const {
    const std::size_t channels = sinks[0]->taken.size();
    std::vector<double> best(channels, 1.0);
    before = after = losses(sinks, best);
    for (const std::vector<double>& factors : candidates(sinks)) {
      check_interrupt();
      std::vector<double> found = losses(sinks, factors);
      if (!(sum(found) < sum(after))) continue;
      after = std::move(found);
      best = factors;
    }
    return best;
  }

  /// Returns the squares of a sink's outputs.
  double squares(const Sink& sink) const { return measure(sink, constant_of(sink)); }

 private:
  static double sum(const std::vector<double>& values) {
    double all = 0;
    for (const double value : values) all += value;
    return all;
  }

  const Tensor& constant_of(const Sink& sink) const {
    return setting_.graph.initializers.at(sink.constant->value);
  }

  std::vector<std::vector<double>> candidates(const std::vector<Sink*>& sinks) const {
    const std::size_t channels = sinks[0]->taken.size();
    std::vector<double> inputs(channels), weights(channels);
    for (const Sink* sink : sinks) {
      const std::vector<double> squares = mean_squares(*sink),
                                means = channel_means(constant_of(*sink), sink->axis);
      const double largest = std::max(std::ranges::max(means), 1e-30);
      for (std::size_t c = 0; c < channels; ++c) {
        inputs[c] += squares[c];
        weights[c] += means[c] / largest;
      }
    }
    const double most = std::ranges::max(inputs), heaviest = std::ranges::max(weights);
    std::vector<std::vector<double>> made;
    if (!(most > 0)) return made;
    for (int family = 0; family < (by_weights_ ? 2 : 1); ++family)
      for (int step = family == 0 ? 1 : 0; step < steps_; ++step) {
        const double power = static_cast<double>(step) / steps_;
        std::vector<double> factors(channels);
        for (std::size_t c = 0; c < channels; ++c) {
          const double x = std::max(std::sqrt(inputs[c] / most), kLeastShare);
          const double w = heaviest > 0 ? std::max(weights[c] / heaviest, kLeastShare) : 1;
          factors[c] = std::pow(x, power) / (family == 0 ? 1 : std::pow(w, 1 - power));
        }
        const double middle = std::sqrt(std::ranges::max(factors) * std::ranges::min(factors));
        for (double& factor : factors) factor /= middle;
        made.push_back(std::move(factors));
      }
    return made;
  }

  /// Returns the loss of each sink's outputs from rounding W s.
  std::vector<double> losses(const std::vector<Sink*>& sinks, const std::vector<double>& factors) const {
    std::vector<double> lost;
    for (const Sink* sink : sinks) {
      const Tensor& weight = constant_of(*sink);
      const Tensor scaled = scaled_channels(weight, sink->axis, factors);
      const std::vector<float> made =
          graph::quantize_constant(*sink->constant->spec, scaled, sink->constant->axes, sink->constant->value,
                                   setting_.threads)
              .value()
              .to_floats();
      std::vector<float> difference = scaled.to_floats();
      for (std::size_t i = 0; i < difference.size(); ++i) difference[i] = made[i] - difference[i];
      lost.push_back(measure(
          *sink, scaled_channels(Tensor::floats(weight.shape(), difference), sink->axis, factors, true)));
    }
    return lost;
  }

  /// Returns the squares of the outputs of these weights on the present inputs.
  double measure(const Sink& sink, const Tensor& weights) const {
    const WeightRows rows = weight_rows(scaled_channels(weights, sink.axis, sink.taken), sink.constant->axes);
    const std::size_t size = sink.layer.rows * sink.layer.columns;
    double all = 0;
    for (std::size_t group = 0; group < sink.layer.groups; ++group)
      all += output_squares(std::span(rows.values).subspan(group * size, size), sink.moments[group],
                            setting_.threads);
    return all;
  }

  Setting& setting_;
  int steps_;
  bool by_weights_;
};

/// Processes the sites of the graph, as samples reach their sinks station by station.
class Run {
 public:
  Run(const Stage& stage, Setting& setting)
      : setting_(setting), search_(stage, setting), sites_(open_sites(stage, setting, true)) {
    std::map<std::string, SampledLayer> by_name;
    for (const SampledLayer& layer : sampled_layers(setting.graph, setting.plan))
      by_name[setting.plan.constants[layer.constant].value] = layer;
    for (const ScalingSite& site : sites_)
      for (const ScaledConstant& sink : site.sinks)
        if (const auto layer = by_name.find(sink.name); layer != by_name.end()) {
          const auto [at, is_new] = sinks_.try_emplace(sink.name);
          if (!is_new) continue;
          at->second = {.axis = sink.axis,
                        .constant = &setting.plan.constants[layer->second.constant],
                        .layer = layer->second,
                        .moments = {},
                        .taken = std::vector<double>(site.channels, 1.0)};
          layers_.push_back(layer->second);
        }
    std::ranges::sort(layers_, {}, &SampledLayer::node);
  }

  StageReport run(const Stage& stage) {
    StageReport report{.stage = to_string(stage), .measure = "outputs", .layers = {}, .notes = {}};
    if (layers_.empty()) throw Error("the stage awq finds no layer that becomes codes behind such a value");
    const std::vector<Station> stations = stations_of(setting_.graph, layers_);
    SampleStream stream(setting_.graph, stations, *setting_.engine, setting_.memory / 2);
    std::size_t done = 0;
    for (const Station& station : stations) {
      stream.advance();
      StationMoments moments(setting_.graph, station, false, stage.value("even") != 0);
      setting_.samples([&](const std::vector<Tensor>& sample) {
        check_interrupt();
        const auto brought = stream.run(sample);
        moments.add(brought, brought, setting_.threads);
      });
      for (const SampledLayer& layer : station.layers) {
        Sink& sink = sinks_.at(setting_.plan.constants[layer.constant].value);
        if (const std::string fault = fault_of(moments.of(layer)); !fault.empty())
          throw Error("value " + quote_text(layer.input) + " " + fault);
        sink.moments = moments.of(layer).moments;
      }
      scale_ready(report);
      done += station.layers.size();
      if (setting_.progress) setting_.progress(done, layers_.size());
    }
    return report;
  }

 private:
  /// Scales the sites whose sinks all have seen samples, in the graph's order, each once.
  void scale_ready(StageReport& report) {
    for (ScalingSite& site : sites_) {
      std::vector<Sink*> sinks;
      for (const ScaledConstant& one : site.sinks)
        if (const auto found = sinks_.find(one.name); found != sinks_.end()) sinks.push_back(&found->second);
      const bool is_ready =
          !sinks.empty() && std::ranges::none_of(sinks, [](const Sink* s) { return s->moments.empty(); });
      if (!is_ready) continue;
      std::vector<double> before, after;
      const std::vector<double> factors = search_.best(sinks, before, after);
      for (std::size_t i = 0; i < sinks.size(); ++i) {
        const double all = search_.squares(*sinks[i]);
        report.layers.push_back({.layer = sinks[i]->constant->value,
                                 .before = all > 0 ? before[i] / all : 0,
                                 .after = all > 0 ? after[i] / all : 0});
      }
      std::vector<double> inverse;
      for (const double factor : factors) inverse.push_back(1 / factor);
      scale_site(setting_.graph, site, inverse);
      for (Sink* sink : sinks)
        for (std::size_t c = 0; c < factors.size(); ++c) sink->taken[c] /= factors[c];
      for (Sink* sink : sinks) release(*sink, site);
      site.sinks.clear();
    }
  }

  /// Frees moments that no later site needs.
  void release(Sink& sink, const ScalingSite& done) {
    const bool is_wanted = std::ranges::any_of(sites_, [&](const ScalingSite& site) {
      return &site != &done &&
             std::ranges::find(site.sinks, sink.constant->value, &ScaledConstant::name) != site.sinks.end();
    });
    if (!is_wanted) sink.moments.clear();
  }

  Setting& setting_;
  Search search_;
  std::vector<ScalingSite> sites_;
  std::map<std::string, Sink> sinks_;  ///< those that become codes, by constant
  std::vector<SampledLayer> layers_;   ///< of the sinks
};

}  // namespace

StageReport awq(const Stage& stage, Setting& setting) { return Run(stage, setting).run(stage); }

}  // namespace crumb::ptq
