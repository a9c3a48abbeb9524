#include "quant/budget/assignment.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace crumb {
namespace {

constexpr double kRounding = 1e-12;  // share of a loss below which nothing is searched for
constexpr double kWideGap = 1e-3;    // share of a loss between bound and best; above it the item is split
constexpr int kMostSplits = 3;       // items that are split, one inside the other
constexpr uint32_t kNoNode = UINT32_MAX;

/// An option that no other beats in both cost and loss.
struct Candidate {
  uint32_t option;
  int64_t cost;
  double loss;
};
using CandidateList = std::vector<Candidate>;  // the candidates of an item: costs grow, losses fall

CandidateList undominated(const std::vector<AssignmentOption>& options) {
  CandidateList all;
  for (uint32_t i = 0; i < options.size(); ++i)
    all.push_back({i, static_cast<int64_t>(options[i].cost), options[i].loss});
  std::ranges::sort(all, [](const Candidate& a, const Candidate& b) {
    return std::tie(a.cost, a.loss, a.option) < std::tie(b.cost, b.loss, b.option);
  });
  CandidateList kept;
  for (const Candidate& candidate : all) {
    if (kept.empty() || candidate.loss < kept.back().loss) kept.push_back(candidate);
  }
  return kept;
}

/// Returns the indices of the candidates on the lower convex hull of `candidates`.
std::vector<uint32_t> hull_of(const CandidateList& candidates) {
  std::vector<uint32_t> hull;
  const auto gain = [&](uint32_t from, uint32_t to) {  // by how much the loss falls, a unit of cost
    return (candidates[from].loss - candidates[to].loss) /
           static_cast<double>(candidates[to].cost - candidates[from].cost);
  };
  for (uint32_t i = 0; i < candidates.size(); ++i) {
    while (hull.size() >= 2 && gain(hull.back(), i) >= gain(hull[hull.size() - 2], hull.back()))
      hull.pop_back();
    hull.push_back(i);
  }
  return hull;
}

/// What the linear relaxation gives.
struct Relaxation {
  std::vector<uint32_t> base;    ///< the best candidates at the price
  std::vector<uint32_t> greedy;  ///< base, with improvements that still fit
  int64_t slack = 0;             ///< the part of the budget that base leaves
  double base_loss = 0;
  double price = 0;                ///< loss that a unit of cost is worth
  double bound = 0;                ///< no choice within the budget loses less
  std::optional<size_t> breaking;  ///< the item that does not fit as a whole; nothing where all fit
};

class AssignmentSearch {
 public:
  AssignmentSearch(std::span<const std::vector<AssignmentOption>> items, const AssignmentLimits& limits)
      : limits_(limits) {
    for (const auto& options : items) items_.push_back(undominated(options));
  }

  std::optional<Assignment> run(int64_t budget) {
    int64_t least = 0;
    for (const CandidateList& item : items_) least += item.front().cost;
    if (least > budget) return std::nullopt;
    bound_ = std::numeric_limits<double>::infinity();
    look(budget, kMostSplits);
    Assignment found;
    for (size_t i = 0; i < items_.size(); ++i) {
      found.choice.push_back(best_[i].option);
      found.cost += static_cast<uint64_t>(best_[i].cost);
      found.loss += best_[i].loss;
    }
    const double tolerance = found.loss * kRounding;
    found.bound = bound_ >= found.loss - tolerance ? found.loss : std::max(bound_, 0.0);
    return found;
  }

 private:
  /// Searches items_ as they are; best_ and bound_ hold the results of all calls together.
  void look(int64_t budget, int splits) {
    int64_t least = 0;
    for (const CandidateList& item : items_) least += item.front().cost;
    if (least > budget) return;
    const Relaxation relaxed = relax(budget);
    offer(relaxed.base);
    offer(relaxed.greedy);
    if (!relaxed.breaking || hopeless(relaxed.bound)) return;
    const std::vector<Candidate> whole = items_[*relaxed.breaking];
    if (splits == 0 || whole.size() < 2 || best_loss_ - relaxed.bound <= kWideGap * best_loss_) {
      combine(relaxed);
      return;
    }
    for (const Candidate& candidate : whole) {
      items_[*relaxed.breaking] = {candidate};
      look(budget, splits - 1);
    }
    items_[*relaxed.breaking] = whole;
  }

  bool hopeless(double bound) const { return bound >= best_loss_ - best_loss_ * kRounding; }

