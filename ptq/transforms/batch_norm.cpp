#include "ptq/transforms/batch_norm.h"

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/files/counted.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "graph/part.h"
#include "graph/weighted_product.h"
#include "ptq/matrices/finite_constants.h"
#include "ptq/precision/quantized_network.h"
#include "ptq/rounding/branch_weights.h"
#include "ptq/rounding/final_constants.h"
#include "ptq/samples/input_means.h"
#include "ptq/samples/sample_stream.h"
#include "ptq/transforms/channel_fits.h"
#include "ptq/transforms/norm_numbers.h"
#include "ptq/transforms/statistics_places.h"
#include "quant/codes/scaled_rows.h"

namespace crumb::ptq {
namespace {

using graph::Node;
using graph::PlannedConstant;
using graph::Tensor;

/// Sums over samples for one norm or layer.
struct PlaceSums {
  ChannelSums channels;
  InputMeans inputs;  ///< of a layer
};

std::vector<float> values_of(const QuantizedTensor& tensor) {
  std::vector<float> values(tensor.layout.matrix.rows * tensor.layout.matrix.cols);
  dequantize(tensor.view(), values);
  return values;
}

class Estimation {
 public:
  Estimation(const Stage& stage, Setting& setting)
      : setting_(setting),
        is_own_(stage.value("own") != 0),
        quantizes_values_(stage.value("values") != 0),
        places_(statistics_places(setting)),
        beside_(setting.graph),
        report_{.stage = to_string(stage), .measure = "outputs", .layers = {}, .notes = places_.notes} {
    if (places_.all.empty())
      throw Error(
          "the stage batch_norm finds no batch norm that is kept, and no layer that becomes codes and has a "
          "bias of its own");
    if (is_own_ && places_.norms == 0)
      throw Error(
          "the stage batch_norm: own=on is for batch norms that are kept (--batch-norm keep), and there is "
          "none");
  }

  StageReport run() && {
    expect_finite_constants();
    std::vector<SampledLayer> stands;
    for (const StatisticsPlace& place : places_.all) stands.push_back(place.at);
    const std::vector<Station> stations = stations_of(setting_.graph, stands);
    QuantizedNetwork quantized = quantized_network(setting_, quantizes_values_);
    const std::vector<Station> quantized_stations = stations_of(quantized.graph, quantized.placed(stands));
    SampleStream floats(setting_.graph, stations, *setting_.engine, setting_.memory / 4),
        stream(std::move(quantized.graph), quantized_stations, *setting_.engine, setting_.memory / 4);
    for (const Station& station : stations) {
      stream.advance();
      floats.advance();
      for (const auto& [node, sums] : sums_at(station, stream, floats)) {
        check_interrupt();
        const StatisticsPlace& place = place_of(node);
        if (place.layer)
          correct_layer(place, sums, stream);
        else
          correct_norm(place, sums.channels, stream);
      }
    }
    add_notes();
    return std::move(report_);
  }

 private:
  void expect_finite_constants() const {
    for (const StatisticsPlace& place : places_.all) {
      const std::vector<std::string>& inputs = setting_.graph.nodes[place.at.node].inputs;
      for (std::size_t i = 1; i < inputs.size(); ++i) require_finite("batch_norm", setting_.graph, inputs[i]);
      if (place.layer) require_finite("batch_norm", setting_.graph, place.layer->bias);
    }
  }

  const StatisticsPlace& place_of(std::size_t node) const {
    return *std::ranges::find(places_.all, node, [](const StatisticsPlace& one) { return one.at.node; });
  }

  /// Returns sums by node: of a norm's inputs, of a layer's outputs.
  std::map<std::size_t, PlaceSums> sums_at(const Station& station, SampleStream& stream,
                                           SampleStream& floats) const {
    struct Layer {
      std::unique_ptr<graph::Executable> made, meant;
    };
    std::map<std::size_t, Layer> layers;
    std::map<std::size_t, PlaceSums> sums;
    for (const SampledLayer& stand : station.layers) {
      PlaceSums& own = sums[stand.node];
      const StatisticsPlace& place = place_of(stand.node);
      if (!place.layer) continue;
      own.inputs = InputMeans(place.layer->layer);
      std::vector<std::string> given;
      if (std::ranges::find(setting_.graph.inputs, stand.input) == setting_.graph.inputs.end())
        given.push_back(stand.input);
      const auto part = [&](const SampleStream& of) {
        return setting_.engine->prepare(graph::part_of(of.graph(), given, {place.layer->output}));
      };
      layers[stand.node] = {.made = part(stream), .meant = part(floats)};
    }
    setting_.samples([&](const std::vector<Tensor>& sample) {
      check_interrupt();
      const auto made = stream.run(sample), meant = floats.run(sample);
      for (auto& [node, one] : sums) {
        const std::string& input = place_of(node).at.input;
        const auto layer = layers.find(node);
        if (layer == layers.end()) {
          one.channels.add(made.at(input), meant.at(input), 1);
          continue;
        }
        const Tensor now = layer->second.made->run({made.at(input)})[0],
                     then = layer->second.meant->run({meant.at(input)})[0];
        one.channels.add(now, then,
                         graph::is_convolution(setting_.graph.nodes[node]) ? 1 : then.shape().size() - 1);
        one.inputs.add(setting_.graph, place_of(node).layer->layer, made.at(input));
      }
    });
    stream.rest();
    floats.rest();
    for (const auto& [node, one] : sums) require_enough(node, one.channels);
    return sums;
  }

