#include "graph/quantize/choose_by_samples.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "base/files/text.h"
#include "graph/quantize/edge_costs.h"
#include "graph/quantize/statistics.h"
#include "graph/recurrent_cell.h"
#include "quant/code_grid.h"

namespace crumb::graph {
namespace {

constexpr double kLittle = 0.2589;  // added noise: 1 dB, 10^(1 / 10) - 1
constexpr double kEnough = 1e-4;    // noise over signal at 40 dB
constexpr double kOfInputs = 1e-3;  // at 30 dB
constexpr double kPoor = 1e-2;      // at 20 dB
constexpr std::size_t kFewOf = 4;   // a quarter
constexpr float kFarApart = 2;      // scales
constexpr double kWins = 0.7943;    // 10^(-1 / 10)
constexpr std::int64_t kMostSamples = 8;

/// How many samples batches hold, and the first of them.
struct Samples {
  std::vector<Tensor> first;
  std::int64_t count = 0;
};

Samples look_at(const Graph& graph, const Batches& batches, std::int64_t most, const BatchAxes& axes) {
  Samples samples;
  batches([&](const std::vector<Tensor>& inputs) {
    if (samples.first.empty()) samples.first = first_samples(graph, inputs, most, axes);
    const bool is_one = inputs.empty() || samples.first.front().shape() == inputs.front().shape();
    const std::int64_t axis = graph.inputs.empty() ? 0 : batch_axis_of(axes, graph.inputs[0]);
    const bool is_counted = !is_one && inputs.front().rank() > axis;
    samples.count += is_counted ? inputs.front().shape()[static_cast<std::size_t>(axis)] : 1;
  });
  return samples;
}

/// Returns the squared error of a quantizer, summed over values.
double squared_error(const PlannedEdge& edge, std::span<const float> values) {
  const float shift = shift_of(edge.spec, edge.zero_point);
  const auto least = static_cast<float>(edge.spec.number->least_code(edge.spec.range));
  const auto greatest = static_cast<float>(edge.spec.number->greatest_code(edge.spec.range));
  double sum = 0;
  for (const float x : values) {
    const float code = std::clamp(round_to_integer(x / edge.scale + shift, edge.spec.round), least, greatest);
    const double error = static_cast<double>(x) - static_cast<double>((code - shift) * edge.scale);
    sum += error * error;
  }
  return sum;
}

/// Returns the twin with a zero point of an edge with an unsigned spec.
PlannedEdge with_zero_point(PlannedEdge edge) {
  if (edge.is_signed_twin) edge.spec.number = find_number_format("u" + std::string(edge.spec.number->name));
  edge.spec.range = edge.spec.number->default_range();
  edge.spec.zero = ZeroPoint::kInteger;
  edge.is_signed_twin = false;
  return edge;
}

/// Measures what edges cost alone, for as long as calibrating and comparing take.
class Measuring {
 public:
  /// `samples`: how many batches hold; each run takes `at_once`.
  Measuring(const EdgeCosts& costs, std::int64_t samples, std::int64_t at_once)
      : costs_(costs),
        left_(std::max<double>(kRunsOfSamples * static_cast<double>(samples) /
                                   static_cast<double>(std::max<std::int64_t>(at_once, 1)),
                               kLeastRuns)) {}

  /// Sets the cost if it is known, or can be measured in the remaining time.
  void measure(PlannedEdge& edge) {
    if (edge.truncation) return;
    const Key key{edge.value, edge.scale, edge.zero_point, edge.consumers};
    if (const auto known = known_.find(key); known != known_.end()) {
      edge.cost = known->second;
      return;
    }
    left_ -= costs_.share_of({edge});
    if (left_ < 0) return;
    edge.cost = known_[key] = costs_.of({edge});
  }

  void measure(std::vector<PlannedEdge>& edges, const std::map<std::string, double>& lost) {
    std::vector<std::size_t> order(edges.size());
    std::iota(order.begin(), order.end(), 0);
    const auto loss = [&](std::size_t i) {
      const auto found = lost.find(edges[i].value);
      return found == lost.end() ? 0.0 : found->second;
    };
    std::ranges::stable_sort(order, std::greater(), loss);
    for (const std::size_t i : order) measure(edges[i]);
  }

 private:
  using Key = std::tuple<std::string, float, float, std::set<std::string>>;
  static constexpr double kRunsOfSamples = 3;  // calibrating runs each sample once, comparing twice
  static constexpr double kLeastRuns = 32;

