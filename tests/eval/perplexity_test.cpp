// Perplexity and divergence of drawn logits against their definitions, target by target.
#include "eval/perplexity.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "base/error.h"

namespace {

using crumb::eval::count_targets;
using crumb::eval::LogitsSource;
using crumb::eval::measure_perplexity;
using crumb::eval::Perplexity;
using crumb::eval::PerplexityOptions;
using crumb::eval::Score;

constexpr std::size_t kVocabulary = 11;
using Ids = std::vector<std::int32_t>;
using Row = std::vector<double>;

/// Logits that follow from the tokens of the window up to a place, and from nothing else.
Row logits_of(const Ids& before, unsigned seed) {
  std::seed_seq sequence(before.begin(), before.end());
  std::vector<unsigned> mixed(1);
  sequence.generate(mixed.begin(), mixed.end());
  std::mt19937 random(mixed[0] ^ seed);
  std::normal_distribution<float> normal(0, 3);
  Row row(kVocabulary);
  for (double& x : row) x = normal(random);
  return row;
}

class Drawn final : public LogitsSource {
 public:
  explicit Drawn(unsigned seed) : seed_(seed) {}
  void begin(std::span<const std::int32_t> window, std::size_t first) override {
    window_.assign(window.begin(), window.end());
    at_ = first;
  }
  std::span<const float> next(std::size_t count) override {
    rows_.clear();
    for (std::size_t i = 0; i < count; ++i, ++at_) {
      const Row row =
          logits_of({window_.begin(), window_.begin() + static_cast<std::ptrdiff_t>(at_) + 1}, seed_);
      rows_.insert(rows_.end(), row.begin(), row.end());
    }
    return rows_;
  }

 private:
  unsigned seed_;
  Ids window_;
  std::size_t at_ = 0;
  std::vector<float> rows_;
};

Row log_softmax(Row row) {
  double sum = 0;
  for (const double x : row) sum += std::exp(x);
  for (double& x : row) x -= std::log(sum);
  return row;
}

/// What the head of eval/perplexity.h says, without windows of rows: each target in the first window that may score it.
struct Expected {
  std::vector<double> nll, baseline, kl, same;
};

Expected expected_of(const Ids& ids, const PerplexityOptions& options) {
  const std::size_t stride = options.stride == 0 ? options.context : options.stride;
  std::map<std::size_t, bool> scored;
  Expected made;
  for (std::size_t start = 0; start + options.context <= ids.size(); start += stride) {
    for (std::size_t place = 0; place + 1 < options.context; ++place) {
      const std::size_t target = start + place + 1;
      const bool counts = options.score == Score::kAll || place >= options.context / 2;
      // A window before that reached the target has had its say.
      if (start > 0 && target < start - stride + options.context) continue;
      if (!counts || scored[target]) continue;
      scored[target] = true;
      Ids before(ids.begin() + static_cast<std::ptrdiff_t>(start),
                 ids.begin() + static_cast<std::ptrdiff_t>(target));
      if (options.first_token) before[0] = *options.first_token;
      const Row q = log_softmax(logits_of(before, 1)), p = log_softmax(logits_of(before, 2));
      const auto id = static_cast<std::size_t>(ids[target]);
      made.nll.push_back(-q[id]);
      made.baseline.push_back(-p[id]);
      double kl = 0;
      for (std::size_t i = 0; i < kVocabulary; ++i) kl += std::exp(p[i]) * (p[i] - q[i]);
      made.kl.push_back(kl);
      made.same.push_back(std::ranges::max_element(p) - p.begin() == std::ranges::max_element(q) - q.begin());
    }
  }
  return made;
}

double mean(const std::vector<double>& x) {
  double sum = 0;
  for (const double value : x) sum += value;
  return sum / static_cast<double>(x.size());
}

}  // namespace

TEST_CASE("perplexity: every target once, as it is defined, whatever windows, strides, threads") {
  std::mt19937 random(3);
  for (int round = 0; round < 400; ++round) {
    PerplexityOptions options{.context = 2 + random() % 90, .threads = 1 + static_cast<int>(random() % 3)};
    options.stride = random() % 3 == 0 ? 0 : 1 + random() % options.context;
    options.score = random() % 2 == 0 ? Score::kAll : Score::kHalf;
    if (random() % 2 == 0) options.first_token = 10;
    Ids ids(options.context + random() % 200);
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % kVocabulary);
    const Expected expected = expected_of(ids, options);
    CAPTURE(options.context);
    CAPTURE(options.stride);
    Drawn model(1), baseline(2);
    if (expected.nll.empty()) {
      CHECK_THROWS_AS(measure_perplexity(ids, model, &baseline, options), crumb::Error);
      continue;
    }
    const Perplexity made = measure_perplexity(ids, model, &baseline, options);
    REQUIRE(made.targets == expected.nll.size());
    CHECK(count_targets(ids.size(), options) == made.targets);
    CHECK(made.nll.value == doctest::Approx(mean(expected.nll)).epsilon(1e-9));
    CHECK(made.perplexity == doctest::Approx(std::exp(mean(expected.nll))).epsilon(1e-9));
    CHECK(made.against->kl.value == doctest::Approx(mean(expected.kl)).epsilon(1e-9));
    CHECK(made.against->same_top1.value == doctest::Approx(mean(expected.same)).epsilon(1e-12));
    CHECK(made.against->baseline_perplexity ==
          doctest::Approx(std::exp(mean(expected.baseline))).epsilon(1e-9));
    CHECK(made.against->nll_added.value ==
          doctest::Approx(mean(expected.nll) - mean(expected.baseline)).epsilon(1e-7).scale(1));
    CHECK(made.against->kl_largest == doctest::Approx(std::ranges::max(expected.kl)).epsilon(1e-9));
    CHECK(made.against->kl_median <= made.against->kl_p90);
    CHECK(made.against->kl_p90 <= made.against->kl_p99);
  }
}

TEST_CASE("perplexity: a model against itself") {
  Ids ids(300);
  std::mt19937 random(4);
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % kVocabulary);
  Drawn model(1), same(1);
  const Perplexity made = measure_perplexity(ids, model, &same, {.context = 30});
  CHECK(made.windows == 10);
  CHECK(made.targets == 290);
  CHECK(made.against->kl_largest == 0);
  CHECK(made.against->same_top1.value == 1);
  CHECK(made.against->nll_added.value == 0);
  CHECK(made.perplexity == made.against->baseline_perplexity);
}

TEST_CASE("perplexity: texts and windows that make no sense are refused") {
  const auto refused = [](std::size_t ids, const PerplexityOptions& options) {
    try {
      (void)count_targets(ids, options);
      return std::string();
    } catch (const crumb::Error& error) {
      CHECK(error.kind() == crumb::ErrorKind::kUsage);
      return std::string(error.what());
    }
  };
  CHECK(refused(9, {.context = 10}).find("the text has 9 tokens, and a window takes 10") !=
        std::string::npos);
  CHECK(refused(90, {.context = 1}).find("no targets") != std::string::npos);
  CHECK(refused(90, {.context = 10, .stride = 11}).find("leaves out tokens") != std::string::npos);
  CHECK(refused(90, {.context = 2, .score = Score::kHalf}).find("second half") != std::string::npos);
  CHECK(refused(10, {.context = 10}).empty());
}
