#include "qat/weights/prune_masks.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

namespace crumb::qat {
namespace {

constexpr double kPruningPart = 0.5;  // of the training; in the rest the remaining weights recover
constexpr double kRounding = 1e-12;   // so that 0.29 of 100 are 29

struct Candidate {
  float magnitude;  ///< -1: pruned already
  std::size_t layer, index;
};

bool goes_first(const Candidate& one, const Candidate& other) {
  return std::tie(one.magnitude, one.layer, one.index) < std::tie(other.magnitude, other.layer, other.index);
}

/// Returns the `most` weights of a layer of least magnitude among those that may be pruned.
std::vector<Candidate> candidates_of(const PruneLayer& layer, std::size_t number, std::size_t most) {
  std::vector<Candidate> all;
  all.reserve(layer.weights.size());
  for (std::size_t i = 0; i < layer.weights.size(); ++i) {
    all.push_back({layer.kept[i] ? std::fabs(layer.weights[i]) : -1, number, i});
  }
  std::ranges::nth_element(all, all.begin() + static_cast<std::ptrdiff_t>(most), goes_first);
  all.resize(most);
  return all;
}

}  // namespace

std::size_t share_of(double share, std::size_t count) {
  const double exact = share * static_cast<double>(count) * (1 + kRounding);
  return std::min(count, static_cast<std::size_t>(std::max(exact, 0.0)));
}

void prune_layer(const PruneLayer& layer, double share) { prune_global({&layer, 1}, share, 0); }

void prune_global(std::span<const PruneLayer> layers, double share, double floor) {
  std::vector<Candidate> candidates;
  std::size_t total = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::size_t count = layers[i].weights.size(), most = share_of(1 - floor, count);
    const std::vector<Candidate> own = candidates_of(layers[i], i, most);
    candidates.insert(candidates.end(), own.begin(), own.end());
    total += count;
  }
  const std::size_t wanted = std::min(share_of(share, total), candidates.size());
  std::ranges::nth_element(candidates, candidates.begin() + static_cast<std::ptrdiff_t>(wanted), goes_first);
  for (std::size_t i = 0; i < wanted; ++i) layers[candidates[i].layer].kept[candidates[i].index] = false;
}

int prune_steps_due(double progress, int steps) {
  if (!(progress < kPruningPart)) return steps;
  const double done = std::max(progress, 0.0) / kPruningPart * static_cast<double>(steps);
  return std::min(steps, static_cast<int>(done * (1 + kRounding)) + 1);
}

}  // namespace crumb::qat
