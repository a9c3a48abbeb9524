// Symbols that are sums: against sizes that were drawn first.
#include "graph/symbol_sizes.h"

#include <doctest/doctest.h>

#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
namespace crumb::graph {
namespace {

TEST_CASE("sums of symbols follow from their terms, and the terms from sums") {
  std::mt19937 random(7);
  const auto below = [&](int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); };
  const std::vector<std::string> names{"past", "sequence", "n_1", "batch size"};
  for (int round = 0; round < 5000; ++round) {
    std::map<std::string, std::int64_t> truth;
    for (const std::string& name : names) truth[name] = below(30);
    std::string sum;
    std::int64_t size = 0;
    std::map<std::string, int> used;
    const int terms = 2 + below(3);
    for (int i = 0; i < terms; ++i) {
      const std::string blank(static_cast<std::size_t>(below(2)), ' ');
      sum += (i == 0 ? "" : "+") + blank;
      if (below(4) == 0) {
        const int number = below(9);
        sum += std::to_string(number) + blank;
        size += number;
      } else {
        const std::string& name = names[static_cast<std::size_t>(below(4))];
        sum += name + blank;
        size += truth[name];
        ++used[name];
      }
    }
    CAPTURE(sum);
    CHECK(SymbolSizes::is_sum(sum));
    SymbolSizes all;
    for (const auto& [name, value] : truth) CHECK(all.set(name, value));
    CHECK(all.find(sum) == size);
    CHECK(all.set(sum, size));
    CHECK_FALSE(all.set(sum, size + 1));
    if (used.empty()) continue;
    // All but one are known, and the sum says what that one is.
    const auto missing = std::next(used.begin(), below(static_cast<int>(used.size())));
    SymbolSizes some;
    for (const auto& [name, value] : truth)
      if (name != missing->first) CHECK(some.set(name, value));
    CHECK_FALSE(some.find(sum).has_value());
    CHECK(some.set(sum, size));
    CHECK(some.find(missing->first) == truth[missing->first]);
    // Nothing is known: the sum has its size where its terms can have it, and else says so.
    SymbolSizes none;
    const bool fits = none.set(sum, size);
    CHECK(fits == (none.find(sum) == size));
    if (used.size() == 1) CHECK(fits);
    // Nor is the size.
    SymbolSizes ones;
    ones.complete(sum);
    for (const auto& [name, times] : used) CHECK(ones.find(name) == 1);
    CHECK(ones.find(sum).has_value());
  }
}

TEST_CASE("what little there is comes from behind: one token behind none") {
  SymbolSizes sizes;
  CHECK(sizes.set("past + sequence", 1));
  CHECK(sizes.find("past") == 0);
  CHECK(sizes.find("sequence") == 1);
  SymbolSizes none;
  CHECK(none.set("past + sequence", 0));
  CHECK(none.find("sequence") == 0);
  SymbolSizes most;
  CHECK(most.set("a", std::numeric_limits<std::int64_t>::max()));
  CHECK_THROWS_WITH_AS((void)most.find("a + 1"), doctest::Contains("beyond 64 bits"), Error);
}

TEST_CASE("a name of several sizes in one input says nothing from there on") {
  const Shape one{Dim("n"), Dim(3), Dim("n"), Dim("n + 1")}, other{Dim("n"), Dim("m")};
  CHECK(symbols_of_several_sizes(one, std::vector<std::int64_t>{2, 3, 2, 4}).empty());
  CHECK(symbols_of_several_sizes(one, std::vector<std::int64_t>{2, 3, 4, 4}) == std::set<std::string>{"n"});
  for (const bool other_first : {false, true}) {
    SymbolSizes sizes;
    if (other_first) CHECK_FALSE(misfit(other, std::vector<std::int64_t>{7, 5}, false, sizes).has_value());
    CHECK_FALSE(misfit(one, std::vector<std::int64_t>{2, 3, 4, 9}, false, sizes).has_value());
    CHECK_FALSE(misfit(one, std::vector<std::int64_t>{2, 3, 4, 9}, true, sizes).has_value());
    CHECK_FALSE(sizes.find("n").has_value());
    CHECK_FALSE(sizes.find("n + 1").has_value());
    sizes.complete("n");
    CHECK_FALSE(sizes.find("n").has_value());
    CHECK_FALSE(misfit(other, std::vector<std::int64_t>{8, 5}, false, sizes).has_value());
    CHECK(misfit(other, std::vector<std::int64_t>{8, 6}, false, sizes) == 1);
  }
  SymbolSizes strict;
  CHECK_FALSE(misfit(other, std::vector<std::int64_t>{7, 5}, false, strict).has_value());
  CHECK(misfit(one, std::vector<std::int64_t>{2, 3, 2, 3}, false, strict) == 0);
  CHECK(misfit(one, std::vector<std::int64_t>{7, 4, 7, 8}, false, strict) == 1);
}

TEST_CASE("other symbols are names") {
  for (const char* const name : {"", "n", "n-1", "2*n", "+", "a+", "+a", "a++b", " a", "1", "n - 1 + 2",
                                 "(n + 1)//2", "floor(h/2 + 1)", "batch*2 + 1"}) {
    CAPTURE(name);
    CHECK_FALSE(SymbolSizes::is_sum(name));
    SymbolSizes sizes;
    CHECK_FALSE(sizes.find(name).has_value());
    sizes.complete(name);
    CHECK(sizes.find(name) == 1);
    CHECK_FALSE(sizes.set(name, 2));
  }
}

}  // namespace
}  // namespace crumb::graph
