#include "analysis/draw/layout.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace crumb::analysis {
namespace {

constexpr double kBetween = 24, kBetweenLayers = 26, kThin = 6;
constexpr int kSweeps = 12, kMoves = 40;
constexpr std::size_t kMostBends = 200000;

/// An item, or the point where an edge crosses a layer.
struct Knot {
  double width = 0, height = 0, x = 0, weight = 1;  // x: its middle
  std::size_t layer = 0, order = 0;
  std::vector<std::size_t> above, below;
};

class LayeredLayout {
 public:
  LayeredLayout(const std::vector<LayoutItem>& items, const std::vector<LayoutEdge>& edges)
      : items_(items), edges_(edges), knots_(items.size()), chains_(edges.size()) {}

  Layout run() {
    for (std::size_t i = 0; i < items_.size(); ++i) {
      knots_[i].width = items_[i].width;
      knots_[i].height = items_[i].height;
    }
    assign_layers();
    add_bends();
    fill_layers();
    order_layers();
    place();
    return finished();
  }

 private:
  void assign_layers() {
    std::vector<std::vector<std::size_t>> next(items_.size());
    std::vector<bool> has_source(items_.size(), false);
    for (const LayoutEdge& edge : edges_) {
      next[edge.from].push_back(edge.to);
      has_source[edge.to] = true;
    }
    for (std::size_t i = 0; i < items_.size(); ++i) {
      for (const std::size_t to : next[i]) knots_[to].layer = std::max(knots_[to].layer, knots_[i].layer + 1);
    }
    // What has no source moves down to those who use it.
    for (std::size_t i = items_.size(); i-- > 0;) {
      if (has_source[i] || next[i].empty()) continue;
      std::size_t least = ~std::size_t{0};
      for (const std::size_t to : next[i]) least = std::min(least, knots_[to].layer);
      knots_[i].layer = least - 1;
    }
  }

  /// Lines from one item share their way down: each goes on from the last bend above its end.
  void add_bends() {
    std::vector<std::size_t> lowest(items_.size(), 0);
    for (const LayoutEdge& edge : edges_)
      lowest[edge.from] = std::max(lowest[edge.from], knots_[edge.to].layer);
    std::size_t needed = 0;
    for (std::size_t i = 0; i < items_.size(); ++i)
      needed += lowest[i] > 0 ? lowest[i] - knots_[i].layer - 1 : 0;
    const bool bends = needed <= kMostBends;
    std::vector<std::vector<std::size_t>> ways(items_.size());
    for (std::size_t i = 0; i < edges_.size(); ++i) {
      std::vector<std::size_t>& way = ways[edges_[i].from];
      if (way.empty()) way.push_back(edges_[i].from);
      const std::size_t first = knots_[edges_[i].from].layer, last = knots_[edges_[i].to].layer;
      while (bends && first + way.size() < last) {
        knots_.push_back({.width = kThin, .layer = first + way.size()});
        connect(way.back(), knots_.size() - 1);
        way.push_back(knots_.size() - 1);
      }
      const std::size_t used = bends ? last - first : 1;
      chains_[i].assign(way.begin(), way.begin() + static_cast<std::ptrdiff_t>(used));
      if (bends || first + 1 == last) connect(chains_[i].back(), edges_[i].to);
      chains_[i].push_back(edges_[i].to);
    }
  }

  void connect(std::size_t above, std::size_t below) {
    knots_[above].below.push_back(below);
    knots_[below].above.push_back(above);
  }

  void fill_layers() {
    std::size_t count = 0;
    for (const Knot& knot : knots_) count = std::max(count, knot.layer + 1);
    layers_.resize(count);
    for (std::size_t i = 0; i < knots_.size(); ++i) layers_[knots_[i].layer].push_back(i);
    number();
  }

  void number() {
    for (const auto& layer : layers_) {
      for (std::size_t i = 0; i < layer.size(); ++i) knots_[layer[i]].order = i;
    }
  }

