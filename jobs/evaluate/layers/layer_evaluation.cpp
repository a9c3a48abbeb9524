#include "jobs/evaluate/layers/layer_evaluation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "analysis/accumulator/check.h"
#include "base/files/counted.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "graph/quantize/plan.h"
#include "jobs/engines/prepare_graph.h"
#include "jobs/evaluate/layers/alone_costs.h"
#include "jobs/evaluate/layers/layer_advice.h"
#include "jobs/evaluate/layers/matched_layers.h"
#include "jobs/evaluate/layers/passing_values.h"
#include "runtime/engine.h"

namespace crumb::jobs {
namespace {

using graph::Graph;
using graph::Tensor;

constexpr std::size_t kMostTried = 8, kMostAdvised = 5, kMostNamed = 3;
constexpr std::int64_t kTogether = 8;  // samples
constexpr int kUsualRegister = 32;
constexpr double kNoRounding = 0;  // dB: weights that differ by as much as there is of them
constexpr double kMostDecibels = 100;

/// Both networks in forms in which layers can be matched.
struct ComparedNetworks {
  std::unique_ptr<LayeredNetwork> model, baseline;
  MatchedLayers matched;

  std::optional<LayerPair> pair(std::size_t layer) const {
    const auto found = matched.baseline[layer];
    if (!found) return {};
    return LayerPair{.model = model.get(),
                     .baseline = baseline.get(),
                     .of_model = &model->layers()[layer],
                     .of_baseline = &baseline->layers()[*found]};
  }
};

/// SQNR of a layer's weights; nothing where they cannot be computed.
std::optional<double> sqnr_of_weights(const LayerPair& pair, const std::vector<Tensor>& found) {
  const auto meant = baseline_weights_of(pair);
  if (!meant) return {};
  DistortionSum sum;
  for (std::size_t i = 0; i < meant->size(); ++i) sum.add((*meant)[i].to_floats(), found[i].to_floats());
  return sum.result().sqnr_db;
}

/// How well weights match: the sum of their SQNR, the best of which count alike.
double likeness(const ComparedNetworks& networks) {
  double sum = 0;
  for (std::size_t i = 0; i < networks.matched.baseline.size(); ++i) {
    const auto pair = networks.pair(i);
    const auto weights = pair ? model_weights_of(*pair) : std::nullopt;
    const auto sqnr = weights ? sqnr_of_weights(*pair, *weights) : std::nullopt;
    if (sqnr && !std::isnan(*sqnr)) sum += std::clamp(*sqnr, 0.0, kMostDecibels);
  }
  return sum;
}

/// The baseline as crumb quantize prepares it, with norms folded where the model has them folded.
ComparedNetworks compare_networks(const LayerEvaluation& evaluation) {
  ComparedNetworks best{
      .model = std::make_unique<LayeredNetwork>(evaluation.model), .baseline = nullptr, .matched = {}};
  const bool has_norms = std::ranges::any_of(
      evaluation.baseline.nodes, [](const graph::Node& node) { return node.is("BatchNormalization"); });
  const runtime::Engine engine(evaluation.threads);
  double most = -1;
  for (const Recipe::BatchNorm norms : {Recipe::BatchNorm::kFold, Recipe::BatchNorm::kKeep}) {
    if (norms == Recipe::BatchNorm::kKeep && !has_norms) break;
    Recipe recipe;
    recipe.batch_norm = norms;
    ComparedNetworks one{
        .model = std::move(best.model),
        .baseline = std::make_unique<LayeredNetwork>(graph::prepare(evaluation.baseline, recipe, &engine)),
        .matched = {}};
    one.matched = match_layers(*one.model, *one.baseline);
    const double found = has_norms ? likeness(one) : 0;
    best.model = std::move(one.model);
    if (found <= most) continue;
    most = found;
    best.baseline = std::move(one.baseline);
    best.matched = std::move(one.matched);
  }
  return best;
}

/// Places of the model's inputs among the baseline's: by name, else by position.
std::vector<std::size_t> input_places(const Graph& model, const Graph& baseline) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < model.inputs.size(); ++i) {
    const auto found = std::ranges::find(baseline.inputs, model.inputs[i]);
    places.push_back(
        found == baseline.inputs.end() ? i : static_cast<std::size_t>(found - baseline.inputs.begin()));
  }
  return places;
}

