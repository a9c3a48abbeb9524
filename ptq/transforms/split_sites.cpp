#include "ptq/transforms/split_sites.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "graph/operator_traits.h"
#include "graph/passes/flattened.h"
#include "graph/quantize/operators.h"
#include "graph/weighted_product.h"

namespace crumb::ptq {
namespace {

using graph::Graph;
using graph::Links;
using graph::Node;
using graph::Tensor;
using graph::WeightedProduct;

/// Returns a float32 constant with exactly one use.
const Tensor* own_constant(const Graph& graph, const Links& links, const Node& node, std::size_t input) {
  if (!node.has_input(input)) return nullptr;
  const Tensor* constant = graph.constant(node.inputs[input]);
  const bool is_own = constant && constant->type() == graph::ElementType::kFloat &&
                      links.consumers(node.inputs[input]).size() == 1 && !links.is_output(node.inputs[input]);
  return is_own ? constant : nullptr;
}

/// Whether the node is a product whose channels can be duplicated; transposed convolutions are not.
bool is_layer(const Node& node) {
  const auto product = graph::weighted_product(node, 2);
  return product && product->terms != graph::Terms::kTransposed;
}

/// A layer's product with a float32 constant without other uses, and the axes of outputs, inputs and kernel.
struct OwnProduct {
  WeightedProduct axes;
  const Tensor& weight;

  std::size_t behind() const { return axes.is_convolution() ? weight.shape().size() - 2 : 0; }
  std::size_t groups() const { return static_cast<std::size_t>(axes.groups); }
  std::size_t inputs() const { return static_cast<std::size_t>(axes.inputs(weight.shape())); }
};

/// Whether the node is a depthwise convolution with one output channel for each input channel.
bool has_groups_of_one(const Graph& graph, const Node& node) {
  return is_layer(node) && graph::is_depthwise(graph, node) &&
         graph.shape_of(node.inputs[1])->front().size == node.int_or("group", 1);
}

/// Collects the one site around a value. Every step returns whether it can go on; `why` says why it cannot.
class Walk {
 public:
  Walk(const Graph& graph, const Links& links) : graph_(graph), links_(links) {}

  std::optional<SplitSite> from(const Node& layer) {
    if (!own_constant(graph_, links_, layer, 1)) return refuse("their weight is not one layer's alone");
    const auto product = own_product(layer);
    if (!product) return refuse("their weight has no rows");
    site_.channels = product->inputs();
    const std::size_t behind = product->behind();
    std::size_t run = 1;
    if (const std::size_t maker = links_.producer(layer.inputs[0]); behind == 0 && maker != Links::kNone) {
      run = run_behind(layer.inputs[0]);
      if (site_.channels % run != 0) run = 1;
      site_.channels /= run;
    }
    if (site_.channels < 2) return refuse("they take a single channel");
    if (!join({layer.inputs[0], behind, run})) return std::nullopt;
    while (!waiting_.empty()) {
      const ChanneledValue value = waiting_.front();
      waiting_.pop_front();
      if (!makes(value) || !takes(value)) return std::nullopt;
    }
    if (site_.channels % site_.parts != 0) return refuse("groups of convolutions do not divide the channels");
    return std::move(site_);
  }

  std::string why;

 private:
  std::nullopt_t refuse(std::string reason) {
    why = std::move(reason);
    return std::nullopt;
  }
  bool fail(std::string reason) {
    why = std::move(reason);
    return false;
  }

  /// Returns how many numbers of a channel are adjacent in a value of two axes, through elementwise
  /// functions.
  std::size_t run_behind(std::string value) const {
    for (std::size_t steps = 0; steps < graph_.nodes.size(); ++steps) {
      const std::size_t maker = links_.producer(value);
      if (maker == Links::kNone) return 1;
      const Node& node = graph_.nodes[maker];
      if (node.is("Flatten") || node.is("Reshape")) {
        const auto order = graph::flattened_order(graph_, node);
        return order ? static_cast<std::size_t>(order->positions) : 1;
      }
      if (!graph::is_any(node, graph::trait::kOfOne | graph::trait::kOfSeveral)) return 1;
      value = node.inputs[0];
      if (graph_.constant(value) && node.has_input(1)) value = node.inputs[1];
    }
    return 1;
  }

