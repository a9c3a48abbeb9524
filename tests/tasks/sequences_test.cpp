// Texts as sequences: everything is trained by once a round, in an order that follows from the seed.
#include "tasks/language/text/sequences.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "base/error.h"

namespace {

using crumb::tasks::Rounds;
using crumb::tasks::Sequences;

TEST_CASE("sequences: side by side, the first token in front, the rest left out") {
  std::mt19937 draw(3);
  for (int round = 0; round < 2000; ++round) {
    const auto length = static_cast<std::int64_t>(2 + draw() % 20);
    crumb::tasks::LanguageText text{.tokens = std::vector<std::int64_t>(draw() % 200), .counts = {}};
    std::iota(text.tokens.begin(), text.tokens.end(), 1000);
    const bool has_counts = draw() % 2 == 0;
    for (std::size_t i = 0; has_counts && i < text.tokens.size(); ++i)
      text.counts.push_back(static_cast<std::uint8_t>(draw() % 2));
    const std::optional<std::int64_t> first = draw() % 2 == 0 ? std::optional<std::int64_t>(7) : std::nullopt;
    const std::int64_t taken = length - (first ? 1 : 0);
    if (static_cast<std::int64_t>(text.tokens.size()) < taken) {
      CHECK_THROWS_WITH_AS(Sequences(text, first, length, "the text"), doctest::Contains("the text has"),
                           crumb::Error);
      continue;
    }
    const Sequences sequences(text, first, length, "the text");
    crumb::tasks::LanguageText all;
    for (std::int64_t i = 0; i < sequences.count(); ++i) sequences.append(i, all);
    REQUIRE(static_cast<std::int64_t>(all.tokens.size()) == sequences.count() * length);
    REQUIRE(all.counts.size() == all.tokens.size());
    std::size_t next = 0;
    bool is_right = true;
    for (std::size_t i = 0; i < all.tokens.size(); ++i) {
      const bool begins = i % static_cast<std::size_t>(length) == 0;
      const bool counts = !begins && (!has_counts || text.counts[next] != 0);
      is_right = is_right && all.tokens[i] == (begins && first ? *first : text.tokens[next++]) &&
                 (all.counts[i] != 0) == counts;
    }
    CHECK(is_right);
    CHECK(static_cast<std::int64_t>(text.tokens.size() - next) < taken);
  }
  const crumb::tasks::LanguageText two{.tokens = {1, 2}, .counts = {}};
  CHECK_THROWS_WITH_AS(Sequences(two, 7, 1, "the text"), doctest::Contains("two tokens"), crumb::Error);
}

TEST_CASE("rounds: every sequence once, another order each time, the same from wherever it goes on") {
  for (const std::int64_t count : {1, 2, 7, 64}) {
    CAPTURE(count);
    Rounds rounds(count, 5);
    std::vector<std::int64_t> order;
    for (std::int64_t i = 0; i < 3 * count; ++i) order.push_back(rounds.at(i));
    for (std::int64_t round = 0; round < 3; ++round) {
      std::vector<std::int64_t> sorted(order.begin() + round * count, order.begin() + (round + 1) * count);
      std::ranges::sort(sorted);
      std::vector<std::int64_t> all(static_cast<std::size_t>(count));
      std::iota(all.begin(), all.end(), 0);
      CHECK(sorted == all);
    }
    for (const std::int64_t from : {std::int64_t{0}, count - 1, count, 3 * count - 1}) {
      Rounds again(count, 5);
      CHECK(again.at(from) == order[static_cast<std::size_t>(from)]);
    }
    if (count < 7) continue;
    CHECK_FALSE(std::equal(order.begin(), order.begin() + count, order.begin() + count));
    Rounds other(count, 6);
    std::vector<std::int64_t> others;
    for (std::int64_t i = 0; i < count; ++i) others.push_back(other.at(i));
    CHECK_FALSE(std::equal(others.begin(), others.end(), order.begin()));
  }
}

}  // namespace