  const EdgeCosts& costs_;
  double left_;
  std::map<Key, double> known_;
};

/// Returns a quantizer's squared error over the values' squares; 0 for formats other than integers.
double lost_of(const PlannedEdge& edge, const Tensor& made) {
  if (!edge.has_own_scale() || edge.spec.number->grid != Grid::kInteger || !(edge.scale > 0)) return 0;
  const std::vector<float> values = made.to_floats();
  const double squares = std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
  return squares > 0 ? squared_error(edge, values) / squares : 0;
}

class Chooser {
 public:
  Chooser(const Graph& graph, const Recipe& recipe, PlanOptions& options, const Engine& engine,
          const Batches& batches, const BatchAxes& axes)
      : graph_(graph),
        recipe_(recipe),
        options_(options),
        engine_(engine),
        batches_(batches),
        axes_(axes),
        links_(graph) {}

  QuantPlan run() {
    QuantPlan plan = plan_quantizers(graph_, recipe_, options_);
    if (plan.edges.empty()) return plan;
    find_all_scales(plan);
    leave_in_floats(plan, unreached_);
    if (plan.edges.empty()) return plan;
    Samples samples = look_at(graph_, batches_, kMostSamples, axes_);
    const auto runs = static_cast<std::int64_t>(plan.edges.size() + plan.optional.size());
    const std::int64_t at_once =
        std::clamp<std::int64_t>(3 * samples.count / std::max<std::int64_t>(runs, 1), 1, kMostSamples);
    samples.first = first_samples(graph_, samples.first, at_once, axes_);
    const auto see = [&](const std::string& value, const Tensor& made) {
      if (fits_.contains({value, true})) values_.try_emplace(value, made.to_floats());
      if (const auto fit = fits_.find({value, false}); fit != fits_.end())
        lost_[value] = lost_of(fit->second, made);
    };
    const EdgeCosts costs(graph_, engine_, samples.first, see);
    Measuring measuring(costs, samples.count, at_once);
    choose_zero_points(plan);
    keep_apart();
    plan = planned();
    measuring.measure(plan.edges, lost_);
    choose_places(costs, plan);
    plan = planned();
    measuring.measure(plan.edges, lost_);
    note_places(plan);
    return plan;
  }

 private:
  using Key = std::pair<std::string, bool>;  // a value, and whether it has a zero point

  /// Finds the scale of every edge alone, and of its twin with a zero point if it may have one.
  void find_all_scales(const QuantPlan& plan) {
    QuantPlan probe = plan;
    const std::size_t count = plan.edges.size();
    for (std::size_t i = 0; i < count; ++i)
      if (may_have_zero_point(plan, plan.edges[i])) probe.edges.push_back(with_zero_point(plan.edges[i]));
    const std::size_t notes = probe.notes.size();
    unreached_.merge(find_scales(graph_, engine_, batches_, probe));
    for (const PlannedEdge& edge : probe.edges) fits_[key_of(edge)] = edge;
    found_notes_.assign(probe.notes.begin() + static_cast<std::ptrdiff_t>(notes), probe.notes.end());
    found_notes_.erase(std::unique(found_notes_.begin(), found_notes_.end()), found_notes_.end());
  }

  static Key key_of(const PlannedEdge& edge) { return {edge.value, edge.spec.zero != ZeroPoint::kNone}; }

  bool is_of_cell(const PlannedEdge& edge) const {
    const std::size_t producer = links_.producer(edge.value);
    return producer != Links::kNone && cell_part(graph_.nodes[producer]).has_value();
  }

  /// Whether the spec is unsigned integers without a zero point and nothing truncates the values.
  bool may_have_zero_point(const QuantPlan& plan, const PlannedEdge& edge) const {
    const bool is_plain = edge.spec.number->grid == Grid::kInteger && edge.spec.zero == ZeroPoint::kNone &&
                          edge.has_own_scale() && (edge.is_signed_twin || !edge.spec.number->is_signed);
    if (!is_plain || is_of_cell(edge) || edge.spec.number->bits < 2 || edge.spec.scale == ScaleFormat::kE8M0)
      return false;
    return std::ranges::none_of(plan.edges,
                                [](const PlannedEdge& other) { return other.truncation.has_value(); });
  }

  /// Returns the plan of the choices so far, calibrated.
  QuantPlan planned() const {
    QuantPlan plan = plan_quantizers(graph_, recipe_, options_);
    leave_in_floats(plan, unreached_);
    for (PlannedEdge& edge : plan.edges) {
      const auto found = fits_.find(key_of(edge));
      if (found == fits_.end()) continue;
      edge.scale = found->second.scale;
      edge.zero_point = found->second.zero_point;
      edge.least = found->second.least;
      edge.greatest = found->second.greatest;
    }
    share_scales(plan);
    for (const std::string& note : found_notes_)
      if (std::ranges::any_of(
              plan.edges, [&](const PlannedEdge& edge) { return note.starts_with(quote_text(edge.value)); }))
        plan.notes.push_back(note);
    return plan;
  }

