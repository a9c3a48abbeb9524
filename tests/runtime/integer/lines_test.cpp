// Lines of thresholds: where there is one, it gives the number of thresholds for every sum; and there is one
// behind affine chains.
#include "runtime/integer/lines.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "base/processor.h"
#include "runtime/lower/chain.h"

namespace crumb::runtime::integer {
namespace {

std::int32_t counted(const std::vector<std::int32_t>& thresholds, std::int32_t sum) {
  return static_cast<std::int32_t>(std::ranges::upper_bound(thresholds, sum) - thresholds.begin());
}

/// Compares every sum of the range, or those around thresholds and ends where there are too many.
void check_all(const std::vector<Line>& lines, const std::vector<std::int32_t>& thresholds,
               std::int32_t least, std::int32_t most) {
  const auto check = [&](std::int64_t sum) {
    if (sum < least || sum > most) return;
    const auto s = static_cast<std::int32_t>(sum);
    std::int32_t reached = 0;
    for (const Line& line : lines) reached += line.reached(s);
    if (reached != counted(thresholds, s)) FAIL(s << ": " << reached << " is not " << counted(thresholds, s));
  };
  if (std::int64_t{most} - least < 200'000) {
    for (std::int64_t sum = least; sum <= most; ++sum) check(sum);
  }
  for (const std::int32_t threshold : thresholds) {
    for (std::int64_t by = -2; by <= 2; ++by) check(threshold + by);
  }
  for (std::int64_t by = 0; by < 5; ++by) check(least + by), check(most - by);
}

}  // namespace

TEST_CASE("lines give the thresholds of affine chains, exactly") {
  std::mt19937_64 engine(3);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::size_t found = 0, with_ties = 0, ties_found = 0;
  constexpr int kRounds = 1500;
  for (int round = 0; round < kRounds; ++round) {
    const bool powers = round % 3 == 0;  // sums come to lie in the middle of two codes
    const auto reach = static_cast<std::int32_t>(std::exp2(3 + 26 * uniform(engine)));
    const int bits = static_cast<int>(1 + engine() % 8);
    UniformQuantizer quantizer{.scale = 1, .low = 0, .high = (1 << bits) - 1};
    if (engine() % 2 == 0) quantizer.low = -quantizer.high - 1;
    quantizer.zero = engine() % 3 == 0 ? static_cast<std::int32_t>(engine() % 9) - 4 : 0;
    quantizer.ties_with_zero = engine() % 2 == 0;
    double factor = std::exp2(bits) / reach * (0.2 + 3 * uniform(engine)) * (engine() % 2 == 0 ? 1 : -1);
    if (powers) factor = std::copysign(std::exp2(std::rint(std::log2(std::fabs(factor)))), factor);
    std::vector<ChainStep> steps;
    double added = static_cast<float>((uniform(engine) - 0.5) * 8);
    if (powers) added = std::rint(4 * added) / 4;
    if (engine() % 2 == 0) steps.push_back({.kind = ChainStep::Kind::kAdd, .numbers = {added}});
    if (engine() % 2 == 0) steps.push_back({.kind = ChainStep::Kind::kClip, .numbers = {0}, .low = 0});
    if (engine() % 4 == 0)
      steps.push_back({.kind = ChainStep::Kind::kClip, .numbers = {0}, .high = std::exp2(bits - 1)});
    const Chain chain({factor}, steps);
    REQUIRE(chain.is_sound());
    const auto thresholds = chain.thresholds(0, -reach, reach, quantizer);
    const auto line = line_of(thresholds);
    found += line.has_value();
    with_ties += powers;
    ties_found += powers && line;
    if (line) check_all({*line}, thresholds, -reach, reach);
    const auto lines = lines_of(thresholds);
    CHECK(lines.empty() <= !line.has_value());
    if (!lines.empty()) check_all(lines, thresholds, -reach, reach);
  }
  MESSAGE(found << " of " << kRounds << ", of those with ties " << ties_found << " of " << with_ties);
  CHECK(found > kRounds * 95 / 100);
  CHECK(ties_found > with_ties * 95 / 100);
}

TEST_CASE("lines of few thresholds, and none where thresholds bend") {
  const auto reached = [](const std::vector<std::int32_t>& thresholds, std::int32_t sum) {
    const auto line = line_of(thresholds);
    REQUIRE(line.has_value());
    return line->reached(sum);
  };
  CHECK(reached({}, 5) == 0);
  CHECK(reached({kAlways, kAlways, kNever}, -2147483647) == 2);
  CHECK(reached({kAlways, 7, kNever}, 6) == 1);
  CHECK(reached({kAlways, 7, kNever}, 7) == 2);
  CHECK(reached({kAlways, 7, kNever}, 2147483646) == 2);
  CHECK(reached({4, 4, 4, 4}, 3) == 0);
  CHECK(reached({4, 4, 4, 4}, 4) == 4);
  CHECK(reached({-2147483646, 2147483646}, 0) == 1);
  CHECK(reached({-2147483646, 2147483646}, 2147483646) == 2);
  CHECK(!line_of(std::vector<std::int32_t>{0, 10, 20, 50, 80}));
  CHECK(!line_of(std::vector<std::int32_t>{0, 0, 0, 100, 101}));
}

TEST_CASE("lines add up to the thresholds of chains with bends, exactly, one more than there are bends") {
  std::mt19937_64 engine(6);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::size_t found[4] = {}, in_time[4] = {}, rounds[4] = {};
  for (int round = 0; round < 2000; ++round) {
    const auto reach = static_cast<std::int32_t>(std::exp2(6 + 23 * uniform(engine)));
    const int bits = static_cast<int>(2 + engine() % 7);
    UniformQuantizer quantizer{.scale = 1, .low = -(1 << (bits - 1)), .high = (1 << (bits - 1)) - 1};
    quantizer.zero = engine() % 3 == 0 ? static_cast<std::int32_t>(engine() % 9) - 4 : 0;
    quantizer.ties_with_zero = engine() % 2 == 0;
    const double factor = std::exp2(bits) / reach * (0.2 + 3 * uniform(engine));
    const std::size_t bends = engine() % 4;
    std::vector<ChainStep> steps;
    for (std::size_t i = 0; i < bends; ++i) {
      const double added = static_cast<float>((uniform(engine) - 0.5) * std::exp2(bits) / 2);
      const double alpha = engine() % 4 == 0 ? 0.25 : static_cast<float>(0.01 + 1.5 * uniform(engine));
      steps.push_back({.kind = ChainStep::Kind::kAdd, .numbers = {added}});
      steps.push_back({.kind = ChainStep::Kind::kLeaky, .numbers = {alpha}});
    }
    const Chain chain({engine() % 2 == 0 ? factor : -factor}, steps);
    REQUIRE(chain.is_sound());
    const auto thresholds = chain.thresholds(0, -reach, reach, quantizer);
    const std::vector<Line> lines = lines_of(thresholds);
    ++rounds[bends];
    found[bends] += lines.empty() ? 0 : 1;
    in_time[bends] += !lines.empty() && lines.size() <= bends + 1 ? 1 : 0;
    if (!lines.empty()) check_all(lines, thresholds, -reach, reach);
  }
  for (const std::size_t bends : {0, 1, 2, 3}) {
    MESSAGE(bends << " bends: " << found[bends] << " of " << rounds[bends]
                  << ", of no more lines than needed " << in_time[bends]);
    CHECK(in_time[bends] > rounds[bends] * 8 / 10);
  }
}

TEST_CASE("lines of any ascending thresholds add up to them, or there are none") {
  std::mt19937_64 engine(8);
  std::size_t none = 0, several = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::int32_t> thresholds(engine() % 30);
    const std::int32_t spread = 1 << (engine() % 25);
    for (std::int32_t& t : thresholds)
      t = static_cast<std::int32_t>(engine() % static_cast<unsigned>(2 * spread)) - spread;
    std::ranges::sort(thresholds);
    std::fill_n(thresholds.begin(), std::min<std::size_t>(thresholds.size(), 3 - engine() % 3), kAlways);
    std::ranges::sort(thresholds);
    if (engine() % 2 == 0) thresholds.resize(thresholds.size() + engine() % 4, kNever);
    const std::vector<Line> lines = lines_of(thresholds);
    CHECK(lines.size() <= kMostPieces);
    none += lines.empty() ? 1 : 0;
    several += lines.size() > 1 ? 1 : 0;
    if (!lines.empty()) check_all(lines, thresholds, -spread - 3, spread + 3);
  }
  CHECK(none > 500);
  CHECK(several > 500);
  CHECK(lines_of(std::vector<std::int32_t>{0, 10, 20, 50, 80}).size() == 2);
}

