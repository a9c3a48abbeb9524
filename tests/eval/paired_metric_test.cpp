// Intervals that cover as often as they say, and p-values against enumeration.
#include "eval/paired/paired_metric.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

#include "eval/paired/rank_metric.h"
#include "eval/paired/sample_metric.h"
#include "quant/agreement.h"

namespace crumb::eval {
namespace {

double root_mean_of(std::span<const double> sums) { return std::sqrt(sums[0] / sums[1]); }

/// Two models that answer drawn samples; the expectation of the difference is known.
struct Case {
  std::unique_ptr<SumMetric> baseline, model;
  double truth = 0;

  PairedFigures compare(const PairedOptions& options) const {
    return compare_paired(*baseline->paired_with(*model), options);
  }
};

/// Right with 0.85 and 0.8, and mostly together.
Case draw_right(std::mt19937_64& random, int samples) {
  Case made{.baseline = SumMetric::of_right({.name = "top1"}),
            .model = SumMetric::of_right({.name = "top1"})};
  std::uniform_real_distribution<double> share;
  for (int i = 0; i < samples; ++i) {
    const double where = share(random);
    // Both 0.72, the baseline alone 0.13, the model alone 0.08, none 0.07.
    const double one = where < 0.85, other = where < 0.72 || (where >= 0.85 && where < 0.93);
    made.baseline->add(std::vector<Term>{{0, one}, {1, 1}});
    made.model->add(std::vector<Term>{{0, other}, {1, 1}});
  }
  made.truth = 100 * (0.80 - 0.85);
  return made;
}

/// Errors of deviation 1 and 1.2, which share a part.
Case draw_errors(std::mt19937_64& random, int samples) {
  const MetricName name{.name = "rmse", .more_is_better = false};
  Case made{.baseline = std::make_unique<SumMetric>(name, root_mean_of, 2),
            .model = std::make_unique<SumMetric>(name, root_mean_of, 2)};
  std::normal_distribution<double> normal;
  for (int i = 0; i < samples; ++i) {
    const double one = normal(random), other = one + std::sqrt(0.44) * normal(random);
    made.baseline->add(std::vector<Term>{{0, one * one}, {1, 1}});
    made.model->add(std::vector<Term>{{0, other * other}, {1, 1}});
  }
  made.truth = std::sqrt(1.44) - 1;
  return made;
}

/// Errors of words over lengths that differ.
Case draw_ratios(std::mt19937_64& random, int samples) {
  const MetricName name{.name = "cer", .more_is_better = false};
  Case made{.baseline = std::make_unique<SumMetric>(name, percent_of_sums, 2),
            .model = std::make_unique<SumMetric>(name, percent_of_sums, 2)};
  std::uniform_int_distribution<int> length(3, 30);
  std::uniform_real_distribution<double> share;
  for (int i = 0; i < samples; ++i) {
    const int letters = length(random);
    double one = 0, other = 0;
    for (int j = 0; j < letters; ++j) {
      const double where = share(random);
      one += where < 0.1;
      other += where < 0.06 || where > 0.92;
    }
    made.baseline->add(std::vector<Term>{{0, one}, {1, static_cast<double>(letters)}});
    made.model->add(std::vector<Term>{{0, other}, {1, static_cast<double>(letters)}});
  }
  made.truth = 100 * (0.14 - 0.1);
  return made;
}

using Draw = Case (*)(std::mt19937_64& random, int samples);

double covered(Draw draw, int samples) {
  constexpr int kCases = 1000;
  std::mt19937_64 random(7);
  int inside = 0;
  for (int i = 0; i < kCases; ++i) {
    const Case drawn = draw(random, samples);
    const PairedFigures figures =
        drawn.compare({.resamples = 600, .flips = 1, .seed = static_cast<std::uint64_t>(i)});
    inside += figures.low <= drawn.truth && drawn.truth <= figures.high;
  }
  return 100.0 * inside / kCases;
}

TEST_CASE("intervals at 95 % cover in 93.3 to 96.6 % of 1,000 drawn cases") {
  for (const Draw draw : {draw_right, draw_errors, draw_ratios}) {
    const double share = covered(draw, 250);
    CAPTURE(share);
    CHECK(share >= 93.3);
    CHECK(share <= 96.6);
  }
}

TEST_CASE("figures do not depend on threads") {
  std::mt19937_64 random(11);
  const Case drawn = draw_errors(random, 301);
  const PairedFigures one = drawn.compare({.threads = 1}), four = drawn.compare({.threads = 4});
  CHECK(one.low == four.low);
  CHECK(one.high == four.high);
  CHECK(one.p == four.p);
  CHECK(one.low < one.difference);
  CHECK(one.difference < one.high);
}

TEST_CASE("sign flips say what all exchanges say") {
  std::mt19937_64 random(13);
  constexpr int kSamples = 9;
  for (int trial = 0; trial < 6; ++trial) {
    const Case drawn = draw_errors(random, kSamples);
    const auto pair = drawn.baseline->paired_with(*drawn.model);
    const std::vector<std::uint32_t> once(kSamples, 1);
    const auto difference = [&](unsigned choice) {
      std::vector<std::uint8_t> one(kSamples), other(kSamples);
      for (unsigned i = 0; i < kSamples; ++i) {
        one[i] = choice >> i & 1;
        other[i] = one[i] ^ 1;
      }
      return std::abs(pair->value(once, other) - pair->value(once, one));
    };
    int as_large = 0;
    for (unsigned choice = 0; choice < 1U << kSamples; ++choice)
      as_large += difference(choice) >= difference(0) * (1 - 1e-12);
    const double exact = as_large / static_cast<double>(1U << kSamples);
    const double found = compare_paired(*pair).p;
    CHECK(found == doctest::Approx(exact).epsilon(5 * std::sqrt(exact * (1 - exact) / 1999) / exact + 1e-3));
  }
}

TEST_CASE("McNemar's test is the binomial sum") {
  for (std::uint64_t one = 0; one < 12; ++one)
    for (std::uint64_t other = 0; other < 12; ++other) {
      const auto n = static_cast<int>(one + other);
      double tail = 0;
      for (int k = 0; k <= static_cast<int>(std::min(one, other)); ++k) {
        double ways = 1;
        for (int i = 0; i < k; ++i) ways = ways * (n - i) / (i + 1);
        tail += ways / std::pow(2.0, n);
      }
      CHECK(mcnemar({one, other}) == doctest::Approx(std::min(1.0, 2 * tail)).epsilon(1e-12));
    }
  CHECK(mcnemar({500, 100000}) == 0);
  CHECK(mcnemar({100000, 100000}) == doctest::Approx(1).epsilon(1e-9));
}

TEST_CASE("a rank metric of drawn data sets is Spearman's correlation of what they hold") {
  std::mt19937_64 random(17);
  std::uniform_int_distribution<int> few(0, 6);
  for (int trial = 0; trial < 40; ++trial) {
    RankMetric baseline({.name = "spearman"}), model({.name = "spearman"});
    std::vector<double> figures[2], labels;
    std::vector<std::uint32_t> times;
    std::vector<std::uint8_t> by_model;
    for (int i = 0; i < 25; ++i) {
      labels.push_back(few(random));
      for (auto& list : figures) list.push_back(few(random));
      baseline.add(figures[0].back(), labels.back());
      model.add(figures[1].back(), labels.back());
      times.push_back(static_cast<std::uint32_t>(few(random) % 3));
      by_model.push_back(static_cast<std::uint8_t>(trial % 3 == 2 ? few(random) % 2 : trial % 3));
    }
    std::vector<double> held_labels, held_figures;
    for (std::size_t i = 0; i < times.size(); ++i)
      for (std::uint32_t k = 0; k < times[i]; ++k) {
        held_labels.push_back(labels[i]);
        held_figures.push_back(figures[by_model[i]][i]);
      }
    CHECK(baseline.paired_with(model)->value(times, by_model) ==
          doctest::Approx(spearman(held_labels, held_figures)).epsilon(1e-12));
  }
}

TEST_CASE("one sample, and no difference") {
  std::mt19937_64 random(19);
  CHECK(std::isnan(draw_right(random, 1).compare({}).low));
  Case same = draw_right(random, 40);
  const PairedFigures figures = compare_paired(*same.baseline->paired_with(*same.baseline));
  CHECK(figures.difference == 0);
  CHECK(figures.low == 0);
  CHECK(figures.high == 0);
  CHECK(figures.p == 1);
}

}  // namespace
}  // namespace crumb::eval