  bool join(const ChanneledValue& value) {
    const auto [at, is_new] = known_.try_emplace(value.name, value);
    if (!is_new)
      return (at->second.behind == value.behind && at->second.run == value.run) ||
             fail("their channels lie in two ways");
    const auto shape = graph_.shape_of(value.name);
    if (!shape || shape->size() <= value.behind) return fail("the number of their channels is not known");
    const graph::Dim& dim = (*shape)[shape->size() - 1 - value.behind];
    if (dim.known() && dim.size != static_cast<std::int64_t>(site_.channels * value.run))
      return fail("the number of their channels is not known");
    if (links_.is_output(value.name)) return fail("their input is a result of the network");
    site_.values.push_back(value);
    waiting_.push_back(value);
    return true;
  }

  bool makes(const ChanneledValue& value) {
    const std::size_t maker = links_.producer(value.name);
    if (maker == Links::kNone) return fail("their input is one of the network");
    const Node& node = graph_.nodes[maker];
    if (node.outputs[0] != value.name) return cannot(node);
    return is_layer(node) && !has_groups_of_one(graph_, node) ? source(node, value) : pass(maker, value);
  }

  bool takes(const ChanneledValue& value) {
    return std::ranges::all_of(links_.consumers(value.name), [&](std::size_t index) {
      const Node& node = graph_.nodes[index];
      if (!is_layer(node) || has_groups_of_one(graph_, node)) return pass(index, value);
      return node.inputs[0] == value.name && std::ranges::count(node.inputs, value.name) == 1
                 ? sink(node, value)
                 : cannot(node);
    });
  }

  std::optional<OwnProduct> own_product(const Node& node) const {
    const Tensor* weight = own_constant(graph_, links_, node, 1);
    const auto axes = weight ? graph::weighted_product(node, weight->shape().size()) : std::nullopt;
    if (!axes || (axes->is_convolution() ? weight->rank() < 3 || axes->groups < 1 : weight->rank() != 2))
      return std::nullopt;
    return OwnProduct{.axes = *axes, .weight = *weight};
  }

  bool cannot(const Node& node) {
    return fail(node.op + " stands between, whose channels cannot be doubled");
  }

  bool source(const Node& node, const ChanneledValue& value) {
    const auto product = own_product(node);
    if (!product || value.run != 1 || value.behind != product->behind()) return cannot(node);
    site_.parts = std::lcm(site_.parts, product->groups());  // the groups stay equal
    site_.sources.push_back({node.inputs[1], product->axes.output_axis});
    return !node.has_input(2) || parameter(node, 2, {.name = {}, .behind = 0, .run = 1});
  }

  bool sink(const Node& node, const ChanneledValue& value) {
    const auto product = own_product(node);
    if (!product || product->axes.transposes_data || value.behind != product->behind() ||
        product->inputs() != site_.channels * value.run)
      return cannot(node);
    site_.parts = std::lcm(site_.parts, product->groups());
    std::size_t run = value.run;
    for (std::size_t i = 2; i < product->weight.shape().size(); ++i)
      run *= static_cast<std::size_t>(product->weight.shape()[i]);
    site_.sinks.push_back({.name = node.inputs[1],
                           .output_axis = product->axes.output_axis,
                           .run = run,
                           .groups = product->groups(),
                           .input = value.name});
    return true;
  }

  /// Passes a node that has the channels on both sides; each node once.
  bool pass(std::size_t index, const ChanneledValue& value) {
    if (!passed_.insert(index).second) return true;
    const Node& node = graph_.nodes[index];
    for (std::size_t i = 1; i < node.outputs.size(); ++i)
      if (node.has_output(i) &&
          (links_.is_output(node.outputs[i]) || !links_.consumers(node.outputs[i]).empty()))
        return cannot(node);
    if (graph::is_random(node)) return cannot(node);
    if (graph::is_any(node, graph::trait::kOfOne | graph::trait::kOfSeveral)) return elementwise(node, value);
    if (node.is("Flatten") || node.is("Reshape")) return flatten(node, value);
    if (value.behind + 2 != graph_.rank_of(value.name) || !node.has_input(0)) return cannot(node);
    if (is_layer(node)) {  // depthwise
      if (!own_constant(graph_, links_, node, 1)) return cannot(node);
      site_.depthwise.push_back(index);
      site_.sources.push_back({node.inputs[1], 0});
      if (node.has_input(2) && !parameter(node, 2, {.name = {}, .behind = 0, .run = 1})) return false;
    } else if (node.is("BatchNormalization")) {
      if (node.int_or("training_mode", 0) != 0) return cannot(node);
      for (std::size_t i = 1; i < 5; ++i)
        if (!parameter(node, i, {.name = {}, .behind = 0, .run = 1})) return false;
    } else if (!graph::is_any(node, graph::trait::kScalesChannels)) {
      return cannot(node);
    }
    return join({node.inputs[0], value.behind, value.run}) &&
           join({node.outputs[0], value.behind, value.run});
  }

