#include "tasks/jets.h"

#include <algorithm>
#include <array>

#include "tasks/random.h"

namespace crumb::tasks {
namespace {

constexpr std::size_t kClasses = 5, kLatent = 8, kFeatures = 16;
constexpr double kSpread = 0.71;  // spread of the centres; the noise has 1
constexpr double kBlur = 0.05;    // noise of the features

/// Returns the first Pade approximant of tanh, which reaches 1 at 3: divisions only, the same everywhere.
double saturate(double x) {
  x = std::clamp(x, -3.0, 3.0);
  return x * (27 + x * x) / (27 + 9 * x * x);
}

}  // namespace

Split make_jets(std::uint64_t seed, std::size_t samples) {
  Random world(seed, 0), draws(seed, 1);
  std::array<std::array<double, kLatent>, kClasses> centres{};
  for (auto& centre : centres) {
    for (double& x : centre) x = kSpread * world.normal();
  }
  std::array<std::array<double, kLatent>, kFeatures> layer{};
  std::array<double, kFeatures> offsets{};
  for (std::size_t f = 0; f < kFeatures; ++f) {
    for (double& w : layer[f]) w = 0.35 * world.normal();
    offsets[f] = 0.3 * world.normal();
  }
  Split split;
  split.train.shape = split.test.shape = {static_cast<std::int64_t>(kFeatures)};
  for (std::size_t i = 0; i < samples; ++i) {
    const std::size_t label = i % kClasses;
    std::array<double, kLatent> z{};
    for (std::size_t k = 0; k < kLatent; ++k) z[k] = centres[label][k] + draws.normal();
    Samples& part = i % 4 == 3 ? split.test : split.train;
    for (std::size_t f = 0; f < kFeatures; ++f) {
      double sum = offsets[f];
      for (std::size_t k = 0; k < kLatent; ++k) sum += layer[f][k] * z[k];
      part.inputs.push_back(static_cast<float>(saturate(sum) + kBlur * draws.normal()));
    }
    part.labels.push_back(static_cast<std::int64_t>(label));
  }
  return split;
}

}  // namespace crumb::tasks
