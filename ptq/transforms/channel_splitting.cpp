#include "ptq/transforms/channel_splitting.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "base/threads/parallel.h"
#include "graph/strided_index.h"
#include "quant/codes/fixed_scales.h"

namespace crumb::ptq {
namespace {

using graph::Graph;
using graph::Tensor;

constexpr std::size_t kSplitRows = 32;

std::size_t columns_of(const WeightRows& rows) { return rows.values.size() / rows.shape[0]; }

/// Returns the first channel that a row takes.
std::size_t first_channel(const ChannelSink& sink, std::size_t row, std::size_t rows, std::size_t channels) {
  return row / (rows / sink.groups) * (channels / sink.groups);
}

/// Returns the tensor with the channels `from` on the axis, `run` numbers each.
Tensor picked(const Tensor& tensor, std::size_t axis, std::size_t run, const std::vector<std::size_t>& from) {
  std::vector<std::int64_t> shape = tensor.shape();
  std::size_t outer = 1, inner = run;
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (i != axis) (i < axis ? outer : inner) *= static_cast<std::size_t>(shape[i]);
  const auto width = static_cast<std::size_t>(shape[axis]) / run * inner;
  const std::vector<float> values = tensor.to_floats();
  std::vector<float> made;
  made.reserve(outer * from.size() * inner);
  for (std::size_t i = 0; i < outer; ++i)
    for (const std::size_t channel : from) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(i * width + channel * inner);
      made.insert(made.end(), begin, begin + static_cast<std::ptrdiff_t>(inner));
    }
  shape[axis] = static_cast<std::int64_t>(from.size() * run);
  return Tensor::floats(shape, made);
}

/// The range of weights with one scale, including 0; symmetric without a zero point.
struct Extent {
  float least = 0, greatest = 0;
  float nearest(float x) const { return std::clamp(x, least, greatest); }
  bool ends_at(float x) const { return x == least || x == greatest; }
};

std::vector<Extent> extents_of(const QuantSpec& spec, const FixedScales& scales,
                               std::span<const float> values) {
  std::vector<Extent> extents(scales.blocks());
  for (std::size_t i = 0; i < values.size(); ++i) {
    Extent& extent = extents[scales.block_of(i / scales.columns(), i % scales.columns())];
    extent.least = std::min(extent.least, values[i]);
    extent.greatest = std::max(extent.greatest, values[i]);
  }
  if (spec.zero != ZeroPoint::kNone) return extents;
  for (Extent& extent : extents) {
    extent.greatest = std::max(extent.greatest, -extent.least);
    extent.least = -extent.greatest;
  }
  return extents;
}

}  // namespace

ChannelSplit::ChannelSplit(std::size_t channels, std::size_t parts, const std::vector<std::size_t>& doubled)
    : channels_(channels) {
  const std::size_t size = channels / parts;
  auto next = doubled.begin();
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t begin = part * size, first = from_.size();
    for (std::size_t channel = begin; channel < begin + size; ++channel) from_.push_back(channel);
    for (; next != doubled.end() && *next < begin + size; ++next) {
      pairs_.push_back({first + *next - begin, from_.size()});
      from_.push_back(*next);
    }
  }
}

std::vector<std::uint64_t> split_shape(const WeightRows& rows, const ChannelSink& sink, std::size_t before,
                                       std::size_t after) {
  std::vector<std::uint64_t> shape = rows.shape;
  shape[1] = shape[1] / (before / sink.groups) * (after / sink.groups);
  return shape;
}

WeightRows with_halves(const WeightRows& rows, const ChannelSink& sink, const ChannelSplit& split) {
  WeightRows made{
      .axes = rows.axes, .shape = split_shape(rows, sink, split.before(), split.after()), .values = {}};
  std::vector<float> shares(split.after(), 1.0F);
  for (const ChannelSplit::Pair& pair : split.pairs()) shares[pair.first] = shares[pair.second] = 0.5F;
  const std::size_t count = rows.shape[0], columns = columns_of(rows);
  for (std::size_t row = 0; row < count; ++row) {
    const std::size_t first = first_channel(sink, row, count, split.after()),
                      old = first_channel(sink, row, count, split.before());
    for (std::size_t channel = first; channel < first + split.after() / sink.groups; ++channel)
      for (std::size_t position = 0; position < sink.run; ++position)
        made.values.push_back(shares[channel] *
                              rows.values[row * columns + (split.from(channel) - old) * sink.run + position]);
  }
  return made;
}

