#include "ptq/transforms/channel_scaling.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "graph/operator_traits.h"
#include "graph/quantize/operators.h"
#include "graph/weighted_product.h"

namespace crumb::ptq {
namespace {

using graph::Graph;
using graph::Links;
using graph::Node;
using graph::Tensor;

/// Calls visit(element, channel) for each element.
template <class Visit>
void for_channels(const Tensor& tensor, std::size_t axis, const Visit& visit) {
  std::size_t inner = 1;
  for (std::size_t i = axis + 1; i < tensor.shape().size(); ++i)
    inner *= static_cast<std::size_t>(tensor.shape()[i]);
  const auto channels = static_cast<std::size_t>(tensor.shape().at(axis));
  for (std::size_t i = 0; i < static_cast<std::size_t>(tensor.size()); ++i) visit(i, i / inner % channels);
}

class Finder {
 public:
  explicit Finder(const Graph& graph) : graph_(graph), links_(graph) {}

  std::vector<ScalingSite> all() {
    std::vector<ScalingSite> sites;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      if (auto site = from(i)) sites.push_back(std::move(*site));
    return sites;
  }

 private:
  std::optional<ScalingSite> from(std::size_t index) {
    const Node& node = graph_.nodes[index];
    if (node.outputs.empty()) return std::nullopt;
    ScalingSite site;
    bool channels_last = true;
    if (const auto product = own_product(node)) {
      const std::int64_t channels = product->outputs(graph_.constant(node.inputs[1])->shape());
      if (!bias(node, channels, site)) return std::nullopt;
      site.sources.insert(site.sources.begin(), {node.inputs[1], product->output_axis});
      channels_last = !product->is_convolution();
    } else if (node.is("LayerNormalization") || node.is("RMSNormalization")) {
      const Tensor* gain = own(node, 1);
      const std::int64_t axis = node.int_or("axis", -1);
      const auto rank = graph_.rank_of(node.inputs[0]);
      const bool is_last = axis == -1 || (rank && axis == static_cast<std::int64_t>(*rank) - 1);
      if (!gain || gain->rank() != 1 || !is_last || !bias(node, gain->size(), site)) return std::nullopt;
      site.sources.insert(site.sources.begin(), {node.inputs[1], 0});
      site.is_norm = true;
    } else {
      return std::nullopt;
    }
    const ScaledConstant& first = site.sources.front();
    site.channels = static_cast<std::size_t>(graph_.constant(first.name)->shape()[first.axis]);
    reached_.clear();
    if (site.channels == 0 || !follow(node.outputs[0], channels_last, site) || site.sinks.empty())
      return std::nullopt;
    return site;
  }

  /// Returns a float32 constant without other consumers.
  const Tensor* own(const Node& node, std::size_t input) const {
    if (!node.has_input(input)) return nullptr;
    const Tensor* constant = graph_.constant(node.inputs[input]);
    const bool is_own = constant && constant->type() == graph::ElementType::kFloat &&
                        links_.consumers(node.inputs[input]).size() == 1 &&
                        !links_.is_output(node.inputs[input]);
    return is_own ? constant : nullptr;
  }

  /// Returns a product whose matrix or kernels have no other consumers.
  std::optional<graph::WeightedProduct> own_product(const Node& node) const {
    const Tensor* weight = own(node, 1);
    const auto product = weight ? graph::weighted_product(node, weight->shape().size()) : std::nullopt;
    if (!product || product->terms == graph::Terms::kTransposed) return std::nullopt;
    if (product->is_convolution() ? weight->rank() < 3 : weight->rank() != 2) return std::nullopt;
    return product;
  }

  /// Returns false if there is a bias, on input 2, that cannot be scaled.
  bool bias(const Node& node, std::int64_t channels, ScalingSite& site) const {
    if (!node.has_input(2)) return true;
    const Tensor* constant = own(node, 2);
    if (!constant || constant->rank() < 1) return false;
    site.sources.push_back({node.inputs[2], static_cast<std::size_t>(constant->rank() - 1)});
    return constant->shape().back() == channels && constant->size() == channels;
  }

  bool follow(const std::string& value, bool channels_last, ScalingSite& site) {
    // A value reached in two ways, as in x * Relu(x), would get the factors twice.
    if (links_.is_output(value) || links_.consumers(value).empty() || !reached_.insert(value).second)
      return false;
    return std::ranges::all_of(links_.consumers(value), [&](std::size_t index) {
      return take(graph_.nodes[index], value, channels_last, site);
    });
  }

