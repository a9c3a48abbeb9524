#include "ptq/rounding/station_rounding.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "graph/quantize/apply.h"
#include "ptq/rounding/branch_moments.h"
#include "ptq/rounding/branch_weights.h"
#include "ptq/rounding/layer_store.h"
#include "ptq/samples/sample_stream.h"

namespace crumb::ptq {
namespace {

using graph::PlannedConstant;

class StationRounding {
 public:
  StationRounding(const Stage& stage, Setting& setting, const RoundedParts& parts,
                  const StationOptions& options, const RoundLayer& round)
      : setting_(setting),
        parts_(parts),
        options_(options),
        round_(round),
        stations_(stations_of(setting.graph, parts.layers)),
        beside_(options.float_inputs ? BranchWeights(setting.graph) : BranchWeights()),
        report_{.stage = to_string(stage), .measure = "outputs", .layers = {}, .notes = {}} {}

  StageReport run() && {
    round_shared();
    round_branched();
    round_by_spec();
    std::vector<std::vector<StoredLayer>> found = found_before();
    if (found.size() == stations_.size()) return std::move(report_);
    progress(0);
    const std::uint64_t memory =
        setting_.memory / (options_.float_inputs ? 4 : 2);  // values around a part, of each network
    SampleStream stream(setting_.graph, stations_, *setting_.engine, memory);
    for (const std::string& name : rounded_elsewhere()) stream.set_constant(name, *planned(name).rounded);
    for (const auto& [name, numbers] : setting_.plan.final_floats) stream.set_constant(name, numbers);
    std::optional<SampleStream> floats;
    if (options_.float_inputs) floats.emplace(setting_.graph, stations_, *setting_.engine, memory);
    for (std::size_t i = 0; i < stations_.size(); ++i) {
      stream.advance();
      if (floats) floats->advance();
      if (i < found.size()) {
        pass(stream, floats);
      } else {
        StationMoments moments = moments_at(stations_[i], stream, floats);
        found.push_back(kept(rounded(stations_[i], moments)));
        take(found.back());
      }
      for (StoredLayer& layer : found[i]) stream.set_constant(layer.constant, std::move(layer.codes));
      found[i].clear();
    }
    return std::move(report_);
  }

 private:
  const std::string& constant_of(const SampledLayer& layer) const {
    return setting_.plan.constants[layer.constant].value;
  }

  void round_shared() {
    std::vector<std::string> names;
    for (const SharedMatrix& matrix : parts_.shared)
      names.push_back(setting_.plan.constants[matrix.constant()].value);
    take(found_or_made(names, [&] {
      std::vector<LayerMoments> moments = moments_of(parts_.shared, setting_, parts_.layers, options_.even);
      std::vector<StoredLayer> layers;
      for (std::size_t i = 0; i < moments.size(); ++i)
        layers.push_back(rounded(parts_.shared[i].products.front(), std::move(moments[i])));
      return layers;
    }));
  }

  void round_branched() {
    std::vector<LayerMoments> moments = moments_in_branches(parts_.branched, setting_, options_.even);
    std::vector<std::string> names;
    std::vector<std::size_t> reached;
    for (std::size_t i = 0; i < moments.size(); ++i) {
      if (moments[i].samples == 0) {
        unreached_.push_back(parts_.branched[i].constant);
        continue;
      }
      reached.push_back(i);
      names.push_back(constant_of(parts_.branched[i]));
    }
    take(found_or_made(names, [&] {
      std::vector<StoredLayer> layers;
      for (const std::size_t i : reached)
        layers.push_back(rounded(parts_.branched[i], std::move(moments[i])));
      return layers;
    }));
    note_unreached();
  }

  void note_unreached() {
    std::string text;
    for (const std::size_t constant : unreached_)
      text += (text.empty() ? "" : ", ") + quote_text(setting_.plan.constants[constant].value);
    if (text.empty()) return;
    report_.notes.push_back("rounding stays where no sample came, in branches of an If that none took: " +
                            text);
  }

  bool is_unreached(std::size_t constant) const {
    return std::ranges::find(unreached_, constant) != unreached_.end();
  }

  /// Rounds the constants that need no samples.
  void round_by_spec() {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < setting_.plan.constants.size(); ++i) {
      const PlannedConstant& constant = setting_.plan.constants[i];
      const bool is_open = constant.spec && !constant.rounded;
      if (is_open && (!parts_.contain(i) || is_unreached(i))) names.push_back(constant.value);
    }
    const std::vector<StoredLayer> made = found_or_made(names, [&] {
      std::vector<StoredLayer> layers;
      for (const std::string& name : names)
        layers.push_back(
            {.constant = name, .codes = graph::codes_of(planned(name), setting_.graph, setting_.threads)});
      return layers;
    });
    for (const StoredLayer& layer : made) planned(layer.constant).rounded = layer.codes;
  }

  /// Returns the constants with codes that no station rounds.
  std::vector<std::string> rounded_elsewhere() const {
    std::vector<std::string> names;
    for (const PlannedConstant& constant : setting_.plan.constants) {
      const bool is_at_station = std::ranges::any_of(
          parts_.layers, [&](const SampledLayer& layer) { return constant_of(layer) == constant.value; });
      if (constant.rounded && !is_at_station) names.push_back(constant.value);
    }
    return names;
  }

