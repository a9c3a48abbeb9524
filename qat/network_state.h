// What a Network keeps between passes: its graph, plan and quantizers, and what its constants are in a pass.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/quantize/plan.h"
#include "libtorch/execute/graph_module.h"
#include "qat/activations/edge_quantizers.h"
#include "qat/derived_constants.h"
#include "qat/layers.h"
#include "qat/network.h"
#include "qat/weights/trained_weights.h"

namespace crumb::qat {

using graph::Graph;
using graph::QuantPlan;

/// A weight with a quantizer.
struct NetworkWeight : TrainedWeight {
  std::optional<Layer> layer;  ///< what it meets in the graph; none: nothing adds up its products
};

/// A planned bias at scale_in * scale_weight, without gradients.
struct BiasOfNow {
  at::Tensor scale;  ///< for each element, of the bias's shape, or one number
  at::Tensor codes;  ///< float64, of the bias's shape
};

struct Network::State {
  Graph float_graph;
  QuantPlan plan;
  NetworkOptions options;
  std::optional<DerivedConstants> derived;
  libtorch::Plan::Constants derived_values;  ///< of this pass
  std::shared_ptr<libtorch::GraphModule> module;
  std::shared_ptr<torch::nn::Module> quantizers;
  std::optional<EdgeQuantizers> edges;
  std::optional<TrainedWeights> shared;
  std::vector<NetworkWeight> weights;  ///< that have quantizers
  std::map<std::string, graph::QuantizedConstant> first_codes;
  bool is_calibrated = false;
  bool has_fixed_codes = false;  ///< weights learn by their scales alone
  ActiveQuantizers active;
  bool is_float = false;  ///< for this pass, no quantizer works

  at::Tensor parameter(const std::string& value) const {
    const auto found = derived_values.find(value);
    return found != derived_values.end() ? found->second.tensor : module->constant(value);
  }
  at::Tensor masked(const std::string& value) const { return shared->masked(value, parameter(value)); }
  void begin_pass() { derived_values = derived->values(); }
  bool is_made_of(const std::string& value, const at::Tensor& tensor) const;
  bool lies_in_a_parameter(const std::string& value) const;

  /// The node that makes this value does so, while quantizers of activations work; else it passes its first
  /// input on.
  void quantize(const std::string& value, std::function<at::Tensor(const at::Tensor&)> by);
  void add_edges();
  void add_cache();
  void add_weights();
  void add_weight(const graph::PlannedConstant& constant, const Layer* layer);
  std::optional<AccumulatorConstraint> constraint_of(const graph::PlannedConstant& constant,
                                                     const Layer& layer) const;

  at::Tensor rows_of(const NetworkWeight& weight) const {
    return shared->rows(weight, parameter(weight.name));
  }
  void start_weight(NetworkWeight& weight);
  BiasOfNow bias_of(const NetworkWeight& weight, const at::Tensor& rows) const;
  void set_bias(const NetworkWeight& weight, const at::Tensor& rows) const;
  libtorch::Plan::Constants float_constants(bool as_frozen) const;
  libtorch::Plan::Constants quantized_constants(bool as_frozen);
  Graph graph_of_now() const;
  QuantPlan plan_of_now() const;
  Graph certified_by_goals(Graph graph) const;
};

}  // namespace crumb::qat