  void require_enough(std::size_t node, const ChannelSums& sums) const {
    const std::string where = text_of(setting_.graph.nodes[node]);
    if (!sums.is_finite())
      throw Error((place_of(node).layer ? "what " + where + " makes of" : "what " + where + " takes,") +
                  " value " + quote_text(place_of(node).at.input) + " holds inf or NaN on the samples");
    if (sums.count() < 2)
      throw Error("the stage batch_norm: a variance needs two numbers of a channel, found " +
                  std::to_string(sums.count()) + " at " + where + ": give more samples");
  }

  std::vector<ChannelFit> fits_of(const ChannelSums& sums) {
    std::vector<ChannelFit> fits = moment_fits(sums);
    channels_ += fits.size();
    kept_gains_ += static_cast<std::size_t>(std::ranges::count(fits, 1.0, &ChannelFit::gain));
    return fits;
  }

  void correct_layer(const StatisticsPlace& place, const PlaceSums& seen, SampleStream& stream) {
    const ChannelSums& sums = seen.channels;
    PlannedConstant& constant = setting_.plan.constants[place.layer->layer.constant];
    const QuantizedTensor& codes = *constant.rounded->tensor;
    const bool takes_gains =
        has_row_scales(codes.encoding, codes.layout.matrix) && beside_.of(constant.value).empty();
    const std::vector<ChannelFit> fits = takes_gains ? fits_of(sums) : mean_fits(sums);
    std::vector<double> left(fits.size());
    if (takes_gains) {
      std::vector<double> gains;
      for (const ChannelFit& fit : fits) gains.push_back(fit.gain);
      auto scaled = std::make_shared<const QuantizedTensor>(*with_scaled_rows(codes, gains));
      left = left_by_rounding(codes, *scaled, gains, place.layer->layer, seen.inputs);
      constant.rounded->tensor = std::move(scaled);
    } else {
      ++without_scales_;
    }
    stream.set_constant(constant.value, *constant.rounded);
    std::vector<float> biases = numbers_of(setting_, place.layer->bias).to_floats();
    Errors errors;
    for (std::size_t c = 0; c < fits.size(); ++c) {
      biases[c] = static_cast<float>(fits[c].gain * static_cast<double>(biases[c]) + fits[c].shift + left[c]);
      errors.add(sums, c, fits[c], 1, 0);
    }
    set(place.layer->bias, biases, stream);
    report_.layers.push_back(errors.report(place.name));
  }

  /// Returns the error in each output's mean because scales times gains are rounded to the scales' format.
  static std::vector<double> left_by_rounding(const QuantizedTensor& codes, const QuantizedTensor& scaled,
                                              std::span<const double> gains, const SampledLayer& layer,
                                              const InputMeans& inputs) {
    const std::vector<float> before = values_of(codes), after = values_of(scaled);
    const std::size_t columns = before.size() / gains.size();
    std::vector<double> left(gains.size());
    for (std::size_t c = 0; c < left.size(); ++c)
      for (std::size_t k = 0; k < columns; ++k)
        left[c] += (gains[c] * static_cast<double>(before[c * columns + k]) -
                    static_cast<double>(after[c * columns + k])) *
                   inputs.at(c / layer.rows, k);
    return left;
  }

  void correct_norm(const StatisticsPlace& place, const ChannelSums& sums, SampleStream& stream) {
    const Node& node = setting_.graph.nodes[place.at.node];
    const NormNumbers norm(setting_.graph, node);
    const std::vector<ChannelFit> fits = is_own_ ? norm.own_fits(sums) : fits_of(sums);
    NormNumbers made = norm;
    Errors errors;
    for (std::size_t c = 0; c < fits.size(); ++c) {
      made.take(c, fits[c]);
      errors.add(sums, c, fits[c], norm.factor(c), norm.shift(c));
    }
    report_.layers.push_back(errors.report(place.name));
    if (is_own_ && !(errors.after < errors.before)) {
      report_.layers.back().after = report_.layers.back().before;
      report_.notes.push_back(place.name + ": the samples' statistics lose no less, so it keeps its own");
      return;
    }
    set(node.inputs[3], made.means, stream);
    set(node.inputs[4], made.variances, stream);
  }

  /// Sets a constant in the quantized network and in the stream of samples.
  void set(const std::string& name, const std::vector<float>& values, SampleStream& stream) {
    set_final_values(setting_, name, Tensor::floats(setting_.graph.initializers.at(name).shape(), values));
    stream.set_constant(name, numbers_of(setting_, name));
  }

  void add_notes() {
    if (without_scales_ > 0)
      report_.notes.push_back(count_text(without_scales_, "layer") +
                              " whose scales are not each output's own, or take no factors: means alone");
    if (kept_gains_ > 0)
      report_.notes.push_back(std::to_string(kept_gains_) + " of " + count_text(channels_, "channel") +
                              ": means alone, which loses less, or they are constant");
  }

  struct Errors {
    double before = 0, after = 0, all = 0;
    /// Adds a channel whose output is the channel times the factor, plus the shift.
    void add(const ChannelSums& sums, std::size_t c, const ChannelFit& fit, double factor, double shift) {
      before += factor * factor * sums.error(c, {});
      after += factor * factor * sums.error(c, fit);
      all += sums.squares(c, factor, shift);
    }
    LayerReport report(const std::string& name) const {
      return {.layer = name, .before = all > 0 ? before / all : 0, .after = all > 0 ? after / all : 0};
    }
  };

  Setting& setting_;
  const bool is_own_, quantizes_values_;
  const StatisticsPlaces places_;
  const BranchWeights beside_;
  std::size_t channels_ = 0, kept_gains_ = 0, without_scales_ = 0;
  StageReport report_;
};

}  // namespace

StageReport batch_norm(const Stage& stage, Setting& setting) { return Estimation(stage, setting).run(); }

}  // namespace crumb::ptq