  /// How often lines between this layer and the one below cross.
  double crossings(const std::vector<std::size_t>& layer) const {
    std::vector<std::size_t> ends;
    std::size_t most = 0;
    for (const std::size_t i : layer) {
      std::vector<std::size_t> own;
      for (const std::size_t to : knots_[i].below) own.push_back(knots_[to].order);
      std::ranges::sort(own);
      ends.insert(ends.end(), own.begin(), own.end());
      if (!own.empty()) most = std::max(most, own.back());
    }
    // Pairs out of order, counted with a tree of sums.
    std::vector<double> tree(most + 2, 0);
    double crossed = 0, before = 0;
    for (const std::size_t end : ends) {
      double not_above = 0;
      for (std::size_t k = end + 1; k > 0; k &= k - 1) not_above += tree[k];
      crossed += before - not_above;
      for (std::size_t k = end + 1; k < tree.size(); k += k & (~k + 1)) tree[k] += 1;
      before += 1;
    }
    return crossed;
  }

  double all_crossings() const {
    return std::accumulate(layers_.begin(), layers_.end(), 0.0,
                           [&](double sum, const auto& layer) { return sum + crossings(layer); });
  }

  void sort_layer(std::size_t index, bool by_above) {
    std::vector<std::size_t>& layer = layers_[index];
    std::vector<double> middle(layer.size());
    for (std::size_t i = 0; i < layer.size(); ++i) {
      const auto& others = by_above ? knots_[layer[i]].above : knots_[layer[i]].below;
      double sum = 0;
      for (const std::size_t other : others) sum += static_cast<double>(knots_[other].order);
      middle[i] = others.empty() ? static_cast<double>(i) : sum / static_cast<double>(others.size());
    }
    std::vector<std::size_t> by(layer.size());
    std::iota(by.begin(), by.end(), std::size_t{0});
    std::ranges::stable_sort(by, {}, [&](std::size_t i) { return middle[i]; });
    std::vector<std::size_t> sorted;
    sorted.reserve(by.size());
    for (const std::size_t i : by) sorted.push_back(layer[i]);
    layer = std::move(sorted);
    for (std::size_t i = 0; i < layer.size(); ++i) knots_[layer[i]].order = i;
  }

  void order_layers() {
    auto best = layers_;
    double least = all_crossings();
    for (int sweep = 0; sweep < kSweeps && least > 0; ++sweep) {
      const bool down = sweep % 2 == 0;
      for (std::size_t i = 1; i < layers_.size(); ++i) sort_layer(down ? i : layers_.size() - 1 - i, down);
      const double crossed = all_crossings();
      if (crossed >= least) continue;
      least = crossed;
      best = layers_;
    }
    layers_ = std::move(best);
    number();
  }

  /// The middles nearest to `wish`, weighed, that keep order and distance: a regression on rising values, in
  /// which neighbours that would overlap are pooled.
  void settle(const std::vector<std::size_t>& layer, const std::vector<double>& requested) {
    struct Pool {
      double sum, weight;
      std::size_t count;
      double middle() const { return sum / weight; }
    };
    std::vector<Pool> pools;
    std::vector<double> offsets(layer.size(), 0);
    for (std::size_t i = 0; i < layer.size(); ++i) {
      if (i > 0) {
        offsets[i] = offsets[i - 1] + (knots_[layer[i - 1]].width + knots_[layer[i]].width) / 2 + kBetween;
      }
      const double weight = knots_[layer[i]].weight;
      pools.push_back({(requested[i] - offsets[i]) * weight, weight, 1});
      while (pools.size() > 1 && pools[pools.size() - 2].middle() > pools.back().middle()) {
        const Pool last = pools.back();
        pools.pop_back();
        pools.back().sum += last.sum;
        pools.back().weight += last.weight;
        pools.back().count += last.count;
      }
    }
    std::size_t i = 0;
    for (const Pool& pool : pools) {
      for (std::size_t k = 0; k < pool.count; ++k, ++i) knots_[layer[i]].x = pool.middle() + offsets[i];
    }
  }

  bool is_bend(std::size_t knot) const { return knot >= items_.size(); }

  /// Every knot goes to the middle of its neighbours, again and again; lines between bends pull most, so that
  /// they are straight.
  void place() {
    for (const auto& layer : layers_) settle(layer, std::vector<double>(layer.size(), 0));
    std::vector<double> requested;
    for (int move = 0; move < kMoves; ++move) {
      for (std::size_t k = 0; k < layers_.size(); ++k) {
        const auto& layer = layers_[move % 2 == 0 ? k : layers_.size() - 1 - k];
        requested.clear();
        for (const std::size_t i : layer) {
          Knot& knot = knots_[i];
          double sum = 0, weight = 0;
          for (const auto* others : {&knot.above, &knot.below}) {
            for (const std::size_t other : *others) {
              const double pull = 1.0 + 2.0 * (is_bend(i) + is_bend(other));
              sum += pull * knots_[other].x;
              weight += pull;
            }
          }
          knot.weight = std::max(weight, 1.0);
          requested.push_back(weight > 0 ? sum / weight : knot.x);
        }
        settle(layer, requested);
      }
    }
  }