  Relaxation relax(int64_t budget) const {
    struct Step {
      double gain;
      size_t item;
      uint32_t from, to;
    };
    std::vector<Step> steps;
    Relaxation relaxed;
    relaxed.base.assign(items_.size(), 0);
    relaxed.slack = budget;
    for (size_t i = 0; i < items_.size(); ++i) {
      const CandidateList& item = items_[i];
      relaxed.slack -= item.front().cost;
      const std::vector<uint32_t> hull = hull_of(item);
      for (size_t k = 1; k < hull.size(); ++k) {
        const Candidate &from = item[hull[k - 1]], &to = item[hull[k]];
        steps.push_back(
            {(from.loss - to.loss) / static_cast<double>(to.cost - from.cost), i, hull[k - 1], hull[k]});
      }
    }
    std::ranges::stable_sort(steps, [](const Step& a, const Step& b) { return a.gain > b.gain; });
    relaxed.greedy = relaxed.base;
    int64_t left = relaxed.slack;
    for (const Step& step : steps) {
      const int64_t cost = items_[step.item][step.to].cost - items_[step.item][step.from].cost;
      if (cost <= left && relaxed.greedy[step.item] == step.from) {
        relaxed.greedy[step.item] = step.to;
        left -= cost;
        if (!relaxed.breaking) {
          relaxed.base[step.item] = step.to;
          relaxed.slack = left;
        }
      } else if (!relaxed.breaking) {
        relaxed.breaking = step.item;
        relaxed.price = step.gain;
      }
    }
    for (size_t i = 0; i < items_.size(); ++i) relaxed.base_loss += items_[i][relaxed.base[i]].loss;
    relaxed.bound = relaxed.base_loss - relaxed.price * static_cast<double>(relaxed.slack);
    return relaxed;
  }

  /// Keeps a choice of candidates within the budget where it is the best so far.
  void offer(const std::vector<uint32_t>& choice) {
    double loss = 0;
    for (size_t i = 0; i < items_.size(); ++i) loss += items_[i][choice[i]].loss;
    if (!best_.empty() && loss >= best_loss_) return;
    best_loss_ = loss;
    best_.clear();
    for (size_t i = 0; i < items_.size(); ++i) best_.push_back(items_[i][choice[i]]);
  }

  /// A combination: how it differs from the base, over the items that were looked at.
  struct State {
    int64_t cost;
    double loss;
    double regret;  ///< loss + price * cost; by so much the bound rises
    uint32_t node;
  };
  /// The last change of a state, and the node before it.
  struct Node {
    uint32_t before;
    uint32_t item;
    uint32_t candidate;
  };
  /// A candidate other than the base's, as a change to the base.
  struct Change {
    int64_t cost;
    double loss;
    double regret;
    uint32_t candidate;
  };
  struct Turn {
    size_t item;
    std::vector<Change> changes;  ///< in ascending order of regret
  };

  std::vector<Turn> turns_of(const Relaxation& relaxed) const {
    std::vector<Turn> turns;
    for (size_t i = 0; i < items_.size(); ++i) {
      const Candidate& base = items_[i][relaxed.base[i]];
      Turn turn{i, {}};
      for (uint32_t candidate = 0; candidate < items_[i].size(); ++candidate) {
        if (candidate == relaxed.base[i]) continue;
        Change change{items_[i][candidate].cost - base.cost, items_[i][candidate].loss - base.loss, 0,
                      candidate};
        change.regret = std::max(0.0, change.loss + relaxed.price * static_cast<double>(change.cost));
        if (!hopeless(relaxed.bound + change.regret)) turn.changes.push_back(change);
      }
      std::ranges::stable_sort(turn.changes, {}, &Change::regret);
      if (!turn.changes.empty()) turns.push_back(std::move(turn));
    }
    std::ranges::stable_sort(turns, {}, [](const Turn& turn) { return turn.changes.front().regret; });
    return turns;
  }

  /// By turn: what that one and those behind it can change the cost by.
  struct CostReach {
    std::vector<int64_t> least, most;
  };

  static CostReach cost_reach(const std::vector<Turn>& turns) {
    std::vector<int64_t> least(turns.size() + 1, 0), most(turns.size() + 1, 0);
    for (size_t t = turns.size(); t-- > 0;) {
      int64_t low = 0, high = 0;
      for (const Change& change : turns[t].changes) {
        low = std::min(low, change.cost);
        high = std::max(high, change.cost);
      }
      least[t] = least[t + 1] + low;
      most[t] = most[t + 1] + high;
    }
    return {std::move(least), std::move(most)};
  }

  /// The choice that changes the base by the nodes that lead to `last`.
  void take(const Relaxation& relaxed, const std::vector<Node>& nodes, uint32_t last) {
    std::vector<uint32_t> places = relaxed.base;
    for (uint32_t node = last; node != kNoNode; node = nodes[node].before)
      places[nodes[node].item] = nodes[node].candidate;
    best_.clear();
    for (size_t i = 0; i < items_.size(); ++i) best_.push_back(items_[i][places[i]]);
  }

