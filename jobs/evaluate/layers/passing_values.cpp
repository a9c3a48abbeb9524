#include "jobs/evaluate/layers/passing_values.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/operator_traits.h"
#include "graph/weighted_product.h"
#include "jobs/evaluate/layers/clipped_values.h"

namespace crumb::jobs {

using graph::Node;
using graph::Tensor;

std::string given_by(const LayeredNetwork& network, const NetworkLayer& layer) {
  const Node& node = network.node(layer);
  const auto found = std::ranges::find_if_not(node.outputs, &std::string::empty);
  if (found == node.outputs.end()) return {};
  const std::span<const graph::ProductRule> rules = graph::traits_of(node).products;
  const auto consumers = network.links().consumers(*found);
  if (rules.size() != 1 || node.has_input(rules[0].bias) || consumers.size() != 1 ||
      network.links().is_output(*found))
    return *found;
  const Node& next = network.graph().nodes[consumers[0]];
  const bool is_bias = next.is("Add") && next.inputs.size() == 2 &&
                       network.constants().contains(next.inputs[next.inputs[0] == *found ? 1 : 0]);
  return is_bias ? next.outputs[0] : *found;
}

namespace {

/// What follows a layer and keeps its channels: its bias, norm and activation function, and a quantizer.
std::string behind_activation(const LayeredNetwork& network, std::string value) {
  for (;;) {
    const auto consumers = network.links().consumers(value);
    if (network.links().is_output(value) || consumers.size() != 1) return value;
    const Node& next = network.graph().nodes[consumers[0]];
    const bool is_arithmetic = (next.is("Add") || next.is("Mul")) && next.inputs.size() == 2;
    const std::size_t at = is_arithmetic && next.inputs[1] == value ? 1 : 0;
    const bool is_followed = is_arithmetic ? network.constants().contains(next.inputs[1 - at])
                                           : next.is("BatchNormalization") || graph::is_quantizer(next) ||
                                                 graph::is_any(next, graph::trait::kOfOne);
    if (!is_followed || next.inputs[at] != value) return value;
    value = next.outputs[0];
  }
}

/// The axis of output channels in what a layer gives, counted from the end; nothing where it has none.
std::optional<std::size_t> channel_axis(const LayeredNetwork& network, const NetworkLayer& layer,
                                        std::size_t rank) {
  const Node& node = network.node(layer);
  if (graph::is_matrix_product(node) && rank >= 1) {
    const bool is_left = layer.weights[0].at.input == 0;
    return is_left ? (rank >= 2 ? std::optional(rank - 2) : std::nullopt) : std::optional(rank - 1);
  }
  return graph::is_convolution(node) && rank >= 2 ? std::optional<std::size_t>(1) : std::nullopt;
}

class LayerValues {
 public:
  LayerValues(const LayeredNetwork& model, const PassedLayer& layer) : model_(model), layer_(layer) {
    const NetworkLayer& own = *layer.of_model;
    given_ = given_by(model, own);
    activated_ = behind_activation(model, given_);
    if (!own.data) return;
    const std::string& taken = model.node(own).inputs[*own.data];
    for (const std::size_t i : model.quantizers_before(taken))
      taken_.push_back({model.graph().nodes[i].inputs[0], &model.graph().nodes[i]});
    if (taken_.empty()) taken_.push_back({taken, nullptr});
  }

  std::set<std::string> wanted() const {
    std::set<std::string> values{given_, activated_};
    for (const Taken& one : taken_) values.insert(one.value);
    return values;
  }

  void see(const std::string& value, const Tensor& made, const std::map<std::string, Tensor>& baseline) {
    if (!graph::is_float(made.type())) return;
    if (value == given_) compare(made, baseline);
    if (value == activated_) find_alive(made);
    for (const Taken& one : taken_)
      if (value == one.value) add_taken(one, made);
  }

  PassingValues result() const {
    PassingValues made;
    if (is_compared_) made.accumulated_db = sum_.result().sqnr_db;
    if (low_ <= high_) {
      made.low = low_;
      made.high = high_;
    }
    if (counted_ > 0) made.clipped = 100.0 * static_cast<double>(clipped_) / static_cast<double>(counted_);
    if (!alive_.empty()) {
      made.channels = alive_.size();
      made.dead_channels = static_cast<std::uint64_t>(std::ranges::count(alive_, false));
    }
    return made;
  }