std::string joined(const std::vector<std::string>& texts, const std::string& between) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : between) + text;
  return all;
}

std::string some_of(const std::vector<std::string>& names) {
  std::vector<std::string> first;
  for (std::size_t i = 0; i < std::min(names.size(), kMostNamed); ++i) first.push_back(quote_text(names[i]));
  std::string text = joined(first, ", ");
  if (names.size() > kMostNamed) text += " and " + std::to_string(names.size() - kMostNamed) + " more";
  return text;
}

class Measurement {
 public:
  Measurement(const LayerEvaluation& evaluation, ComparedNetworks networks, Observer& observer)
      : evaluation_(evaluation), networks_(std::move(networks)), observer_(observer) {
    for (std::size_t i = 0; i < networks_.model->layers().size(); ++i) {
      const bool is_told = is_quantized(networks_.model->layers()[i]);
      if (!is_told && !has_other_weights(i)) continue;
      chosen_.push_back(i);
      made_.layers.push_back(described(i));
      if (!is_told) made_.layers.back().weights = "changed";
    }
    note_matches();
  }

  /// Goes on until a person asks to stop.
  EvaluateLayers run(bool& interrupted) {
    const ProgressScope scope(observer_);
    try {
      measure();
    } catch (const Interrupted&) {
      interrupted = true;
    }
    std::ranges::stable_sort(
        made_.layers, [](const EvaluateLayer& a, const EvaluateLayer& b) { return cost_of(a) < cost_of(b); });
    return std::move(made_);
  }

 private:
  /// By which layers are sorted: what is not finite comes as the worst, what is not known last.
  static std::pair<bool, double> cost_of(const EvaluateLayer& layer) {
    if (!layer.alone_db) return {true, 0};
    return {false, std::isnan(*layer.alone_db) ? -std::numeric_limits<double>::infinity() : *layer.alone_db};
  }

  const LayeredNetwork& model() const { return *networks_.model; }
  const LayeredNetwork& baseline() const { return *networks_.baseline; }

  bool is_quantized(const NetworkLayer& layer) const {
    const bool has_codes = std::ranges::any_of(
        layer.weights, [&](const LayerWeight& weight) { return model().is_quantized(weight.value); });
    return has_codes ||
           (layer.data && !model().quantizers_before(model().node(layer).inputs[*layer.data]).empty());
  }

  /// Whether weights that nothing says are quantized differ from the baseline's by more than rounding of
  /// float32: those of GGUF files, which are read as floats, and of a model that was pruned or trained.
  bool has_other_weights(std::size_t index) const {
    const auto pair = networks_.pair(index);
    const auto weights = pair ? model_weights_of(*pair) : std::nullopt;
    const auto sqnr = weights ? sqnr_of_weights(*pair, *weights) : std::nullopt;
    return sqnr && !(*sqnr > kMostDecibels);
  }

  EvaluateLayer described(std::size_t index) const {
    const NetworkLayer& layer = model().layers()[index];
    const graph::Node& node = model().node(layer);
    EvaluateLayer made{.name = node.name, .op = node.op};
    std::vector<std::string> formats;
    for (const LayerWeight& weight : layer.weights) {
      const std::string format = format_of_constant(model(), weight.value);
      if (std::ranges::find(formats, format) == formats.end()) formats.push_back(format);
      std::uint64_t count = 1;
      for (const graph::Dim& dim : model().graph().shape_of(weight.value).value_or(graph::Shape()))
        count *= static_cast<std::uint64_t>(std::max<std::int64_t>(dim.size, 0));
      made.weight_count += count;
    }
    made.weights = joined(formats, ", ");
    formats.clear();
    if (layer.data)
      for (const std::size_t i : model().quantizers_before(node.inputs[*layer.data])) {
        const std::string format = format_of_quantizer(model(), model().graph().nodes[i]);
        if (std::ranges::find(formats, format) == formats.end()) formats.push_back(format);
      }
    made.input = joined(formats, ", ");
    const auto pair = networks_.pair(index);
    if (!pair) return made;
    made.name = baseline().node(*pair->of_baseline).name;
    made.op = baseline().node(*pair->of_baseline).op;
    for (const LayerWeight& weight : pair->of_baseline->weights)
      made.constants.push_back(weight.names.back());
    return made;
  }

