// A step in parts: every sample once, and no other parts of at most so many cost less.
#include "tasks/language/steps/step_parts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>

namespace {

using crumb::tasks::parts_of_step;
using Numbers = std::vector<std::int64_t>;
using Parts = std::vector<Numbers>;

std::int64_t cost_of(const Parts& parts, const std::map<std::int64_t, std::int64_t>& length,
                     std::int64_t part_cost) {
  std::int64_t cost = 0;
  for (const Numbers& part : parts) {
    std::int64_t longest = 0;
    for (const std::int64_t sample : part) longest = std::max(longest, length.at(sample));
    cost += static_cast<std::int64_t>(part.size()) * longest + part_cost;
  }
  return cost;
}

/// Of all ways to part the samples from `next` on, each of which joins one of the parts or begins one.
void try_all(const Numbers& samples, std::size_t next, std::size_t most, Parts& parts, const auto& visit) {
  if (next == samples.size()) return visit(parts);
  const std::size_t there = parts.size();
  for (std::size_t i = 0; i < there; ++i) {
    if (parts[i].size() == most) continue;
    parts[i].push_back(samples[next]);
    try_all(samples, next + 1, most, parts, visit);
    parts[i].pop_back();
  }
  parts.push_back({samples[next]});
  try_all(samples, next + 1, most, parts, visit);
  parts.pop_back();
}

TEST_CASE("step parts: none cost less") {
  std::mt19937 draw(5);
  for (int round = 0; round < 400; ++round) {
    Numbers samples(1 + draw() % 7), lengths;
    std::map<std::int64_t, std::int64_t> length;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      samples[i] = static_cast<std::int64_t>(100 + 7 * i);
      lengths.push_back(static_cast<std::int64_t>(1 + draw() % 30));
      length[samples[i]] = lengths.back();
    }
    std::ranges::shuffle(samples, draw);
    lengths.clear();
    for (const std::int64_t sample : samples) lengths.push_back(length.at(sample));
    const auto most = static_cast<std::int64_t>(1 + draw() % 8);
    const auto part_cost = static_cast<std::int64_t>(draw() % 40);
    const Parts found = parts_of_step(samples, lengths, most, part_cost);
    Numbers all;
    for (const Numbers& part : found) {
      CHECK(static_cast<std::int64_t>(part.size()) <= most);
      all.insert(all.end(), part.begin(), part.end());
    }
    std::ranges::sort(all);
    Numbers sorted = samples;
    std::ranges::sort(sorted);
    CHECK(all == sorted);
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    Parts parts;
    try_all(samples, 0, static_cast<std::size_t>(most), parts,
            [&](const Parts& others) { least = std::min(least, cost_of(others, length, part_cost)); });
    CHECK(cost_of(found, length, part_cost) == least);
  }
}

TEST_CASE("step parts: sequences of one length stay in their order, in parts as large as they may be") {
  std::mt19937 draw(6);
  for (int round = 0; round < 500; ++round) {
    Numbers samples(1 + draw() % 40);
    for (std::int64_t& sample : samples) sample = static_cast<std::int64_t>(draw() % 1000);
    const auto most = static_cast<std::int64_t>(1 + draw() % 10);
    const Parts found =
        parts_of_step(samples, Numbers(samples.size(), 512), most, static_cast<std::int64_t>(draw() % 100));
    Numbers joined;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (i + 1 < found.size()) CHECK(static_cast<std::int64_t>(found[i].size()) == most);
      joined.insert(joined.end(), found[i].begin(), found[i].end());
    }
    CHECK(joined == samples);
  }
}

TEST_CASE("step parts: of no samples") { CHECK(parts_of_step({}, {}, 4, 10).empty()); }

}  // namespace