TEST_CASE("thresholds that are counted are those of the definition, on every processor") {
  std::mt19937_64 engine(9);
  for (int round = 0; round < 1000; ++round) {
    std::vector<std::int32_t> thresholds(1 + engine() % 255), sums(engine() % 70);
    const auto draw = [&] { return static_cast<std::int32_t>(engine()) >> (engine() % 31); };
    std::ranges::generate(thresholds, draw);
    for (std::size_t i = 0; i < thresholds.size() / 4; ++i)
      thresholds[i] = engine() % 2 == 0 ? kAlways : kNever;
    std::ranges::sort(thresholds);
    for (std::int32_t& sum : sums)
      sum = engine() % 2 == 0 ? draw() : std::clamp(thresholds[engine() % thresholds.size()], -9999, 9999);
    std::vector<std::int32_t> expected(sums.size());
    for (std::size_t i = 0; i < sums.size(); ++i) expected[i] = counted(thresholds, sums[i]);
    const auto check = [&](auto count) {
      std::vector<std::int32_t> reached(sums.size(), 0);
      count(thresholds, sums.data(), sums.size(), reached.data());
      REQUIRE(reached == expected);
    };
    check(count_thresholds);
    check(count_thresholds_portable);
    if (may_use(Isa::kAvx2)) check(count_thresholds_avx2);
    if (may_use(Isa::kAvx512)) check(count_thresholds_avx512);
  }
}