 private:
  struct Taken {
    std::string value;
    const Node* quantizer = nullptr;  ///< null: it is taken as it is
  };

  void compare(const Tensor& made, const std::map<std::string, Tensor>& baseline) {
    if (!layer_.of_baseline) return;
    const auto meant = baseline.find(expected);
    if (meant == baseline.end() || meant->second.shape() != made.shape()) return;
    is_compared_ = true;
    sum_.add(meant->second.to_floats(), made.to_floats());
  }

  void add_taken(const Taken& one, const Tensor& made) {
    for (const float x : made.to_floats()) {
      if (!std::isfinite(x)) continue;
      low_ = std::min(low_, static_cast<double>(x));
      high_ = std::max(high_, static_cast<double>(x));
    }
    if (!one.quantizer) return;
    const auto clipped = count_clipped(model_, *one.quantizer, made);
    if (!clipped) return;
    clipped_ += *clipped;
    counted_ += static_cast<std::uint64_t>(made.size());
  }

  void find_alive(const Tensor& made) {
    const auto axis = channel_axis(model_, *layer_.of_model, static_cast<std::size_t>(made.rank()));
    if (!axis) return;
    const auto channels = static_cast<std::size_t>(made.shape()[*axis]);
    std::size_t inner = 1;
    for (std::size_t i = *axis + 1; i < made.shape().size(); ++i)
      inner *= static_cast<std::size_t>(made.shape()[i]);
    if (alive_.empty()) alive_.assign(channels, false);
    if (alive_.size() != channels) return;
    const std::vector<float> values = made.to_floats();
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] != 0) alive_[i / inner % channels] = true;
  }

 public:
  std::string expected;  ///< the baseline's value beside what the layer gives

 private:
  const LayeredNetwork& model_;
  const PassedLayer& layer_;
  std::string given_, activated_;
  std::vector<Taken> taken_;
  bool is_compared_ = false;
  DistortionSum sum_;
  double low_ = std::numeric_limits<double>::infinity(), high_ = -low_;
  std::uint64_t clipped_ = 0, counted_ = 0;
  std::vector<bool> alive_;
};

/// Consecutive layers whose values of the baseline fit together.
std::vector<std::vector<std::size_t>> groups_of(const std::vector<LayerValues>& layers,
                                                const BaselineRuns& runs, std::uint64_t bytes) {
  std::vector<std::vector<std::size_t>> groups;
  std::uint64_t held = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::uint64_t own = layers[i].expected.empty() ? 0 : runs.bytes_of(layers[i].expected);
    if (groups.empty() || held + own > bytes) {
      groups.emplace_back();
      held = 0;
    }
    held += own;
    groups.back().push_back(i);
  }
  return groups;
}

}  // namespace

std::vector<PassingValues> measure_passing(const LayeredNetwork& model, const LayeredNetwork& baseline,
                                           const std::vector<PassedLayer>& layers,
                                           const std::vector<std::size_t>& inputs, const BaselineRuns& runs,
                                           const LayerSamples& samples, const PrepareGraph& prepare,
                                           std::uint64_t bytes) {
  std::vector<LayerValues> values;
  for (const PassedLayer& layer : layers) {
    values.emplace_back(model, layer);
    if (layer.of_baseline) values.back().expected = given_by(baseline, *layer.of_baseline);
  }
  const auto executable = prepare(model.graph());
  for (const std::vector<std::size_t>& group : groups_of(values, runs, bytes)) {
    std::set<std::string> expected, wanted;
    for (const std::size_t i : group) {
      wanted.merge(values[i].wanted());
      if (!values[i].expected.empty()) expected.insert(values[i].expected);
    }
    for (std::size_t piece = 0; piece < samples.pieces.size(); ++piece) {
      const std::map<std::string, Tensor> meant = runs.values(piece, expected);
      const auto see = [&](const std::string& value, const Tensor& made) {
        for (const std::size_t i : group) values[i].see(value, made, meant);
      };
      std::vector<Tensor> own;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        own.push_back(samples.pieces[piece][inputs[i]]);
        if (wanted.contains(model.graph().inputs[i])) see(model.graph().inputs[i], own.back());
      }
      executable->run(own, {.show = see, .wanted = wanted});
    }
  }
  std::vector<PassingValues> made;
  for (const LayerValues& layer : values) made.push_back(layer.result());
  return made;
}

}  // namespace crumb::jobs
