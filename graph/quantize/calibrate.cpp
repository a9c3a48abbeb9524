#include "graph/quantize/calibrate.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/files/text.h"
#include "graph/choose.h"
#include "graph/quantize/statistics.h"

namespace crumb::graph {
namespace {

class Calibration {
 public:
  Calibration(const Graph& graph, QuantPlan& plan)
      : graph_(graph), plan_(plan), links_(graph), sides_(graph, graph.outputs) {
    for (std::size_t i = 0; i < plan.edges.size(); ++i) {
      if (plan.edges[i].has_own_scale()) edges_[plan.edges[i].value].push_back(i);
      statistics_.emplace_back(plan.edges[i].spec);
    }
  }

  std::set<std::string> run(const Engine& engine, const Batches& batches) {
    const auto network = engine.prepare(graph_);
    Watch watch{.show = [&](const std::string& value, const Tensor& made) { see(value, made); },
                .wanted = std::set<std::string>()};
    for (const auto& [value, those] : edges_) watch.wanted->insert(value);
    batches([&](const std::vector<Tensor>& inputs) {
      for (std::size_t i = 0; i < inputs.size(); ++i) see(graph_.inputs[i], inputs[i]);
      (void)network->run(inputs, watch);
    });
    for (const auto& [value, those] : edges_)
      std::ranges::for_each(those, [&](std::size_t edge) { finish(edge); });
    return unreached_;
  }

 private:
  void see(const std::string& value, const Tensor& made) {
    const auto found = edges_.find(value);
    if (found == edges_.end()) return;
    if (made.type() != ElementType::kFloat) {
      throw Error("value " + quote_text(value) + " is " + std::string(name_of(made.type())) +
                  ", expected float: only float32 is quantized");
    }
    const std::vector<float> values = made.to_floats();
    for (const std::size_t edge : found->second) statistics_[edge].add(values);
  }

  void finish(std::size_t index) {
    PlannedEdge& edge = plan_.edges[index];
    const EdgeStatistics& seen = statistics_[index];
    if (seen.not_finite() > 0) {
      throw Error("value " + quote_text(edge.value) + ", which " + edge.wanted_by + " takes, holds " +
                  std::to_string(seen.not_finite()) + " inf or NaN among " +
                  std::to_string(seen.count() + seen.not_finite()) +
                  " values; exclude that operator, or look at the calibration data");
    }
    if (seen.count() == 0 && is_in_branch(edge.value)) {
      unreached_.insert(edge.value);
      return;
    }
    if (seen.count() == 0) {
      throw Error("no calibration sample reached value " + quote_text(edge.value) + ", which " +
                  edge.wanted_by + " takes: it is empty");
    }
    const ScaleAndZero found = seen.fit();
    edge.scale = found.scale;
    edge.zero_point = found.zero_point;
    edge.least = seen.least();
    edge.greatest = seen.greatest();
    if (edge.scale > 0) return note_sign(edge);
    edge.scale = 1;
    plan_.notes.push_back(quote_text(edge.value) + " was 0 throughout the calibration data; its scale is 1");
  }

  bool is_in_branch(const std::string& value) const {
    const std::size_t maker = links_.producer(value);
    return maker != Links::kNone && sides_.is_on_one(maker);
  }

  void note_sign(const PlannedEdge& edge) {
    const bool cannot = !edge.spec.number->is_signed && edge.spec.zero == ZeroPoint::kNone;
    if (!cannot || edge.least >= 0) return;
    plan_.notes.push_back(quote_text(edge.value) + " goes down to " + std::to_string(edge.least) +
                          ", which " + edge.spec.to_string() + " cannot say");
  }

  const Graph& graph_;
  QuantPlan& plan_;
  const Links links_;
  const Sides sides_;
  std::set<std::string> unreached_;
  std::map<std::string, std::vector<std::size_t>> edges_;  ///< several if specs are compared
  std::vector<EdgeStatistics> statistics_;
};

/// Gives the edges of a group one scale.
class Sharing {
 public:
  explicit Sharing(QuantPlan& plan) : plan_(plan) {}

  void share() {
    std::map<std::size_t, std::vector<std::size_t>> groups;
    for (std::size_t i = 0; i < plan_.edges.size(); ++i) groups[plan_.edges[i].scale_group].push_back(i);
    for (const auto& [group, members] : groups) {
      if (members.size() > 1) share(members);
    }
  }

 private:
  void share(const std::vector<std::size_t>& members) {
    const bool shift = std::ranges::any_of(
        members, [&](std::size_t i) { return plan_.edges[i].spec.zero != ZeroPoint::kNone; });
    if (shift) return share_range(members);
    float most = 0;
    for (const std::size_t i : members) most = std::max(most, plan_.edges[i].scale);
    for (const std::size_t i : members) plan_.edges[i].scale = most;
  }

  /// Gives all edges one range: the least that covers each of theirs.
  void share_range(const std::vector<std::size_t>& members) {
    float least = 0, greatest = 0;
    for (const std::size_t i : members) {
      const PlannedEdge& edge = plan_.edges[i];
      const auto value_of = [&](int code) {
        return (static_cast<float>(code) - edge.zero_point) * edge.scale;
      };
      least = std::min(least, value_of(edge.spec.number->least_code(edge.spec.range)));
      greatest = std::max(greatest, value_of(edge.spec.number->greatest_code(edge.spec.range)));
    }
    const ScaleAndZero one = scale_for(plan_.edges[members[0]].spec, least, greatest);
    for (const std::size_t i : members) {
      plan_.edges[i].scale = one.scale;
      plan_.edges[i].zero_point = one.zero_point;
    }
  }

  QuantPlan& plan_;
};

}  // namespace

void calibrate(const Graph& graph, const Engine& engine, const Batches& batches, QuantPlan& plan) {
  if (plan.edges.empty()) return;
  leave_in_floats(plan, find_scales(graph, engine, batches, plan));
  share_scales(plan);
}

std::set<std::string> find_scales(const Graph& graph, const Engine& engine, const Batches& batches,
                                  QuantPlan& plan) {
  return Calibration(graph, plan).run(engine, batches);
}

void leave_in_floats(QuantPlan& plan, const std::set<std::string>& values) {
  if (values.empty()) return;
  std::vector<PlannedEdge> kept;
  std::map<std::size_t, std::size_t> places;  // old and new indices
  for (std::size_t i = 0; i < plan.edges.size(); ++i) {
    PlannedEdge& edge = plan.edges[i];
    if (values.contains(edge.value)) {
      plan.notes.push_back(quote_text(edge.value) + ", which " + edge.wanted_by +
                           " takes, keeps floats: no calibration sample took the branch in which it lies");
      continue;
    }
    places[i] = kept.size();
    kept.push_back(std::move(edge));
  }
  plan.edges = std::move(kept);
  std::erase_if(plan.biases, [&](const PlannedBias& bias) { return !places.contains(bias.edge); });
  for (PlannedBias& bias : plan.biases) bias.edge = places.at(bias.edge);
  for (OptionalQuantizers& optional : plan.optional)
    std::erase_if(optional.edges, [&](const auto& edge) { return values.contains(edge.first); });
  std::erase_if(plan.optional, [](const OptionalQuantizers& optional) { return optional.edges.empty(); });
}

void share_scales(QuantPlan& plan) {
  Sharing(plan).share();
  derive_scales(plan);
}

}  // namespace crumb::graph