TEST_CASE("codes and floats of vectors are those of the definition, on every processor") {
  std::mt19937_64 engine(4);
  for (int round = 0; round < 300; ++round) {
    const std::size_t count = 1 + engine() % 70;
    std::vector<std::int32_t> sums(count);
    for (std::int32_t& sum : sums) sum = static_cast<std::int32_t>(engine()) >> (engine() % 31);
    const std::size_t pieces = 1 + engine() % kMostPieces;
    std::vector<double> numbers[5];
    for (std::size_t i = 0; i < pieces * count; ++i) {
      const double slope =
          std::ldexp(static_cast<double>(engine() % 1000 + 1), -static_cast<int>(engine() % 30));
      numbers[0].push_back(slope);
      numbers[1].push_back(static_cast<double>(engine() % 2000) / 8 - 100);
      numbers[2].push_back(static_cast<double>(engine() % 4));
      numbers[3].push_back(static_cast<double>(engine() % 250 + 5));
      numbers[4].push_back(engine() % 2 == 0 ? Line::kEven : Line::kOdd);
    }
    const Lines lines{numbers[0].data(),
                      numbers[1].data(),
                      numbers[2].data(),
                      numbers[3].data(),
                      numbers[4].data(),
                      pieces,
                      count};
    for (const Channels channels : {Channels::kOne, Channels::kEach}) {
      std::vector<std::uint8_t> codes(count), expected(count);
      std::vector<float> floats(count), expected_floats(count);
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t of = channels == Channels::kOne ? 0 : i;
        std::int32_t reached = -128;
        for (std::size_t p = 0; p < pieces; ++p) reached += lines.at(p * count + of).reached(sums[i]);
        expected[i] = static_cast<std::uint8_t>(reached);
        const double product = static_cast<double>(sums[i]) * numbers[0][of];
        expected_floats[i] = static_cast<float>(product + numbers[1][of]);
      }
      const auto check = [&](auto by_lines, auto of_floats) {
        std::ranges::fill(codes, std::uint8_t{0});
        by_lines(channels, lines, -128, sums.data(), count, codes.data());
        REQUIRE(codes == expected);
        of_floats(channels, numbers[0].data(), numbers[1].data(), sums.data(), count, floats.data());
        REQUIRE(floats == expected_floats);
      };
      check(codes_by_lines, floats_of);
      check(codes_by_lines_portable, floats_of_portable);
      if (may_use(Isa::kAvx2)) check(codes_by_lines_avx2, floats_of_avx2);
      if (may_use(Isa::kAvx512)) check(codes_by_lines_avx512, floats_of_avx512);
    }
  }
}

}  // namespace crumb::runtime::integer
