// Masks of pruned weights: exact counts, thresholds over all layers or within each, floors, ties, and masks that only
// grow. The oracle sorts.
#include "qat/weights/prune_masks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <tuple>
#include <vector>

namespace {

using crumb::qat::PruneLayer;
using crumb::qat::share_of;

/// Layers of random weights, with their masks.
struct MaskedNetwork {
  std::vector<std::vector<float>> weights;
  std::vector<std::unique_ptr<bool[]>> masks;
  std::vector<PruneLayer> layers;

  void add(std::vector<float> layer) {
    weights.push_back(std::move(layer));
    masks.push_back(std::make_unique<bool[]>(weights.back().size()));
    std::fill_n(masks.back().get(), weights.back().size(), true);
  }
  const std::vector<PruneLayer>& all() {
    layers.clear();
    for (std::size_t i = 0; i < weights.size(); ++i) {
      layers.push_back({.weights = weights[i], .kept = {masks[i].get(), weights[i].size()}});
    }
    return layers;
  }
  std::size_t gone(std::size_t layer) const {
    return static_cast<std::size_t>(
        std::count(masks[layer].get(), masks[layer].get() + weights[layer].size(), false));
  }
  std::size_t gone() const {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) sum += gone(i);
    return sum;
  }
  std::vector<bool> flat() const {
    std::vector<bool> kept;
    for (std::size_t i = 0; i < weights.size(); ++i)
      kept.insert(kept.end(), masks[i].get(), masks[i].get() + weights[i].size());
    return kept;
  }
};

/// Magnitudes of few values, so that there are ties.
MaskedNetwork random_masked_network(std::mt19937& engine, bool ties) {
  std::normal_distribution<float> normal;
  MaskedNetwork network;
  for (const std::size_t size : {1U, 7U, 64U, 130U}) {
    std::vector<float> layer;
    for (std::size_t i = 0; i < size; ++i) {
      layer.push_back(ties ? static_cast<float>(static_cast<int>(engine() % 5) - 2) : normal(engine));
    }
    network.add(layer);
  }
  return network;
}

/// By the book: all weights in order of magnitude, layer and place, taken one after the other.
std::vector<bool> expected_global(const MaskedNetwork& network, double share, double floor) {
  std::vector<std::tuple<float, std::size_t, std::size_t>> order;
  std::size_t total = 0;
  std::vector<std::size_t> first, left;
  for (std::size_t i = 0; i < network.weights.size(); ++i) {
    first.push_back(total);
    left.push_back(network.weights[i].size());
    total += network.weights[i].size();
    for (std::size_t j = 0; j < network.weights[i].size(); ++j)
      order.emplace_back(std::fabs(network.weights[i][j]), i, j);
  }
  std::ranges::sort(order);
  std::vector<bool> kept(total, true);
  std::size_t wanted = share_of(share, total);
  for (const auto& [magnitude, layer, index] : order) {
    const double least = floor * static_cast<double>(network.weights[layer].size());
    if (wanted == 0) break;
    if (static_cast<double>(left[layer]) - 1 < least - 1e-9) continue;
    kept[first[layer] + index] = false;
    --left[layer];
    --wanted;
  }
  return kept;
}

TEST_CASE("prune masks: a share of a count is rounded down, but not by what a double cannot say") {
  CHECK(share_of(0.29, 100) == 29);
  CHECK(share_of(0.8, 1024) == 819);
  CHECK(share_of(0.7, 10) == 7);
  CHECK(share_of(0, 10) == 0);
  CHECK(share_of(0.999, 1) == 0);
  CHECK(share_of(1, 10) == 10);
  CHECK(share_of(0.5, 0) == 0);
}