  /// Where the k-th of `count` lines touches a side.
  static double port(const Knot& knot, std::size_t k, std::size_t count) {
    const double room = std::min(knot.width * 0.7, 28.0 * static_cast<double>(count - 1));
    return knot.x + (count < 2 ? 0 : room * (static_cast<double>(k) / static_cast<double>(count - 1) - 0.5));
  }

  Layout finished() {
    Layout layout;
    double left = 0, right = 0;
    for (const Knot& knot : knots_) {
      left = std::min(left, knot.x - knot.width / 2);
      right = std::max(right, knot.x + knot.width / 2);
    }
    for (Knot& knot : knots_) knot.x = std::round((knot.x - left) * 10) / 10;
    std::vector<double> tops, heights;
    double y = 0;
    for (const auto& layer : layers_) {
      double height = 0;
      for (const std::size_t i : layer) height = std::max(height, knots_[i].height);
      tops.push_back(y);
      heights.push_back(height);
      y += height + kBetweenLayers;
    }
    layout.width = std::ceil(right - left) + 1;
    layout.height = layers_.empty() ? 0 : y - kBetweenLayers;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      layout.corners.push_back({knots_[i].x - knots_[i].width / 2, tops[knots_[i].layer]});
    }
    route(layout, tops, heights);
    return layout;
  }

  void route(Layout& layout, const std::vector<double>& tops, const std::vector<double>& heights) {
    // Lines leave and enter in the order of where they come from and go to.
    std::vector<std::vector<std::pair<double, std::size_t>>> leaving(items_.size()), entering(items_.size());
    for (std::size_t i = 0; i < edges_.size(); ++i) {
      leaving[edges_[i].from].emplace_back(knots_[chains_[i][1]].x, i);
      entering[edges_[i].to].emplace_back(knots_[chains_[i][chains_[i].size() - 2]].x, i);
    }
    layout.routes.resize(edges_.size());
    std::vector<double> start(edges_.size()), end(edges_.size());
    for (std::size_t item = 0; item < items_.size(); ++item) {
      for (auto* sides : {&leaving[item], &entering[item]}) {
        std::ranges::sort(*sides);
        auto& into = sides == &leaving[item] ? start : end;
        // Lines with the same way share a position.
        const auto next_knot = [&](std::size_t edge) {
          return sides == &leaving[item] ? chains_[edge][1] : chains_[edge][chains_[edge].size() - 2];
        };
        std::vector<std::size_t> places(sides->size(), 0);
        for (std::size_t k = 1; k < sides->size(); ++k) {
          const bool same = next_knot((*sides)[k].second) == next_knot((*sides)[k - 1].second);
          places[k] = places[k - 1] + (same ? 0 : 1);
        }
        for (std::size_t k = 0; k < sides->size(); ++k) {
          into[(*sides)[k].second] = port(knots_[item], places[k], places.back() + 1);
        }
      }
    }
    for (std::size_t i = 0; i < edges_.size(); ++i) {
      auto& points = layout.routes[i];
      const Knot &from = knots_[edges_[i].from], &to = knots_[edges_[i].to];
      points.push_back({start[i], tops[from.layer] + from.height});
      points.push_back({start[i], tops[from.layer] + heights[from.layer]});
      for (std::size_t k = 1; k + 1 < chains_[i].size(); ++k) {
        const Knot& bend = knots_[chains_[i][k]];
        points.push_back({bend.x, tops[bend.layer]});
        points.push_back({bend.x, tops[bend.layer] + heights[bend.layer]});
      }
      points.push_back({end[i], tops[to.layer]});
      points.push_back({end[i], tops[to.layer]});
    }
  }

  const std::vector<LayoutItem>& items_;
  const std::vector<LayoutEdge>& edges_;
  std::vector<Knot> knots_;                       // items, then bends
  std::vector<std::vector<std::size_t>> chains_;  // of each edge: knots from end to end
  std::vector<std::vector<std::size_t>> layers_;
};

}  // namespace

Layout lay_out(const std::vector<LayoutItem>& items, const std::vector<LayoutEdge>& edges) {
  return LayeredLayout(items, edges).run();
}

}  // namespace crumb::analysis