  void note_matches() const {
    std::vector<std::string> missing;
    for (const std::size_t i : chosen_)
      if (!networks_.pair(i)) missing.push_back(model().node(model().layers()[i]).name);
    const std::string path = quote_text(evaluation_.path);
    if (chosen_.empty()) observer_.note("layers: " + path + " has none that are quantized or changed");
    if (!missing.empty())
      observer_.note("layers: " + path + " has " + count_text(missing.size(), "layer") +
                     " that the baseline has not, by name or by order and shape: " + some_of(missing) +
                     "; what they cost alone is not known");
    if (networks_.matched.by_place > 0)
      observer_.note("layers: " + count_text(networks_.matched.by_place, "layer") + " of " + path +
                     " and of the baseline have no names in common and are matched by order and shape");
  }

  void measure() {
    count_accumulators();
    if (chosen_.empty()) return;
    const auto own = fixed_batch(model().graph(), evaluation_.model_axes),
               other = fixed_batch(baseline().graph(), evaluation_.axes);
    if (own && other && own != other)
      return observer_.note("layers of " + quote_text(evaluation_.path) + " are not measured: it takes " +
                            count_text(static_cast<std::size_t>(*own), "sample") +
                            " at a time, and the baseline " + std::to_string(*other));
    const LayerSamples samples = take_samples(evaluation_.batches, baseline().graph(), evaluation_.axes,
                                              evaluation_.most, own.value_or(kTogether), own.has_value());
    made_.samples = samples.count;
    if (samples.pieces.empty()) return;
    steps_ = chosen_.size() + 3;
    BaselineRuns runs(baseline(), samples, evaluation_.prepare, evaluation_.memory);
    tell();
    keep_values(runs);
    measure_alone(runs, samples);
    note_other_weights();
    measure_passing(runs, samples);
    give_advice(runs, samples);
  }

  void tell() {
    observer_.progress({.what = "measuring layers", .items = "layers", .done = done_++, .all = steps_});
  }

