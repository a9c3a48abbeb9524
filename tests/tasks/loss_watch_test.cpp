// A loss that rises is said once, at the step where it does; one that is only uneven is not.
#include "tasks/language/steps/loss_watch.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <vector>

namespace {

using crumb::tasks::LossWatch;

/// By the definition: the first step whose mean is kFactor times the least mean so far, its own among them, and those of the
/// first steps, which are fewer.
std::optional<std::size_t> rise_by_definition(const std::vector<double>& losses) {
  std::vector<double> means;
  for (std::size_t end = LossWatch::kFirstSteps; end <= losses.size(); ++end) {
    const std::size_t begin = end > LossWatch::kSteps ? end - LossWatch::kSteps : 0;
    double sum = 0;
    for (std::size_t step = begin; step < end; ++step) sum += losses[step];
    means.push_back(sum / static_cast<double>(end - begin));
    const double least = *std::min_element(means.begin(), means.end());
    if (end >= LossWatch::kSteps && means.back() >= LossWatch::kFactor * least) return end - 1;
  }
  return std::nullopt;
}

TEST_CASE("watched losses: drawn walks, by the definition") {
  std::mt19937 draw(5);
  std::normal_distribution<double> normal;
  int rose = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<double> losses, counted;
    double level = 1;
    for (std::size_t step = 0, steps = draw() % 300; step < steps; ++step) {
      level *= std::exp(0.05 * normal(draw));
      losses.push_back(
          draw() % 7 == 0 ? 0 : level * std::exp(0.2 * normal(draw)));  // of some steps nothing counts
      if (losses.back() > 0) counted.push_back(losses.back());
    }
    const auto expected = rise_by_definition(counted);
    LossWatch watch;
    std::size_t taken = 0, said = 0;
    for (const double loss : losses) {
      if (watch.rises_with(loss)) {
        ++said;
        CHECK(expected == taken);
        CHECK(watch.rise().mean >= LossWatch::kFactor * watch.rise().least);
      }
      taken += loss > 0 ? 1 : 0;
    }
    CHECK(said == (expected ? 1 : 0));
    rose += static_cast<int>(said);
  }
  CHECK(rose > 300);
  CHECK(rose < 1700);
}

TEST_CASE("watched losses: batches that differ by .4 from their mean are no rise") {
  std::mt19937 draw(6);
  std::uniform_real_distribution<double> share(0.6, 1.4);
  for (int run = 0; run < 200; ++run) {
    LossWatch watch;
    for (int step = 0; step < 1000; ++step) CHECK_FALSE(watch.rises_with(share(draw)));
  }
}

TEST_CASE("watched losses: a run that goes wrong within its first steps") {
  LossWatch watch;
  int said = 0;
  for (int step = 0; step < 100; ++step) said += watch.rises_with(step < 5 ? 0.5 : 3) ? 1 : 0;
  CHECK(said == 1);
  CHECK(watch.rise().least == 0.5);
}

}  // namespace