  static std::map<std::size_t, std::vector<const PlannedEdge*>> groups_of(const QuantPlan& plan) {
    std::map<std::size_t, std::vector<const PlannedEdge*>> groups;
    for (const PlannedEdge& edge : plan.edges) groups[edge.scale_group].push_back(&edge);
    return groups;
  }

  void choose_zero_points(const QuantPlan& plan) {
    for (const auto& [group, members] : groups_of(plan)) {
      const bool may = std::ranges::all_of(
          members, [&](const PlannedEdge* edge) { return values_.contains(edge->value); });
      if (!may || std::ranges::none_of(members, &PlannedEdge::is_signed_twin)) continue;
      QuantPlan without, with;
      for (const PlannedEdge* edge : members) {
        without.edges.push_back(fits_.at({edge->value, false}));
        with.edges.push_back(fits_.at({edge->value, true}));
      }
      for (QuantPlan* both : {&without, &with}) {
        for (PlannedEdge& edge : both->edges) edge.scale_group = 0;
        share_scales(*both);
      }
      if (error_of(with) > kWins * error_of(without)) continue;
      for (const PlannedEdge* edge : members) options_.choices.with_zero_point.insert(edge->value);
    }
  }

  double error_of(const QuantPlan& group) const {
    return std::accumulate(group.edges.begin(), group.edges.end(), 0.0,
                           [&](double sum, const PlannedEdge& edge) {
                             return sum + squared_error(edge, values_.at(edge.value));
                           });
  }

  /// Quantizes concatenations behind if their scale is far from the own scale of a value with other
  /// consumers.
  void keep_apart() {
    const QuantPlan shared = planned();
    for (const Node& node : graph_.nodes) {
      if (!node.is("Concat")) continue;
      const bool forces = std::ranges::any_of(shared.edges, [&](const PlannedEdge& edge) {
        const auto own = fits_.find(key_of(edge));
        return edge.takers.contains(node.outputs[0]) && edge.takers.size() > 1 && own != fits_.end() &&
               own->second.has_own_scale() && edge.scale > kFarApart * own->second.scale;
      });
      if (forces) options_.choices.in_floats.insert(node.outputs[0]);
    }
    if (options_.choices.in_floats.empty()) return;
    QuantPlan again = plan_quantizers(graph_, recipe_, options_);
    if (std::ranges::any_of(again.edges,
                            [&](const PlannedEdge& edge) { return !fits_.contains(key_of(edge)); }))
      find_all_scales(again);
  }

  /// A quantizer that the network can do without.
  struct Choice {
    std::string value;  ///< of OptionalQuantizers; or an edge, for consumers that take it without need
    enum class Kind { kInput, kNode, kOthers } kind = Kind::kNode;
    std::vector<PlannedEdge> edges;
    double cost = 0;
  };

  void choose_places(const EdgeCosts& costs, const QuantPlan& plan) {
    std::vector<Choice> choices = choices_of(plan);
    for (Choice& choice : choices) choice.cost = costs.of(choice.edges);
    std::ranges::stable_sort(choices, {}, &Choice::cost);
    const SampledChoices before = options_.choices;
    for (const Choice& choice : choices) refuse(choice);
    double noise = noise_of_needed(costs, plan);
    const std::set<std::string> sensitive = std::exchange(options_.choices, before).values_in_floats;
    for (const std::string& value : sensitive)
      if (std::ranges::find(graph_.inputs, value) == graph_.inputs.end())
        options_.choices.values_in_floats.insert(value);
    for (const Choice& choice : choices) {
      if (choice.kind != Choice::Kind::kInput) continue;
      const bool is_narrow = std::ranges::any_of(
          choice.edges, [](const PlannedEdge& edge) { return edge.spec.number->bits < 8; });
      if (!is_narrow && choice.cost > std::max(noise, kOfInputs)) {  // fewer bits were requested
        refuse(choice);
      } else {
        noise += choice.cost;
      }
    }
    double spent = 0;
    for (const Choice& choice : choices) {
      if (choice.kind == Choice::Kind::kInput) continue;
      const bool is_little = spent + choice.cost <= kLittle * noise || noise + spent + choice.cost <= kEnough;
      if (is_little) spent += choice.cost;
      if (!is_little) refuse(choice);
    }
  }