  bool take(const Node& node, const std::string& value, bool channels_last, ScalingSite& site) {
    if (std::ranges::count(node.inputs, value) != 1 || node.outputs.empty()) return false;
    const std::string& made = node.outputs[0];
    if (node.inputs[0] == value) {
      if (is_sink(node, channels_last, site)) {
        if (std::ranges::find(site.taken, value) == site.taken.end()) site.taken.push_back(value);
        return true;
      }
      if (graph::is_any(node, graph::trait::kScalesElements)) return follow(made, channels_last, site);
      if (graph::is_any(node, graph::trait::kScalesChannels))
        return !channels_last && is_alone(node) && follow(made, false, site);
      if (node.is("Flatten") && !channels_last)
        return has_one_place(value) && node.int_or("axis", 1) == 1 && follow(made, true, site);
    }
    if (node.is("Mul")) {
      const std::string& other = node.inputs[node.inputs[0] == value ? 1 : 0];
      return keeps_channels(other, channels_last, site.channels) && follow(made, channels_last, site);
    }
    if (node.is("Add")) {
      const std::size_t input = node.inputs[0] == value ? 1 : 0;
      const Tensor* constant = own(node, input);
      if (!constant) return false;
      const std::size_t axis = static_cast<std::size_t>(constant->rank()) - 1;
      if (!channels_last || constant->rank() < 1 ||
          constant->size() != static_cast<std::int64_t>(site.channels) ||
          constant->shape()[axis] != constant->size())
        return false;
      site.sources.push_back({node.inputs[input], axis});
      return follow(made, channels_last, site);
    }
    return false;
  }

  bool is_sink(const Node& node, bool channels_last, ScalingSite& site) const {
    const auto product = own_product(node);
    if (!product || product->transposes_data || product->is_convolution() == channels_last) return false;
    const bool is_depthwise = graph::is_depthwise(graph_, node);
    if (product->groups != 1 && !is_depthwise) return false;
    const std::size_t axis = is_depthwise ? product->output_axis : product->input_axis;
    if (graph_.constant(node.inputs[1])->shape()[axis] != static_cast<std::int64_t>(site.channels))
      return false;
    site.sinks.push_back({node.inputs[1], axis});
    return true;
  }

  /// Whether a product with the value keeps the channels: it has as many along that axis, or one.
  bool keeps_channels(const std::string& other, bool channels_last, std::size_t channels) const {
    const auto shape = graph_.shape_of(other);
    if (!shape) return false;
    const std::size_t from_end = channels_last ? 1 : 3;
    if (!channels_last && shape->size() > 4) return false;
    if (shape->size() < from_end) return true;
    const graph::Dim& size = (*shape)[shape->size() - from_end];
    return size.known() && (size.size == 1 || size.size == static_cast<std::int64_t>(channels));
  }

  /// Whether the node has no output but the first.
  static bool is_alone(const Node& node) {
    return std::all_of(node.outputs.begin() + 1, node.outputs.end(),
                       [](const std::string& name) { return name.empty(); });
  }

  bool has_one_place(const std::string& value) const {
    const auto shape = graph_.shape_of(value);
    return shape && shape->size() > 2 &&
           std::all_of(shape->begin() + 2, shape->end(), [](const graph::Dim& dim) { return dim.size == 1; });
  }

  const Graph& graph_;
  const Links links_;
  std::set<std::string> reached_;  ///< by the factors of the current site
};

}  // namespace

std::vector<ScalingSite> scaling_sites(const Graph& graph) { return Finder(graph).all(); }

void scale_site(Graph& graph, const ScalingSite& site, std::span<const double> factors) {
  const auto scale = [&](const ScaledConstant& constant, bool divides) {
    Tensor& tensor = graph.initializers.at(constant.name);
    tensor = scaled_channels(tensor, constant.axis, factors, divides);
  };
  for (const ScaledConstant& source : site.sources) scale(source, false);
  for (const ScaledConstant& sink : site.sinks) scale(sink, true);
}

Tensor scaled_channels(const Tensor& tensor, std::size_t axis, std::span<const double> factors,
                       bool divides) {
  std::vector<float> values = tensor.to_floats();
  for_channels(tensor, axis, [&](std::size_t i, std::size_t channel) {
    const double x = static_cast<double>(values[i]), factor = factors[channel];
    values[i] = static_cast<float>(divides ? x / factor : x * factor);
  });
  return Tensor::floats(tensor.shape(), values);
}

std::vector<double> channel_magnitudes(const Tensor& tensor, std::size_t axis) {
  std::vector<double> most(static_cast<std::size_t>(tensor.shape().at(axis)));
  const std::vector<float> values = tensor.to_floats();
  for_channels(tensor, axis, [&](std::size_t i, std::size_t channel) {
    const double magnitude = std::fabs(static_cast<double>(values[i]));
    if (!(magnitude <= most[channel])) most[channel] = magnitude;  // takes a NaN, too
  });
  return most;
}

std::vector<double> channel_means(const Tensor& tensor, std::size_t axis) {
  const auto channels = static_cast<std::size_t>(tensor.shape().at(axis));
  std::vector<double> sums(channels);
  const std::vector<float> values = tensor.to_floats();
  for_channels(tensor, axis, [&](std::size_t i, std::size_t channel) {
    sums[channel] += std::fabs(static_cast<double>(values[i]));
  });
  const std::size_t each = values.size() / channels;
  for (double& sum : sums) sum /= static_cast<double>(each);
  return sums;
}

}  // namespace crumb::ptq