  bool elementwise(const Node& node, const ChanneledValue& value) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.has_input(i)) continue;
      if (graph_.constant(node.inputs[i]) || graph_.quantized.contains(node.inputs[i])) {
        if (!parameter(node, i, value)) return false;
        continue;
      }
      const auto shape = graph_.shape_of(node.inputs[i]);
      if (!shape) return fail("the number of their channels is not known");
      // A constant that is the same for all channels stays as it is.
      if (shape->size() <= value.behind || (*shape)[shape->size() - 1 - value.behind] == graph::Dim(1))
        continue;
      if (!join({node.inputs[i], value.behind, value.run})) return false;
    }
    return join({node.outputs[0], value.behind, value.run});
  }

  /// A constant that broadcasts to the value: with one number for each channel, or one for all.
  bool parameter(const Node& node, std::size_t input, const ChanneledValue& value) {
    const auto shape = graph_.shape_of(node.inputs[input]);
    if (!shape) return cannot(node);
    if (shape->size() <= value.behind) return true;
    const std::size_t axis = shape->size() - 1 - value.behind;
    if ((*shape)[axis] == graph::Dim(1)) return true;
    if (!own_constant(graph_, links_, node, input) ||
        (*shape)[axis].size != static_cast<std::int64_t>(site_.channels * value.run))
      return cannot(node);
    site_.sources.push_back({node.inputs[input], axis, value.run});
    return true;
  }

  bool flatten(const Node& node, const ChanneledValue& value) {
    const auto order = graph::flattened_order(graph_, node);
    const auto rank = graph_.rank_of(node.inputs[0]);
    const bool is_before = value.name == node.inputs[0];
    if (!order || !rank || static_cast<std::size_t>(order->channels) != site_.channels ||
        value.run != (is_before ? 1 : static_cast<std::size_t>(order->positions)))
      return cannot(node);
    if (node.is("Reshape") && !reshape(node)) return cannot(node);
    return join({node.inputs[0], *rank - 2, 1}) &&
           join({node.outputs[0], 0, static_cast<std::size_t>(order->positions)});
  }

  /// Its shape gives the size as a number, or leaves it open.
  bool reshape(const Node& node) {
    const Tensor* shape = graph_.constant(node.inputs.at(1));
    if (!shape || shape->size() != 2) return false;
    if (shape->to_ints()[1] == -1) return true;
    if (links_.consumers(node.inputs[1]).size() != 1) return false;
    site_.flat_shapes.push_back(node.inputs[1]);
    return true;
  }

  const Graph& graph_;
  const Links& links_;
  SplitSite site_;
  std::map<std::string, ChanneledValue> known_;
  std::set<std::size_t> passed_;  ///< nodes
  std::deque<ChanneledValue> waiting_;
};

}  // namespace

SplitSites split_sites(const Graph& graph) {
  const Links links(graph);
  SplitSites all;
  std::set<std::string> found;  // weights that are sinks
  for (const Node& node : graph.nodes) {
    if (!is_layer(node) || !node.has_input(1) || !graph.constant(node.inputs[1]) ||
        found.contains(node.inputs[1]))
      continue;
    if (has_groups_of_one(graph, node)) {
      all.refused.push_back({node.inputs[1], "depthwise, where a channel takes a single one"});
      continue;
    }
    Walk walk(graph, links);
    if (auto site = walk.from(node)) {
      for (const ChannelSink& sink : site->sinks) found.insert(sink.name);
      all.sites.push_back(std::move(*site));
    } else {
      all.refused.push_back({node.inputs[1], walk.why});
    }
  }
  return all;
}

}  // namespace crumb::ptq