  void count_accumulators() {
    try {
      const analysis::AccumulatorReport report = analysis::check_accumulators(model().graph());
      for (std::size_t i = 0; i < chosen_.size(); ++i)
        for (const analysis::AccumulatorRow& row : report.layers) {
          if (row.name != model().node(model().layers()[chosen_[i]]).name || !row.bits_needed) continue;
          made_.layers[i].bits_needed = std::max(made_.layers[i].bits_needed.value_or(0), *row.bits_needed);
          made_.layers[i].bits_there = row.bits_certified.value_or(kUsualRegister);
        }
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kInterrupted) throw;
      observer_.note("layers: accumulators of " + quote_text(evaluation_.path) +
                     " are not counted: " + error.what());
    }
  }

  /// Keeps what is in front of layers, of the last ones first: they leave most to be run again.
  void keep_values(BaselineRuns& runs) const {
    std::vector<std::set<std::string>> wanted;
    std::vector<std::pair<std::size_t, std::size_t>> order;  // the baseline's layer, the model's
    for (const std::size_t i : chosen_)
      if (const auto found = networks_.matched.baseline[i]) order.emplace_back(*found, i);
    std::ranges::sort(order, std::ranges::greater());
    for (const auto& [found, i] : order) wanted.push_back(values_in_front(*networks_.pair(i)));
    runs.keep(wanted);
  }

  void measure_alone(const BaselineRuns& runs, const LayerSamples& samples) {
    for (std::size_t i = 0; i < chosen_.size(); ++i) {
      tell();
      const auto pair = networks_.pair(chosen_[i]);
      const auto weights = pair ? model_weights_of(*pair) : std::nullopt;
      if (!weights) continue;
      made_.layers[i].weights_sqnr_db = sqnr_of_weights(*pair, *weights);
      made_.layers[i].alone_db = cost_alone(*pair, *weights, runs, samples, evaluation_.prepare);
    }
  }

  void note_other_weights() const {
    std::vector<std::string> others;
    for (const EvaluateLayer& layer : made_.layers)
      if (layer.weights_sqnr_db && *layer.weights_sqnr_db <= kNoRounding) others.push_back(layer.name);
    if (others.empty()) return;
    observer_.note("layers: weights of " + some_of(others) +
                   " are no rounding of the baseline's (SQNR of 0 dB or less): a stage or training changed "
                   "them, and what such a layer costs alone is not what it costs the model");
  }

  void measure_passing(BaselineRuns& runs, const LayerSamples& samples) {
    tell();
    std::vector<PassedLayer> layers;
    std::set<std::string> given;
    for (const std::size_t i : chosen_) {
      PassedLayer& layer = layers.emplace_back();
      layer.of_model = &model().layers()[i];
      if (const auto found = networks_.matched.baseline[i]) {
        layer.of_baseline = &baseline().layers()[*found];
        given.insert(given_by(baseline(), *layer.of_baseline));
      }
    }
    runs.measure(given);
    const std::vector<PassingValues> found =
        jobs::measure_passing(model(), baseline(), layers, input_places(model().graph(), baseline().graph()),
                              runs, samples, evaluation_.prepare, evaluation_.memory / 2);
    for (std::size_t i = 0; i < found.size(); ++i) {
      EvaluateLayer& layer = made_.layers[i];
      layer.accumulated_db = found[i].accumulated_db;
      layer.low = found[i].low;
      layer.high = found[i].high;
      layer.clipped = found[i].clipped;
      layer.channels = found[i].channels;
      layer.dead_channels = found[i].dead_channels;
    }
  }

  std::optional<double> loss_of(const Graph& network, const BaselineRuns& runs,
                                const LayerSamples& samples) const {
    const auto executable = evaluation_.prepare(network);
    const std::vector<std::size_t> places = input_places(network, baseline().graph());
    const std::vector<std::string>& wanted = baseline().graph().outputs;
    ResultLoss loss(baseline().graph());
    for (std::size_t piece = 0; piece < samples.pieces.size(); ++piece) {
      check_interrupt();
      std::vector<Tensor> inputs;
      for (const std::size_t place : places) inputs.push_back(samples.pieces[piece][place]);
      const std::vector<Tensor> made = executable->run(inputs);
      std::vector<std::optional<Tensor>> found;
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        const auto at = std::ranges::find(network.outputs, wanted[i]);
        found.emplace_back(made.at(
            at == network.outputs.end() ? i : static_cast<std::size_t>(at - network.outputs.begin())));
      }
      loss.add(runs.results(piece), found);
    }
    return loss.sqnr_db();
  }

  void give_advice(const BaselineRuns& runs, const LayerSamples& samples) {
    tell();
    made_.sqnr_db = loss_of(model().graph(), runs, samples);
    if (!made_.sqnr_db || !std::isfinite(*made_.sqnr_db)) return;
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < chosen_.size(); ++i)
      if (made_.layers[i].alone_db && networks_.pair(chosen_[i])) order.push_back(i);
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return cost_of(made_.layers[i]); });
    order.resize(std::min(order.size(), kMostTried));
    std::vector<AdvisedLayer> layers;
    for (const std::size_t i : order)
      layers.push_back({.pair = *networks_.pair(chosen_[i]),
                        .name = made_.layers[i].name,
                        .constants = made_.layers[i].constants});
    advise(
        layers, kMostAdvised, [&](const Graph& changed) { return loss_of(changed, runs, samples); },
        evaluation_.threads, made_);
  }

  const LayerEvaluation& evaluation_;
  const ComparedNetworks networks_;
  Observer& observer_;
  std::vector<std::size_t> chosen_;  ///< the model's layers that are quantized
  EvaluateLayers made_;              ///< its layers in the order of chosen_ until the end
  std::size_t steps_ = 0, done_ = 0;
};

}  // namespace

PrepareGraph prepare_on(const std::string& engine, int threads) {
  if (engine == "libtorch")
    return [threads](const Graph& graph) { return prepare_on_libtorch(graph, "cpu", threads); };
  if (engine == "runtime")
    return [threads](const Graph& graph) { return prepare_on_runtime(graph, threads); };
  return [threads](const Graph& graph) { return prepare_on_either(graph, threads); };
}

EvaluateLayers evaluate_layers(const LayerEvaluation& evaluation, bool& interrupted, Observer& observer) {
  ComparedNetworks networks;
  try {
    networks = compare_networks(evaluation);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInterrupted) throw;
    observer.note("layers of " + quote_text(evaluation.path) + " are not measured: " + error.what());
    return {};
  }
  return Measurement(evaluation, std::move(networks), observer).run(interrupted);
}

}  // namespace crumb::jobs
