#include "ptq/split.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/files/counted.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "graph/quantized_constant.h"
#include "graph/strided_index.h"
#include "ptq/channel_splitting.h"
#include "ptq/split_sites.h"

namespace crumb::ptq {
namespace {

using graph::PlannedConstant;
using graph::Tensor;

/// The largest magnitude of what each channel is multiplied by.
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

/// A squared error over what it is an error of.
template <class Number>
double share_lost(const WeightRows& rows, const std::vector<Number>& made) {
  double lost = 0, all = 0;
  for (std::size_t i = 0; i < made.size(); ++i) {
    const auto meant = static_cast<double>(rows.values[i]);
    lost += std::pow(static_cast<double>(made[i]) - meant, 2);
    all += meant * meant;
  }
  return all > 0 ? lost / all : 0;
}

/// Layers that stay, by why.
class Reasons {
 public:
  void add(const std::string& layer, const std::string& why) { layers_[why].push_back(layer); }

  bool empty() const { return layers_.empty(); }
  std::vector<std::string> notes() const {
    std::vector<std::string> all;
    for (const auto& [why, layers] : layers_)
      all.push_back(count_text(layers.size(), "layer") + " (" + (layers.size() > 1 ? "the first is " : "") +
                    quote_text(layers[0]) + ") not split: " + why);
    return all;
  }

 private:
  std::map<std::string, std::vector<std::string>> layers_;
};

class Splitting {
 public:
  Splitting(const Stage& stage, Setting& setting)
      : setting_(setting),
        share_(stage.value("share")),
        is_even_(stage.value("even") != 0),
        report_{.stage = to_string(stage), .measure = "matrices", .layers = {}, .notes = {}} {
    if (share_ > 1)
      throw usage_error("the stage split: share is of a layer's channels, expected 1 at most, found " +
                        number_text(share_));
    for (const PlannedConstant& constant : setting.plan.constants)
      if (constant.spec) planned_[constant.value] = &constant;
    for (const auto& [name, constant] : planned_)
      if (constant->is_weight)
        weights_ += static_cast<std::size_t>(setting.graph.initializers.at(name).size());
  }

  StageReport run() && {
    const SplitSites found = split_sites(setting_.graph);
    for (const UnsplitLayer& layer : found.refused)
      if (planned_.contains(layer.weight)) reasons_.add(layer.weight, layer.why);
    bool is_any = false;
    for (const SplitSite& site : found.sites) {
      check_interrupt();
      is_any |= take(site);
    }
    if (!is_any) {
      std::string text = "the stage split finds no value between layers whose channels can be doubled";
      for (const std::string& why : reasons_.notes()) text += "; " + why;
      throw Error(text);
    }
    if (doubled_ > 0)
      report_.notes.push_back(
          count_text(doubled_, "channel") + " of " + std::to_string(channels_) + " in " +
          count_text(values_, "value") + " doubled: weights grow by " +
          number_text(std::round(1000.0 * static_cast<double>(added_) / static_cast<double>(weights_)) / 10) +
          " %");
    for (std::string& note : reasons_.notes()) report_.notes.push_back(std::move(note));
    return std::move(report_);
  }

 private:
  /// Whether there is a layer that rounds what the site brings.
  bool take(const SplitSite& site) {
    std::vector<const ChannelSink*> sinks;
    for (const ChannelSink& sink : site.sinks)
      if (planned_.contains(sink.name)) sinks.push_back(&sink);
    if (sinks.empty()) return false;
    const auto leave = [&](const std::string& why) {
      for (const ChannelSink* sink : sinks) reasons_.add(sink->name, why);
      return true;
    };
    if (is_rounded(site)) {
      (void)leave("they, or layers beside them, have their codes already");
      return false;
    }
    const std::optional<std::size_t> count = count_for(site);
    if (!count)
      return leave("more than a quarter of their channels would be doubled for groups to divide them");
    const ChannelSplit split(site.channels, site.parts, largest(site, *count));
    std::map<std::string, Tensor> made;
    std::vector<LayerReport> layers;
    double before = 0, after = 0;
    for (const ChannelSink& sink : site.sinks) {
      const auto planned = planned_.find(sink.name);
      const Tensor& tensor = setting_.graph.initializers.at(sink.name);
      const WeightRows rows = weight_rows(tensor, sink.output_axis);
      WeightRows halves = with_halves(rows, sink, split);
      const bool is_planned = planned != planned_.end();
      if (is_planned && !is_even_) part_halves(*planned->second->spec, halves, sink, split, setting_.threads);
      made[sink.name] = tensor_of_rows(halves);
      if (!is_planned) continue;
      layers.push_back(
          {.layer = sink.name,
           .before = share_lost(rows, codes_of(*planned->second, tensor).values),
           .after = share_lost(rows,
                               joined_columns(codes_of(*planned->second, made.at(sink.name)), sink, split))});
      before += layers.back().before;
      after += layers.back().after;
    }
    if (!(after < before)) return leave("rounding would lose no less");
    apply(site, split, std::move(made));
    report_.layers.insert(report_.layers.end(), layers.begin(), layers.end());
    return true;
  }

