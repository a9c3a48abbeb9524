#include "ptq/transforms/split.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/files/counted.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "graph/quantized_constant.h"
#include "ptq/transforms/channel_splitting.h"
#include "ptq/transforms/split_choice.h"
#include "ptq/transforms/split_sites.h"

namespace crumb::ptq {
namespace {

using graph::PlannedConstant;
using graph::Tensor;

/// Returns the squared error of `made` over the squares of the rows.
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

/// Layers that stay as they are, by reason.
class Reasons {
 public:
  void add(const std::string& layer, const std::string& why) { layers_[why].push_back(layer); }

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
          number_text(std::round(1000.0 * static_cast<double>(added_) /
                                 static_cast<double>(std::max<std::size_t>(weights_, 1))) /
                      10) +
          " %");
    for (std::string& note : reasons_.notes()) report_.notes.push_back(std::move(note));
    return std::move(report_);
  }

 private:
  /// Whether a layer rounds weights of the site.
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
    const SplitChoice choice(setting_.graph, planned_, site);
    const std::optional<std::size_t> count = choice.count(share_);
    if (!count)
      return leave("more than a quarter of their channels would be doubled for groups to divide them");
    const ChannelSplit split(site.channels, site.parts, choice.largest(*count));
    std::map<std::string, Tensor> made;
    std::vector<LayerReport> layers;
    double before = 0, after = 0;
    for (const ChannelSink& sink : site.sinks) {
      const auto planned = planned_.find(sink.name);
      const Tensor& tensor = setting_.graph.initializers.at(sink.name);
      const WeightRows rows = weight_rows(tensor, sink.output_axis);
      const bool is_planned = planned != planned_.end();
      if (is_planned)
        layers.push_back({.layer = sink.name,
                          .before = share_lost(rows, codes_of(*planned->second, tensor).values),
                          .after = 0});
      WeightRows halves = with_halves(rows, sink, split);
      if (is_planned && !is_even_) part_halves(*planned->second->spec, halves, sink, split, setting_.threads);
      made[sink.name] = tensor_of_rows(halves);
      if (!is_planned) continue;
      layers.back().after =
          share_lost(rows, joined_columns(codes_of(*planned->second, made.at(sink.name)), sink, split));
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

  WeightRows codes_of(const PlannedConstant& constant, const Tensor& tensor) const {
    return weight_rows(
        graph::quantize_constant(*constant.spec, tensor, constant.axes, constant.value, setting_.threads)
            .value(),
        constant.axes);
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
  PlannedConstants planned_;
  Reasons reasons_;
  std::size_t doubled_ = 0, channels_ = 0, values_ = 0, added_ = 0, weights_ = 0;
  StageReport report_;
};

}  // namespace

StageReport split(const Stage& stage, Setting& setting) { return Splitting(stage, setting).run(); }

}  // namespace crumb::ptq
