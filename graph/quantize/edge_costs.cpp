#include "graph/quantize/edge_costs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/files/interrupt.h"
#include "graph/batches.h"
#include "graph/qonnx/quantized_constants.h"
#include "graph/quantize/apply.h"

namespace crumb::graph {

std::vector<Tensor> first_samples(const Graph& graph, const std::vector<Tensor>& inputs, std::int64_t most,
                                  const BatchAxes& axes) {
  const BatchPlan plan = plan_batch(graph, inputs, most, axes);
  if (plan.whole() || plan.piece == 0) return inputs;
  return piece_of(graph, inputs, plan, 0, plan.piece);
}

class EdgeCosts::Network {
 public:
  Network(const Graph& graph, const Engine& engine, std::vector<Tensor> inputs,
          const std::function<void(const std::string&, const Tensor&)>& see)
      : graph_(graph), engine_(engine), inputs_(std::move(inputs)), links_(graph) {
    std::uint64_t bytes = 0;
    const auto keep = [&](const std::string& value, const Tensor& made) {
      if (see && is_float(made.type())) see(value, made);
      bytes += made.byte_count();
      if (bytes <= kMostBytes) values_[value] = made;
    };
    for (std::size_t i = 0; i < inputs_.size(); ++i) keep(graph.inputs[i], inputs_[i]);
    const std::vector<Tensor> outputs = engine.prepare(graph)->run(inputs_, {.show = keep, .wanted = {}});
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (is_float(outputs[i].type())) expected_[graph.outputs[i]] = outputs[i].to_floats();
    if (bytes > kMostBytes) values_.clear();
  }

  double cost(const std::vector<PlannedEdge>& edges) const {
    check_interrupt();
    std::vector<Tensor> inputs = inputs_;
    Graph part = values_.empty() ? graph_ : behind(edges, inputs);
    if (part.outputs.empty()) return 0;
    QuantPlan plan;
    plan.edges = edges;
    for (std::size_t i = 0; i < edges.size(); ++i) plan.edges[i].scale_group = i;
    const Graph quantized = lower_or_fold_quantized(apply(std::move(part), plan));
    const std::vector<Tensor> found = engine_.prepare(quantized)->run(inputs);
    double most = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto expected = expected_.find(quantized.outputs[i]);
      if (expected != expected_.end()) most = std::max(most, noise_over_signal(expected->second, found[i]));
    }
    return most;
  }

  double share(const std::vector<PlannedEdge>& edges) const {
    if (values_.empty() || graph_.nodes.empty()) return 1;
    return static_cast<double>(nodes_behind(edges).size()) / static_cast<double>(graph_.nodes.size());
  }

 private:
  static double noise_over_signal(const std::vector<float>& expected, const Tensor& made) {
    const std::vector<float> found = made.to_floats();
    if (found.size() != expected.size()) return std::numeric_limits<double>::infinity();
    double signal = 0, noise = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double a = static_cast<double>(expected[i]), b = static_cast<double>(found[i]);
      if (!std::isfinite(a)) continue;
      if (!std::isfinite(b)) return std::numeric_limits<double>::infinity();
      signal += a * a;
      noise += (a - b) * (a - b);
    }
    if (signal > 0) return noise / signal;
    return noise > 0 ? std::numeric_limits<double>::infinity() : 0;
  }

  std::vector<std::size_t> nodes_behind(const std::vector<PlannedEdge>& edges) const {
    std::set<std::size_t> found;
    std::vector<std::size_t> open;
    const auto reach = [&](std::size_t node) {
      if (found.insert(node).second) open.push_back(node);
    };
    for (const PlannedEdge& edge : edges) {
      for (const std::size_t node : links_.consumers(edge.value))
        if (edge.is_taken_by(graph_.nodes[node])) reach(node);
    }
    while (!open.empty()) {
      const std::size_t node = open.back();
      open.pop_back();
      for (const std::string& output : graph_.nodes[node].outputs)
        for (const std::size_t taker : links_.consumers(output)) reach(taker);
    }
    return {found.begin(), found.end()};
  }

  /// Adds the nodes that produce what an engine did not show: it may compute constant values before a run.
  std::vector<std::size_t> with_unseen(const std::vector<std::size_t>& behind) const {
    std::set<std::size_t> found(behind.begin(), behind.end());
    std::vector<std::size_t> open = behind;
    while (!open.empty()) {
      const std::size_t node = open.back();
      open.pop_back();
      for (const std::string& value : graph_.nodes[node].inputs) {
        const std::size_t maker = values_.contains(value) ? Links::kNone : links_.producer(value);
        if (maker != Links::kNone && found.insert(maker).second) open.push_back(maker);
      }
    }
    return {found.begin(), found.end()};
  }

  /// Returns the nodes behind edges as a graph whose inputs are the values that they take from other nodes.
  Graph behind(const std::vector<PlannedEdge>& edges, std::vector<Tensor>& inputs) const {
    Graph part{.opsets = graph_.opsets};
    std::set<std::string> made, taken;
    for (const std::size_t node : with_unseen(nodes_behind(edges))) {
      part.nodes.push_back(graph_.nodes[node]);
      made.insert(graph_.nodes[node].outputs.begin(), graph_.nodes[node].outputs.end());
      taken.insert(graph_.nodes[node].inputs.begin(), graph_.nodes[node].inputs.end());
    }
    inputs.clear();
    for (const std::string& value : made)
      if (const Value* known = graph_.find(value)) part.values[value] = *known;
    for (const std::string& value : taken) {
      if (value.empty() || made.contains(value)) continue;
      if (const auto constant = graph_.initializers.find(value); constant != graph_.initializers.end()) {
        part.initializers.insert(*constant);
      } else if (const auto codes = graph_.quantized.find(value); codes != graph_.quantized.end()) {
        part.quantized.insert(*codes);
      } else {
        part.inputs.push_back(value);
        inputs.push_back(values_.at(value));
        part.values[value] = value_of(values_.at(value));
      }
    }
    for (const std::string& output : graph_.outputs)
      if (made.contains(output)) part.outputs.push_back(output);
    return part;
  }

  const Graph& graph_;
  const Engine& engine_;
  const std::vector<Tensor> inputs_;
  const Links links_;
  std::map<std::string, Tensor> values_;  ///< empty if they are too large
  std::map<std::string, std::vector<float>> expected_;
};

EdgeCosts::EdgeCosts(const Graph& graph, const Engine& engine, std::vector<Tensor> inputs,
                     const std::function<void(const std::string& value, const Tensor& made)>& see)
    : network_(std::make_unique<Network>(graph, engine, std::move(inputs), see)) {}

EdgeCosts::~EdgeCosts() = default;

double EdgeCosts::of(const std::vector<PlannedEdge>& edges) const { return network_->cost(edges); }

double EdgeCosts::share_of(const std::vector<PlannedEdge>& edges) const { return network_->share(edges); }

}  // namespace crumb::graph
