#include "ptq/transforms/split_choice.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "graph/strided_index.h"
#include "ptq/matrices/weight_rows.h"
#include "ptq/transforms/channel_splitting.h"

namespace crumb::ptq {
namespace {

using graph::Tensor;

/// Returns the largest magnitude of each channel's weights.
std::vector<float> channel_sizes(const Tensor& tensor, const ChannelSink& sink, std::size_t channels) {
  const WeightRows rows = weight_rows(tensor, sink.output_axis);
  const std::size_t count = rows.shape[0], columns = rows.values.size() / count;
  std::vector<float> sizes(channels);
  for (std::size_t i = 0; i < rows.values.size(); ++i) {
    const std::size_t row = i / columns, group = row / (count / sink.groups);
    float& size = sizes[group * (channels / sink.groups) + i % columns / sink.run];
    size = std::max(size, std::fabs(rows.values[i]));
  }
  return sizes;
}

}  // namespace

std::optional<std::size_t> SplitChoice::count(double share) const {
  const auto wanted = static_cast<std::size_t>(std::ceil(share * static_cast<double>(site_.channels) - 1e-9));
  const std::size_t least = (std::max<std::size_t>(wanted, 1) + site_.parts - 1) / site_.parts * site_.parts,
                    most = std::min(site_.channels, std::max(wanted, site_.channels / 4));
  for (std::size_t count = least; count <= most; count += site_.parts)
    if (fits(site_.channels + count)) return count;
  return std::nullopt;
}

bool SplitChoice::fits(std::size_t channels) const {
  for (const ChannelSink& sink : site_.sinks) {
    const auto planned = planned_.find(sink.name);
    if (planned == planned_.end()) continue;
    const WeightRows rows{.axes = {}, .shape = rows_shape(sink.name, sink.output_axis), .values = {}};
    if (planned->second->spec->misfit(split_shape(rows, sink, site_.channels, channels))) return false;
  }
  for (const ChanneledConstant& source : site_.sources) {
    const auto planned = planned_.find(source.name);
    if (planned == planned_.end()) continue;
    const std::size_t first = planned->second->axes.output;
    std::vector<std::uint64_t> shape = rows_shape(source.name, first);
    // The first axis of rows is the outputs' axis; the others follow.
    shape[source.axis == first  ? 0
          : source.axis < first ? source.axis + 1
                                : source.axis] = channels * source.run;
    if (planned->second->spec->misfit(shape)) return false;
  }
  return true;
}

std::vector<std::uint64_t> SplitChoice::rows_shape(const std::string& name, std::size_t output_axis) const {
  const std::vector<std::int64_t> whole = graph_.initializers.at(name).shape(),
                                  axes = graph::tensor_axes(whole.size(), output_axis),
                                  rows = graph::permuted_shape(whole, graph::inverse(axes));
  return {rows.begin(), rows.end()};
}

std::vector<std::size_t> SplitChoice::largest(std::size_t count) const {
  std::vector<float> sizes(site_.channels);
  for (const ChannelSink& sink : site_.sinks) {
    if (!planned_.contains(sink.name)) continue;
    const std::vector<float> own = channel_sizes(graph_.initializers.at(sink.name), sink, site_.channels);
    const float most = std::ranges::max(own);
    for (std::size_t channel = 0; channel < own.size() && most > 0; ++channel)
      sizes[channel] = std::max(sizes[channel], own[channel] / most);
  }
  std::vector<std::size_t> chosen;
  const std::size_t part = site_.channels / site_.parts;
  for (std::size_t begin = 0; begin < site_.channels; begin += part) {
    std::vector<std::size_t> order(part);
    std::iota(order.begin(), order.end(), begin);
    std::ranges::stable_sort(order, std::greater(), [&](std::size_t channel) { return sizes[channel]; });
    order.resize(count / site_.parts);
    std::ranges::sort(order);
    chosen.insert(chosen.end(), order.begin(), order.end());
  }
  return chosen;
}

}  // namespace crumb::ptq