  bool is_rounded(const SplitSite& site) const {
    const auto has_codes = [&](const auto& constant) {
      const auto found = planned_.find(constant.name);
      return found != planned_.end() && found->second->rounded;
    };
    return std::ranges::any_of(site.sources, has_codes) || std::ranges::any_of(site.sinks, has_codes);
  }

  /// How many channels are doubled, so that specs and groups fit; nothing where those are too many.
  std::optional<std::size_t> count_for(const SplitSite& site) const {
    const auto wanted =
        static_cast<std::size_t>(std::ceil(share_ * static_cast<double>(site.channels) - 1e-9));
    const std::size_t least = (std::max<std::size_t>(wanted, 1) + site.parts - 1) / site.parts * site.parts,
                      most = std::min(site.channels, std::max(least, site.channels / 4));
    for (std::size_t count = least; count <= most; count += site.parts)
      if (fits(site, site.channels + count)) return count;
    return std::nullopt;
  }

  bool fits(const SplitSite& site, std::size_t channels) const {
    for (const ChannelSink& sink : site.sinks)
      if (const auto planned = planned_.find(sink.name); planned != planned_.end()) {
        const WeightRows rows = shape_of(sink.name, sink.output_axis);
        if (planned->second->spec->misfit(split_shape(rows, sink, site.channels, channels))) return false;
      }
    for (const ChanneledConstant& source : site.sources)
      if (const auto planned = planned_.find(source.name); planned != planned_.end()) {
        // Rows of a weight, or a constant that a recipe names.
        std::vector<std::uint64_t> shape = shape_of(source.name, planned->second->output_axis).shape;
        const std::size_t place = source.axis == planned->second->output_axis  ? 0
                                  : source.axis < planned->second->output_axis ? source.axis + 1
                                                                               : source.axis;
        shape[place] = channels * source.run;
        if (planned->second->spec->misfit(shape)) return false;
      }
    return true;
  }

  /// Its rows' shape, without the numbers.
  WeightRows shape_of(const std::string& name, std::size_t output_axis) const {
    const std::vector<std::int64_t> whole = setting_.graph.initializers.at(name).shape();
    WeightRows rows{.axes = graph::axes_with_output(whole.size(), output_axis), .shape = {}, .values = {}};
    for (const std::int64_t size : graph::permuted_shape(whole, graph::inverse(rows.axes)))
      rows.shape.push_back(static_cast<std::uint64_t>(size));
    return rows;
  }

  /// Those with the largest weights, as shares of their matrix' largest: as many of each part, ascending.
  std::vector<std::size_t> largest(const SplitSite& site, std::size_t count) const {
    std::vector<float> sizes(site.channels);
    for (const ChannelSink& sink : site.sinks) {
      if (!planned_.contains(sink.name)) continue;
      const std::vector<float> own =
          channel_sizes(setting_.graph.initializers.at(sink.name), sink, site.channels);
      const float most = std::ranges::max(own);
      for (std::size_t channel = 0; channel < own.size() && most > 0; ++channel)
        sizes[channel] = std::max(sizes[channel], own[channel] / most);
    }
    std::vector<std::size_t> chosen;
    const std::size_t part = site.channels / site.parts;
    for (std::size_t begin = 0; begin < site.channels; begin += part) {
      std::vector<std::size_t> order(part);
      std::iota(order.begin(), order.end(), begin);
      std::ranges::stable_sort(order, std::greater(), [&](std::size_t channel) { return sizes[channel]; });
      std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count / site.parts));
      chosen.insert(chosen.end(), order.begin(),
                    order.begin() + static_cast<std::ptrdiff_t>(count / site.parts));
    }
    return chosen;
  }

  WeightRows codes_of(const PlannedConstant& constant, const Tensor& tensor) const {
    return weight_rows(graph::quantize_constant(*constant.spec, tensor, constant.output_axis, constant.value,
                                                setting_.threads)
                           .value(),
                       constant.output_axis);
  }

  void apply(const SplitSite& site, const ChannelSplit& split, std::map<std::string, Tensor> sinks) {
    graph::Graph& graph = setting_.graph;
    const auto count = [&] {
      std::int64_t all = 0;
      for (const ChannelSink& sink : site.sinks)
        if (planned_.contains(sink.name)) all += graph.initializers.at(sink.name).size();
      for (const ChanneledConstant& source : site.sources)
        if (planned_.contains(source.name)) all += graph.initializers.at(source.name).size();
      return static_cast<std::size_t>(all);
    };
    const std::size_t before = count();
    for (auto& [name, tensor] : sinks) graph.initializers[name] = std::move(tensor);
    double_sources(graph, site, split);
    added_ += count() - before;
    doubled_ += split.pairs().size();
    channels_ += site.channels;
    ++values_;
  }

  Setting& setting_;
  const double share_;
  const bool is_even_;
  std::map<std::string, const PlannedConstant*> planned_;  ///< that become codes
  Reasons reasons_;
  std::size_t doubled_ = 0, channels_ = 0, values_ = 0, added_ = 0, weights_ = 0;
  StageReport report_;
};

}  // namespace

StageReport split(const Stage& stage, Setting& setting) { return Splitting(stage, setting).run(); }

}  // namespace crumb::ptq