TEST_CASE("prune masks: global ones are those of one threshold over all layers") {
  std::mt19937 engine(3);
  for (const bool ties : {false, true}) {
    for (const double floor : {0.0, 0.02, 0.25}) {
      for (const double share : {0.0, 0.1, 0.5, 0.7, 0.75}) {
        CAPTURE(ties);
        CAPTURE(floor);
        CAPTURE(share);
        MaskedNetwork network = random_masked_network(engine, ties);
        crumb::qat::prune_global(network.all(), share, floor);
        CHECK(network.flat() == expected_global(network, share, floor));
        std::size_t most = 0;  // what floors leave
        for (const auto& layer : network.weights) most += share_of(1 - floor, layer.size());
        CHECK(network.gone() == std::min(share_of(share, 202), most));
        for (std::size_t i = 0; i < network.weights.size(); ++i) {
          const std::size_t size = network.weights[i].size();
          CHECK(static_cast<double>(size - network.gone(i)) >= floor * static_cast<double>(size));
        }
      }
    }
  }
}

TEST_CASE("prune masks: a layer of small weights dies under one threshold, not above its floor or by layer") {
  MaskedNetwork network;
  network.add(std::vector<float>(10, 0.001F));
  network.add(std::vector<float>(90, 1.0F));
  crumb::qat::prune_global(network.all(), 0.5, 0);
  CHECK(network.gone(0) == 10);
  CHECK(network.gone(1) == 40);

  MaskedNetwork floored;
  floored.add(std::vector<float>(10, 0.001F));
  floored.add(std::vector<float>(90, 1.0F));
  crumb::qat::prune_global(floored.all(), 0.5, 0.11);
  CHECK(floored.gone(0) == 8);  // 1.1 weights stay at least: two
  CHECK(floored.gone(1) == 42);

  MaskedNetwork own;
  own.add(std::vector<float>(10, 0.001F));
  own.add(std::vector<float>(90, 1.0F));
  for (const PruneLayer& layer : own.all()) crumb::qat::prune_layer(layer, 0.5);
  CHECK(own.gone(0) == 5);
  CHECK(own.gone(1) == 45);
  // Of equals those that stand first go first.
  for (std::size_t i = 0; i < 10; ++i) CHECK(own.masks[0][i] == (i >= 5));
}

TEST_CASE("prune masks: a later mask holds all that an earlier one took, whatever the weights have become") {
  std::mt19937 engine(4);
  for (const bool global : {true, false}) {
    MaskedNetwork network = random_masked_network(engine, false);
    std::vector<bool> before = network.flat();
    for (int step = 1; step <= 9; ++step) {
      const double share = 0.1 * step;
      if (global) {
        crumb::qat::prune_global(network.all(), share, 0.05);
      } else {
        for (const PruneLayer& layer : network.all()) crumb::qat::prune_layer(layer, share);
      }
      const std::vector<bool> now = network.flat();
      for (std::size_t i = 0; i < now.size(); ++i) CHECK((before[i] || !now[i]));
      if (global) CHECK(network.gone() == share_of(share, 202));
      before = now;
      // Training goes on, also behind the masks.
      std::normal_distribution<float> normal;
      for (auto& layer : network.weights)
        for (float& weight : layer) weight = normal(engine);
    }
  }
}

TEST_CASE("prune masks: steps are due evenly over the first half of the training") {
  using crumb::qat::prune_steps_due;
  for (const int steps : {1, 3, 10}) {
    CHECK(prune_steps_due(0, steps) == 1);
    CHECK(prune_steps_due(0.5, steps) == steps);
    CHECK(prune_steps_due(1, steps) == steps);
    int before = 0;
    for (int i = 0; i <= 300; ++i) {
      const int due = prune_steps_due(i / 300.0, steps);
      CHECK(due >= before);
      CHECK(due <= before + 1);
      before = due;
    }
  }
  CHECK(prune_steps_due(0.1, 4) == 1);
  CHECK(prune_steps_due(0.125, 4) == 2);
  CHECK(prune_steps_due(0.3, 4) == 3);
  CHECK(prune_steps_due(0.4, 4) == 4);
  CHECK(prune_steps_due(-1, 4) == 1);
}

}  // namespace