  std::vector<StoredLayer> found_or_made(const std::vector<std::string>& names,
                                         const std::function<std::vector<StoredLayer>()>& make) const {
    if (names.empty()) return {};
    if (std::optional<std::vector<StoredLayer>> found = found_before(names)) return std::move(*found);
    progress(0);
    return kept(make());
  }

  std::optional<std::vector<StoredLayer>> found_before(const std::vector<std::string>& names) const {
    return setting_.store ? setting_.store->next(names) : std::nullopt;
  }

  /// Returns what an earlier run left of the first stations.
  std::vector<std::vector<StoredLayer>> found_before() {
    std::vector<std::vector<StoredLayer>> found;
    while (found.size() < stations_.size()) {
      std::vector<std::string> names;
      for (const SampledLayer& layer : stations_[found.size()].layers) names.push_back(constant_of(layer));
      std::optional<std::vector<StoredLayer>> layers = found_before(names);
      if (!layers) break;
      take(*layers);
      found.push_back(std::move(*layers));
    }
    return found;
  }

  void for_samples(const std::function<void(const std::vector<graph::Tensor>&)>& see) const {
    setting_.samples([&](const std::vector<graph::Tensor>& sample) {
      check_interrupt();
      see(sample);
    });
  }

  void pass(SampleStream& stream, std::optional<SampleStream>& floats) const {
    for_samples([&](const std::vector<graph::Tensor>& sample) {
      stream.run(sample);
      if (floats) floats->run(sample);
    });
  }

  StationMoments moments_at(const Station& station, SampleStream& stream,
                            std::optional<SampleStream>& floats) const {
    StationMoments moments(setting_.graph, station, options_.float_inputs, options_.even);
    for_samples([&](const std::vector<graph::Tensor>& sample) {
      const auto brought = stream.run(sample);
      moments.add(brought, floats ? floats->run(sample) : brought, setting_.threads);
    });
    stream.rest();
    if (floats) floats->rest();
    return moments;
  }

  std::vector<StoredLayer> rounded(const Station& station, StationMoments& moments) const {
    std::vector<StoredLayer> layers;
    for (const SampledLayer& layer : station.layers) {
      layers.push_back(rounded(layer, moments.take(layer)));
      progress(layers.size());
    }
    return layers;
  }

  StoredLayer rounded(const SampledLayer& layer, LayerMoments moments) const {
    check_interrupt();
    const std::string& name = constant_of(layer);
    WeightRows rows =
        weight_rows(setting_.graph.initializers.at(name), setting_.plan.constants[layer.constant].axes);
    rows.beside = beside_.of(name);
    const std::vector<std::int64_t> axes = rows.axes;
    RoundedLayer made = round_(layer, std::move(rows), std::move(moments));
    return {.constant = name,
            .codes = {.tensor = std::make_shared<const QuantizedTensor>(std::move(made.codes)), .axes = axes},
            .before = made.before,
            .after = made.after,
            .tried = made.tried,
            .notes = std::move(made.notes)};
  }

  PlannedConstant& planned(const std::string& constant) const {
    return *std::ranges::find(setting_.plan.constants, constant, &PlannedConstant::value);
  }

  std::vector<StoredLayer> kept(std::vector<StoredLayer> layers) const {
    return setting_.store ? setting_.store->keep(std::move(layers)) : std::move(layers);
  }

  /// Puts codes into the plan, and a line about each into the report.
  void take(const std::vector<StoredLayer>& layers) {
    for (const StoredLayer& layer : layers) {
      planned(layer.constant).rounded = layer.codes;
      for (const std::string& note : layer.notes) report_.notes.push_back(layer.constant + ": " + note);
      report_.layers.push_back(
          {.layer = layer.constant, .before = layer.before, .after = layer.after, .tried = layer.tried});
    }
  }

  /// more: layers that are done and not yet in the report.
  void progress(std::size_t more) const {
    if (setting_.progress)
      setting_.progress(report_.layers.size() + more,
                        parts_.layers.size() + parts_.shared.size() + parts_.branched.size());
  }

  Setting& setting_;
  const RoundedParts& parts_;
  const StationOptions& options_;
  const RoundLayer& round_;
  const std::vector<Station> stations_;
  const BranchWeights beside_;  ///< needed only for targets with float inputs
  StageReport report_;
  std::vector<std::size_t> unreached_;  ///< constants of the plan in branches that no sample took
};

}  // namespace

bool RoundedParts::contain(std::size_t constant) const {
  return std::ranges::find(layers, constant, &SampledLayer::constant) != layers.end() ||
         std::ranges::find(branched, constant, &SampledLayer::constant) != branched.end() ||
         std::ranges::find(shared, constant, &SharedMatrix::constant) != shared.end();
}

StageReport round_stations(const Stage& stage, Setting& setting, const RoundedParts& parts,
                           const StationOptions& options, const RoundLayer& round) {
  return StationRounding(stage, setting, parts, options, round).run();
}

}  // namespace crumb::ptq
