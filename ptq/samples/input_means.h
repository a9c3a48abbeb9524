// The mean over samples of what a layer's rows are multiplied by.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "ptq/samples/sampled_layers.h"

namespace crumb::ptq {

/// Means for each group of a convolution.
class InputMeans {
 public:
  InputMeans() = default;  ///< of no layer
  explicit InputMeans(const SampledLayer& layer)
      : columns_(layer.columns), sums_(layer.groups * layer.columns) {}

  /// Adds a sample of that layer. Throws as visit_samples() does.
  void add(const graph::Graph& graph, const SampledLayer& layer, const graph::Tensor& value) {
    visit_samples(graph.nodes[layer.node], graph, layer, value,
                  [&](std::size_t group, const SampleColumns& x) {
                    if (group == 0) samples_ += static_cast<double>(x.samples);
                    for (std::size_t k = 0; k < x.size(); ++k)
                      for (std::size_t t = 0; t < x.samples; ++t)
                        sums_[group * columns_ + k] += static_cast<double>(x.values[k * x.samples + t]);
                  });
  }

  double at(std::size_t group, std::size_t column) const {
    return sums_[group * columns_ + column] / std::max(samples_, 1.0);
  }

 private:
  std::size_t columns_ = 0;
  std::vector<double> sums_;
  double samples_ = 0;  ///< of each group
};

}  // namespace crumb::ptq