void part_halves(const QuantSpec& spec, WeightRows& rows, const ChannelSink& sink, const ChannelSplit& split,
                 int threads) {
  const FixedScales scales(spec, rows.values, rows.shape, sink.name, threads);
  const std::size_t count = rows.shape[0], columns = columns_of(rows);
  const std::vector<Extent> extents = extents_of(spec, scales, rows.values);
  parallel_for(count, kSplitRows, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      const std::size_t first = first_channel(sink, row, count, split.after());
      for (const ChannelSplit::Pair& pair : split.pairs()) {
        if (pair.first < first || pair.first >= first + split.after() / sink.groups) continue;
        for (std::size_t position = 0; position < sink.run; ++position) {
          std::size_t wide = (pair.first - first) * sink.run + position,
                      fine = (pair.second - first) * sink.run + position;
          if (scales.scale(scales.block_of(row, wide)) < scales.scale(scales.block_of(row, fine)))
            std::swap(wide, fine);
          const float half = rows.values[row * columns + wide], all = 2 * half;
          const Extent of_wide = extents[scales.block_of(row, wide)],
                       of_fine = extents[scales.block_of(row, fine)];
          if (of_wide.ends_at(half) || of_fine.ends_at(half)) continue;  // scales stay the same
          const float code = of_wide.nearest(scales.value(row, wide, scales.code(row, wide, half))),
                      rest = of_fine.nearest(all - code), other = rest == all - code ? code : all - rest;
          if (of_wide.nearest(other) != other) continue;
          rows.values[row * columns + fine] = rest;
          rows.values[row * columns + wide] = other;
        }
      }
    }
  });
}

std::vector<double> joined_columns(const WeightRows& rows, const ChannelSink& sink,
                                   const ChannelSplit& split) {
  const std::size_t count = rows.shape[0], columns = columns_of(rows),
                    old_columns = columns / (split.after() / sink.groups) * (split.before() / sink.groups);
  std::vector<double> made(count * old_columns);
  for (std::size_t row = 0; row < count; ++row) {
    const std::size_t first = first_channel(sink, row, count, split.after()),
                      old = first_channel(sink, row, count, split.before());
    for (std::size_t column = 0; column < columns; ++column)
      made[row * old_columns + (split.from(first + column / sink.run) - old) * sink.run +
           column % sink.run] += static_cast<double>(rows.values[row * columns + column]);
  }
  return made;
}

Tensor tensor_of_rows(const WeightRows& rows) {
  const std::vector<std::int64_t> shape(rows.shape.begin(), rows.shape.end());
  return Tensor::floats(graph::permuted_shape(shape, rows.axes),
                        graph::permuted(rows.values, shape, rows.axes));
}

void double_sources(Graph& graph, const SplitSite& site, const ChannelSplit& split) {
  for (const ChanneledConstant& source : site.sources) {
    Tensor& tensor = graph.initializers.at(source.name);
    tensor = picked(tensor, source.axis, source.run, split.all());
  }
  const auto after = static_cast<std::int64_t>(split.after());
  for (const std::size_t node : site.depthwise) graph.nodes[node].attributes["group"] = after;
  for (const std::string& name : site.flat_shapes) {
    Tensor& shape = graph.initializers.at(name);
    std::vector<std::int64_t> sizes = shape.to_ints();
    sizes[1] = sizes[1] / static_cast<std::int64_t>(split.before()) * after;
    shape = Tensor::ints(shape.shape(), sizes);
  }
  for (const ChanneledValue& value : site.values) {
    const auto known = graph.values.find(value.name);
    if (known == graph.values.end() || !known->second.shape) continue;
    graph::Shape& shape = *known->second.shape;
    shape[shape.size() - 1 - value.behind] = graph::Dim(after * static_cast<std::int64_t>(value.run));
  }
}

}  // namespace crumb::ptq