  void combine(const Relaxation& relaxed) {
    const std::vector<Turn> turns = turns_of(relaxed);
    const CostReach reach = cost_reach(turns);
    std::vector<Node> nodes;
    std::vector<State> states{{0, 0, 0, kNoNode}}, made;
    double dropped = std::numeric_limits<double>::infinity();  // the least regret of what was left out
    std::optional<State> best;
    for (size_t t = 0; t < turns.size(); ++t) {
      made.clear();
      const auto keep = [&](const State& state) {
        if (state.cost + reach.least[t + 1] > relaxed.slack) return false;
        const int64_t unused = relaxed.slack - state.cost - reach.most[t + 1];
        const double waste = unused > 0 ? relaxed.price * static_cast<double>(unused) : 0;
        return !hopeless(relaxed.bound + state.regret + waste);
      };
      bool cut = false;
      for (const State& state : states) {
        if (keep(state)) made.push_back(state);
        for (const Change& change : turns[t].changes) {
          State next{state.cost + change.cost, state.loss + change.loss, state.regret + change.regret,
                     state.node};
          if (hopeless(relaxed.bound + next.regret)) break;
          if (!keep(next)) continue;
          if (looked_at_ >= limits_.all || nodes.size() >= kNoNode - 1) {
            dropped = std::min(dropped, next.regret);
            cut = true;
            continue;
          }
          ++looked_at_;
          next.node = static_cast<uint32_t>(nodes.size());
          nodes.push_back({state.node, static_cast<uint32_t>(turns[t].item), change.candidate});
          made.push_back(next);
          if (next.cost <= relaxed.slack && relaxed.base_loss + next.loss < best_loss_) {
            best_loss_ = relaxed.base_loss + next.loss;
            best = next;
          }
        }
      }
      thin(made, dropped);
      // Nodes of dropped states are not needed, nor nodes before them that no other state uses.
      if (nodes.size() > 8 * limits_.width) sweep(nodes, made, best);
      std::swap(states, made);
      if (cut) {
        for (const State& state : states) dropped = std::min(dropped, state.regret);
        break;
      }
    }
    if (best) take(relaxed, nodes, best->node);
    if (!hopeless(relaxed.bound + dropped)) bound_ = std::min(bound_, relaxed.bound + dropped);
  }

  /// Drops combinations that another beats in cost and loss, and those of largest regret beyond the width.
  void thin(std::vector<State>& states, double& dropped) const {
    std::ranges::sort(states, [](const State& a, const State& b) {
      return std::tie(a.cost, a.loss, a.node) < std::tie(b.cost, b.loss, b.node);
    });
    size_t kept = 0;
    for (const State& state : states) {
      if (kept == 0 || state.loss < states[kept - 1].loss) states[kept++] = state;
    }
    states.resize(kept);
    if (states.size() <= limits_.width) return;
    std::ranges::sort(states, [](const State& a, const State& b) {
      return std::tie(a.regret, a.cost, a.node) < std::tie(b.regret, b.cost, b.node);
    });
    dropped = std::min(dropped, states[limits_.width].regret);
    states.resize(limits_.width);
  }

  static void sweep(std::vector<Node>& nodes, std::vector<State>& states, std::optional<State>& best) {
    std::vector<uint32_t> moved_to(nodes.size(), kNoNode);
    const auto mark = [&](uint32_t node) {
      for (; node != kNoNode && moved_to[node] == kNoNode; node = nodes[node].before) moved_to[node] = 0;
    };
    for (const State& state : states) mark(state.node);
    if (best) mark(best->node);
    uint32_t kept = 0;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (moved_to[i] == kNoNode) continue;
      Node node = nodes[i];
      if (node.before != kNoNode) node.before = moved_to[node.before];
      moved_to[i] = kept;
      nodes[kept++] = node;
    }
    nodes.resize(kept);
    for (State& state : states)
      if (state.node != kNoNode) state.node = moved_to[state.node];
    if (best) best->node = moved_to[best->node];
  }

  const AssignmentLimits limits_;
  std::vector<CandidateList> items_;
  std::vector<Candidate> best_;  ///< the best choice that is known; empty before the first
  double best_loss_ = std::numeric_limits<double>::infinity();
  double bound_ = 0;  ///< the least bound of what was left out
  size_t looked_at_ = 0;
};

}  // namespace

std::optional<Assignment> assign(std::span<const std::vector<AssignmentOption>> items, uint64_t budget,
                                 const AssignmentLimits& limits) {
  constexpr uint64_t kMost = uint64_t{1} << 62;
  return AssignmentSearch(items, limits).run(static_cast<int64_t>(std::min(budget, kMost)));
}

}  // namespace crumb