  /// Returns the noise of all needed quantizers together. Where that is too much, and one value explains a
  /// good part of it, that value stays float.
  double noise_of_needed(const EdgeCosts& costs, const QuantPlan& measured) {
    QuantPlan plan = planned();
    double noise = costs.of(plan.edges);
    std::map<std::string, double> alone;
    for (const PlannedEdge& edge : measured.edges) alone[edge.value] = edge.cost.value_or(0);
    std::size_t left = std::max<std::size_t>(plan.edges.size() / kFewOf, 1);
    while (noise > kPoor && left-- > 0) {
      const PlannedEdge* worst = nullptr;
      for (const PlannedEdge& edge : plan.edges) {
        const bool may = !edge.is_by_rule && edge.spec.number->bits >= 8 && !is_of_cell(edge);
        if (may && (!worst || alone[edge.value] > alone[worst->value])) worst = &edge;
      }
      if (!worst || alone[worst->value] < noise / kFewOf) break;
      options_.choices.values_in_floats.insert(worst->value);
      plan = planned();
      noise = costs.of(plan.edges);
    }
    return noise;
  }

  void note_places(QuantPlan& plan) const {
    for (const std::string& value : options_.choices.values_in_floats)
      plan.notes.push_back(quote_text(value) +
                           " stays in floats: in 8 bits it would cost too much of the outputs (" +
                           "a rule for it, or --inputs, says otherwise)");
  }

  void refuse(const Choice& choice) {
    SampledChoices& choices = options_.choices;
    if (choice.kind == Choice::Kind::kInput) choices.values_in_floats.insert(choice.value);
    if (choice.kind == Choice::Kind::kNode) choices.in_floats.insert(choice.value);
    if (choice.kind == Choice::Kind::kOthers) choices.for_takers_alone.insert(choice.value);
  }

  std::vector<Choice> choices_of(const QuantPlan& plan) const {
    std::map<std::string, const PlannedEdge*> edges;
    for (const PlannedEdge& edge : plan.edges) edges[edge.value] = &edge;
    std::vector<Choice> choices;
    for (const OptionalQuantizers& optional : plan.optional) {
      Choice choice{.value = optional.value,
                    .kind = optional.node.empty() ? Choice::Kind::kInput : Choice::Kind::kNode,
                    .edges = {}};
      for (const auto& [value, takers] : optional.edges) {
        PlannedEdge edge = *edges.at(value);
        edge.consumers = takers;
        choice.edges.push_back(std::move(edge));
      }
      choices.push_back(std::move(choice));
    }
    for (const PlannedEdge& edge : plan.edges) {
      if (edge.takers.empty() || !edge.consumers.empty()) continue;
      Choice choice{.value = edge.value, .kind = Choice::Kind::kOthers, .edges = {edge}};
      for (const std::size_t node : links_.consumers(edge.value)) {
        const std::string& output = graph_.nodes[node].outputs.at(0);
        if (edge.is_taken_by(graph_.nodes[node]) && !edge.takers.contains(output))
          choice.edges[0].consumers.insert(output);
      }
      if (!choice.edges[0].consumers.empty()) choices.push_back(std::move(choice));
    }
    return choices;
  }

  const Graph& graph_;
  const Recipe& recipe_;
  PlanOptions& options_;
  const Engine& engine_;
  const Batches& batches_;
  const BatchAxes& axes_;  ///< of samples
  const Links links_;
  std::map<Key, PlannedEdge> fits_;
  std::vector<std::string> found_notes_;
  std::set<std::string> unreached_;     ///< values in branches that no sample took
  std::map<std::string, double> lost_;  ///< lost_of() the quantizers of values
  std::map<std::string, std::vector<float>>
      values_;  ///< on the first samples, of edges that may have a zero point
};

}  // namespace

QuantPlan choose_by_samples(const Graph& graph, const Recipe& recipe, PlanOptions& options,
                            const Engine& engine, const Batches& batches, const BatchAxes& axes) {
  if (options.placement == Placement::kEverywhere) {
    QuantPlan plan = plan_quantizers(graph, recipe, options);
    calibrate(graph, engine, batches, plan);
    return plan;
  }
  return Chooser(graph, recipe, options, engine, batches, axes).run();
}

void measure_costs(const Graph& graph, const Engine& engine, const Batches& batches, QuantPlan& plan,
                   const BatchAxes& axes) {
  const auto is_known = [](const PlannedEdge& edge) { return edge.cost || edge.truncation; };
  if (std::ranges::all_of(plan.edges, is_known)) return;
  const Samples samples = look_at(graph, batches, 1, axes);
  std::map<std::string, double> lost;
  std::map<std::string, const PlannedEdge*> edges;
  for (const PlannedEdge& edge : plan.edges) edges[edge.value] = &edge;
  const auto see = [&](const std::string& value, const Tensor& made) {
    if (const auto found = edges.find(value); found != edges.end())
      lost[value] = lost_of(*found->second, made);
  };
  const EdgeCosts costs(graph, engine, samples.first, see);
  Measuring(costs, samples.count, 1).measure(plan.edges, lost);
}

}  // namespace crumb::graph
