#include "ptq/precision/input_errors.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "graph/quantize/apply.h"
#include "ptq/matrices/weight_rows.h"
#include "ptq/rounding/edge_rounding.h"
#include "ptq/rounding/output_error.h"
#include "ptq/rounding/rounding_errors.h"
#include "ptq/samples/layer_moments.h"
#include "ptq/samples/sample_stream.h"

namespace crumb::ptq {
namespace {

using graph::edges_before;
using graph::LayerGroup;
using graph::PlannedEdge;
using graph::QuantPlan;
using graph::Tensor;
using graph::WeightedNode;

std::map<std::size_t, const WeightedNode*> nodes_of(const std::vector<LayerGroup>& groups) {
  std::map<std::size_t, const WeightedNode*> nodes;
  for (const LayerGroup& group : groups)
    for (const graph::FormatUnit& unit : group.units)
      for (const WeightedNode& node : unit.nodes) nodes[node.node] = &node;
  return nodes;
}

/// One sampled value in the formats of all plans.
struct RoundedValue {
  std::vector<std::unique_ptr<EdgeRounding>> roundings;  ///< by plan; null: the value is not rounded
  std::vector<RoundingLoss> losses;

  void add(const Tensor& value) {
    for (std::size_t i = 0; i < roundings.size(); ++i)
      if (roundings[i]) losses[i].add(roundings[i]->error(value), value);
  }
};

double squares(const WeightRows& rows, const SampledLayer& layer, const LayerMoments& inputs, int threads) {
  const std::size_t count = layer.rows * layer.columns;
  double sum = 0;
  for (std::size_t group = 0; group < layer.groups; ++group)
    sum +=
        output_squares(std::span(rows.values).subspan(group * count, count), inputs.moments[group], threads);
  return std::max(sum, 0.0);
}

Tensor zeros_like(const Tensor& value) {
  return Tensor::floats(value.shape(), std::vector<float>(static_cast<std::size_t>(value.size())));
}

}  // namespace

InputErrors own_input_errors(const Setting& setting, const std::vector<LayerGroup>& groups,
                             const std::vector<QuantPlan>& plans) {
  const auto nodes = nodes_of(groups);
  std::map<std::string, RoundedValue> values;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    for (const auto& [index, node] : nodes) {
      for (const PlannedEdge* edge : edges_before(*node, plans[i])) {
        RoundedValue& value = values[edge->value];
        value.roundings.resize(plans.size());
        value.losses.resize(plans.size());
        if (!value.roundings[i])
          value.roundings[i] = std::make_unique<EdgeRounding>(setting.graph, *edge, *setting.engine);
      }
    }
  }
  graph::Watch watch{.show = [&](const std::string& name, const Tensor& made) { values.at(name).add(made); },
                     .wanted = std::set<std::string>()};
  for (const auto& [name, value] : values) watch.wanted->insert(name);
  const std::unique_ptr<graph::Executable> network = setting.engine->prepare(setting.graph);
  setting.samples([&](const std::vector<Tensor>& sample) {
    check_interrupt();
    for (std::size_t i = 0; i < sample.size(); ++i)
      if (const auto found = values.find(setting.graph.inputs[i]); found != values.end())
        found->second.add(sample[i]);
    (void)network->run(sample, watch);
  });
  InputErrors errors;
  for (const auto& [index, node] : nodes) {
    for (std::size_t i = 0; i < plans.size(); ++i) {
      RoundingLoss all;
      for (const PlannedEdge* edge : edges_before(*node, plans[i])) {
        all.lost += values.at(edge->value).losses[i].lost;
        all.all += values.at(edge->value).losses[i].all;
      }
      errors[index].push_back(all.share());
    }
  }
  return errors;
}

InputErrors output_input_errors(const Setting& setting, const std::vector<LayerGroup>& groups,
                                const std::vector<QuantPlan>& plans) {
  InputErrors errors = own_input_errors(setting, groups, plans);
  const auto nodes = nodes_of(groups);
  std::vector<SampledLayer> layers = sampled_layers(setting.graph, setting.plan);
  std::erase_if(layers, [&](const SampledLayer& layer) { return !nodes.contains(layer.node); });
  const std::vector<Station> stations = stations_of(setting.graph, layers);
  SampleStream stream(setting.graph, stations, *setting.engine, setting.memory / 2);
  std::size_t done = 0;
  for (const Station& station : stations) {
    stream.advance();
    StationMoments moments(setting.graph, station, false);
    std::vector<StationMoments> lost;
    std::vector<std::map<std::string, std::unique_ptr<EdgeRounding>>> roundings(plans.size());
    for (std::size_t i = 0; i < plans.size(); ++i) {
      lost.emplace_back(setting.graph, station, false);
      for (const SampledLayer& layer : station.layers) {
        const auto edges = edges_before(*nodes.at(layer.node), plans[i]);
        if (!edges.empty() && !roundings[i].contains(layer.input))
          roundings[i][layer.input] =
              std::make_unique<EdgeRounding>(setting.graph, *edges[0], *setting.engine);
      }
    }
    setting.samples([&](const std::vector<Tensor>& sample) {
      check_interrupt();
      const auto brought = stream.run(sample);
      moments.add(brought, brought, setting.threads);
      for (std::size_t i = 0; i < plans.size(); ++i) {
        std::map<std::string, Tensor> changed;
        for (const auto& [name, value] : brought) {
          const auto rounding = roundings[i].find(name);
          changed[name] = rounding == roundings[i].end() ? zeros_like(value) : rounding->second->error(value);
        }
        lost[i].add(changed, changed, setting.threads);
      }
    });
    for (const SampledLayer& layer : station.layers) {
      const graph::PlannedConstant& constant = setting.plan.constants[layer.constant];
      const WeightRows rows = weight_rows(setting.graph.initializers.at(constant.value), constant.axes);
      const double all = squares(rows, layer, moments.of(layer), setting.threads);
      if (const std::string fault = fault_of(moments.of(layer)); !fault.empty() || !std::isfinite(all))
        throw Error("what layer " + quote_text(constant.value) + " takes, value " + quote_text(layer.input) +
                    ", " + (fault.empty() ? "gives outputs beyond all numbers" : fault));
      for (std::size_t i = 0; i < plans.size(); ++i) {
        const double share = squares(rows, layer, lost[i].of(layer), setting.threads);
        errors[layer.node][i] = all > 0 ? share / all : 0;
      }
      if (setting.progress) setting.progress(++done, layers.size());
    }
  }
  return errors;
}

std::vector<double> input_distances(const Setting& setting, const std::vector<LayerGroup>& groups,
                                    const QuantPlan& plan, const FloatResults& floats) {
  std::vector<double> found;
  for (const LayerGroup& group : groups) {
    check_interrupt();
    QuantPlan alone;
    for (const graph::FormatUnit& unit : group.units)
      for (const WeightedNode& node : unit.nodes)
        for (const PlannedEdge* edge : edges_before(node, plan)) {
          const bool is_new =
              std::ranges::find(alone.edges, edge->value, &PlannedEdge::value) == alone.edges.end();
          if (is_new) alone.edges.push_back(*edge);
        }
    const double distance =
        alone.edges.empty() ? 0 : floats.distance_of(graph::apply(setting.graph, alone, {.threads = 1}));
    if (!std::isfinite(distance))
      throw Error("with what " + quote_text(*group.units[0].constants.begin()) +
                  " takes rounded alone the network gives no finite results on the samples");
    found.push_back(distance);
    if (setting.progress) setting.progress(found.size(), groups.size());
  }
  return found;
}

}  // namespace crumb::ptq
