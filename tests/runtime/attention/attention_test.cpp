// Attention: the kernel has the bits of the definition, and a query's are those of what it sees.
#include "runtime/attention/attention.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "quant/quantizer.h"
#include "runtime/reference/attention.h"
#include "tests/support/specs.h"

using crumb::runtime::Attention;
using crumb::runtime::HeadRows;
using crumb::runtime::in_whole_blocks;
using crumb::runtime::RowOrder;
using crumb::runtime::ScoreStage;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float v : values) bits.push_back(std::bit_cast<std::uint32_t>(v));
  return bits;
}

/// A problem of any kind, with what it points to.
struct Drawn {
  Attention a;
  std::vector<float> q, k, v, added, y, scores;
  std::unique_ptr<bool[]> allowed;
  std::vector<std::int64_t> counts;

  explicit Drawn(std::mt19937_64& engine) {
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(engine() % n); };
    const auto draw = [&](std::vector<float>& values, std::size_t count, bool odd) {
      std::normal_distribution<float> normal;
      values.resize(count);
      for (float& x : values) {
        x = normal(engine);
        if (below(8) == 0) x = below(2) == 0 ? 0.0F : -0.0F;
        if (odd && below(16) == 0) x = std::ldexp(x, -140);
        if (odd && below(200) == 0) x = below(2) == 0 ? kInfinity : NAN;
      }
    };
    a.batch = below(3);
    a.kv_heads = 1 + below(3);
    a.heads = a.kv_heads * (1 + below(4));
    a.queries = below(2) == 0 ? 1 : below(90);
    a.keys = below(4) == 0 ? below(4) : below(70);
    a.depth = 1 + below(40);
    a.value_depth = below(40);
    const bool packed = below(2) == 1;
    const auto rows = [&](std::size_t heads, std::size_t count, std::size_t depth) {
      HeadRows made{nullptr, heads * count * depth, count * depth, depth};
      if (packed) made.head = depth, made.row = heads * depth;
      return made;
    };
    const bool odd = below(3) == 0;
    draw(q, a.batch * a.heads * a.queries * a.depth, false);
    draw(k, a.batch * a.kv_heads * a.keys * a.depth, below(6) == 0);
    draw(v, a.batch * a.kv_heads * a.keys * a.value_depth, odd);
    a.q = rows(a.heads, a.queries, a.depth);
    a.k = rows(a.kv_heads, a.keys, a.depth);
    a.v = rows(a.kv_heads, a.keys, a.value_depth);
    if (below(2) == 0) {  // as a cache has them
      const std::size_t places = in_whole_blocks(a.keys + below(20));
      const auto cached = [&](std::size_t depth, RowOrder order) -> HeadRows {
        return {nullptr, a.kv_heads * places * depth, places * depth, depth, order, places / 16 * depth};
      };
      a.k = cached(a.depth, RowOrder::kBlocks);
      a.v = cached(a.value_depth, RowOrder::kStrips);
      draw(k, a.batch * a.k.batch, below(6) == 0);
      draw(v, a.batch * a.v.batch, odd);
    }
    a.q.data = q.data();
    a.k.data = k.data();
    a.v.data = v.data();
    a.causal = below(2) == 0;
    a.past = a.keys > a.queries ? a.keys - a.queries : below(5);
    a.scale = below(2) == 0 ? 0.3F : 1.0F;
    a.softcap = below(3) == 0 ? 2.5F : 0.0F;
    const std::size_t kind = below(4);
    if (kind > 0) {
      a.mask.keys = below(3) == 0 ? below(a.keys + 1) : a.keys;
      const bool by_key = below(4) > 0;
      std::size_t reach = by_key ? a.mask.keys : 1;
      a.mask.key = by_key ? 1 : 0;
      const auto axis = [&](std::size_t& step, std::size_t size) {
        if (below(2) == 0) return;
        step = reach;
        reach *= size;
      };
      axis(a.mask.row, a.queries);
      axis(a.mask.head, a.heads);
      axis(a.mask.batch, a.batch);
      added.resize(reach);
      allowed = std::make_unique<bool[]>(reach + 1);
      for (std::size_t i = 0; i < reach; ++i) {
        allowed[i] = below(3) > 0;
        added[i] = below(3) > 0 ? static_cast<float>(below(5)) - 2 : below(2) == 0 ? -kInfinity : -1e9F;
      }
      if (kind == 1) a.mask.allowed = allowed.get();
      if (kind > 1) a.mask.added = added.data();
    }
    for (std::size_t b = 0; b < a.batch; ++b)
      counts.push_back(static_cast<std::int64_t>(below(a.keys + 3)) - 1);
    if (below(4) == 0) a.key_counts = counts.data();
    y.assign(a.batch * a.heads * a.queries * a.value_depth, 7.0F);
    const HeadRows out = rows(a.heads, a.queries, a.value_depth);
    a.y_batch = out.batch;
    a.y_head = out.head;
    a.y_row = out.row;
    scores.assign(a.batch * a.heads * a.queries * a.keys, 7.0F);
    wants_scores = below(3) == 0;
    a.stage = static_cast<ScoreStage>(below(4));
  }

  bool wants_scores = false;

  template <class Attend>
  void run(const Attend& attend) {
    Attention own = a;
    std::fill(y.begin(), y.end(), 7.0F);
    std::fill(scores.begin(), scores.end(), 7.0F);
    own.y = y.data();
    own.scores = wants_scores ? scores.data() : nullptr;
    attend(own);
  }
};

/// Sequences of two heads and one to meet, causal; a step is a part of it.
struct Sequence {
  std::size_t length, depth = 12;
  std::vector<float> q, k, v;

  Sequence(std::mt19937_64& engine, std::size_t count) : length(count) {
    std::normal_distribution<float> normal;
    for (auto* values : {&q, &k, &v}) {
      values->resize(2 * length * depth);
      for (float& x : *values)
        x = engine() % 16 == 0 ? -0.0F : std::ldexp(normal(engine), engine() % 32 == 0 ? -145 : 0);
    }
  }

  /// Queries [begin, end) with the keys [0, keys).
  std::vector<float> part(std::size_t begin, std::size_t end, std::size_t keys,
                          const std::vector<float>& mask) {
    std::vector<float> y(2 * (end - begin) * depth);
    Attention a{.batch = 1,
                .heads = 2,
                .kv_heads = 1,
                .queries = end - begin,
                .keys = keys,
                .depth = depth,
                .value_depth = depth,
                .q = {q.data() + begin * depth, 0, length * depth, depth},
                .k = {k.data(), 0, 0, depth},
                .v = {v.data(), 0, 0, depth},
                .causal = mask.empty(),
                .past = begin,
                .y = y.data(),
                .y_head = depth,
                .y_row = 2 * depth};
    if (!mask.empty()) {
      a.mask.added = mask.data() + begin * length;
      a.mask.row = length;
      a.mask.key = 1;
      a.mask.keys = keys;
    }
    attend(a, 1);
    return y;
  }
};

}  // namespace

TEST_CASE("attention: every way has the bits of the definition") {
  std::mt19937_64 engine(11);
  for (int round = 0; round < 1500; ++round) {
    CAPTURE(round);
    Drawn drawn(engine);
    drawn.run([](const Attention& a) { crumb::runtime::reference::attend(a); });
    const auto y = bits_of(drawn.y), scores = bits_of(drawn.scores);
    const bool shows_nan = drawn.wants_scores && drawn.a.stage != ScoreStage::kWeights;
    for (const int threads : {1, 3}) {
      drawn.run([&](const Attention& a) { attend(a, threads); });
      REQUIRE(bits_of(drawn.y) == y);
      if (!shows_nan) continue;
      const auto found = bits_of(drawn.scores);
      for (std::size_t i = 0; i < found.size(); ++i)
        REQUIRE((found[i] == scores[i] || (drawn.scores[i] != drawn.scores[i])));
    }
  }
}

TEST_CASE("attention: a cache of codes has the bits of its values, for every format, granularity and scale") {
  std::mt19937_64 engine(23);
  const auto specs = crumb::testing::all_specs();
  for (std::size_t round = 0; round < specs.size(); ++round) {
    CAPTURE(specs[round]);
    Drawn drawn(engine);
    Attention& a = drawn.a;
    a.value_depth += a.value_depth == 0 ? 1 : 0;
    const std::size_t heads = a.batch * a.kv_heads;
    std::vector<crumb::QuantizedTensor> tensors;
    // What the cache holds, and its values as attend() takes them.
    const auto coded = [&](std::size_t depth, std::vector<float>& values, HeadRows& rows) {
      std::vector<crumb::RowDecoder> decoders;
      values.resize(heads * a.keys * depth);
      rows = {values.data(), a.kv_heads * a.keys * depth, a.keys * depth, depth};
      for (std::size_t g = 0; g < heads; ++g) {
        std::normal_distribution<float> normal;
        std::vector<float> drawn_values(a.keys * depth);
        for (float& x : drawn_values) x = normal(engine);
        tensors.push_back(crumb::quantize(crumb::QuantSpec::parse(specs[round]), drawn_values,
                                          std::vector<std::uint64_t>{a.keys, depth}));
        decoders.emplace_back(tensors.back().view());
        decoders.back().flat_values(0, std::span(values).subspan(g * a.keys * depth, a.keys * depth));
      }
      return decoders;
    };
    tensors.reserve(2 * heads);  // decoders look into them
    const auto keys = coded(a.depth, drawn.k, a.k), values = coded(a.value_depth, drawn.v, a.v);
    drawn.y.assign(a.batch * a.heads * a.queries * a.value_depth, 7.0F);
    a.y_row = a.value_depth;
    a.y_head = a.queries * a.value_depth;
    a.y_batch = a.heads * a.y_head;
    drawn.wants_scores = false;
    drawn.run([](const Attention& floats) { attend(floats, 1); });
    const auto expected = bits_of(drawn.y);
    a.k = a.v = {};
    drawn.run([&](const Attention& codes) { crumb::runtime::reference::attend(codes, keys, values); });
    REQUIRE(bits_of(drawn.y) == expected);
  }
}

TEST_CASE("attention: a sequence at once and in steps, whatever keys it does not see hold") {
  std::mt19937_64 engine(5);
  for (const std::size_t length : {1, 2, 15, 16, 17, 33, 150}) {
    Sequence sequence(engine, length);
    std::vector<float> hidden(length * length, 0), low(length * length, 0);
    for (std::size_t i = 0; i < length; ++i) {
      for (std::size_t j = i + 1; j < length; ++j) {
        hidden[i * length + j] = -kInfinity;
        low[i * length + j] = std::numeric_limits<float>::lowest();
      }
    }
    const auto whole = bits_of(sequence.part(0, length, length, {}));
    CHECK(bits_of(sequence.part(0, length, length, hidden)) == whole);
    CHECK(bits_of(sequence.part(0, length, length, low)) == whole);
    for (const std::size_t step : {1, 3, 16}) {
      for (const auto& mask : {std::vector<float>{}, hidden, low}) {
        std::vector<std::uint32_t> steps;
        for (std::size_t at = 0; at < length; at += step) {
          const std::size_t end = std::min(length, at + step);
          const auto made = bits_of(sequence.part(at, end, end, mask));
          steps.insert(steps.end(), made.begin(), made.end());
        }
        REQUIRE(steps == whole);
      }
    }
    for (std::size_t c = 0; c < sequence.depth; ++c) {  // the last key is the last query's alone
      sequence.v[(length - 1) * sequence.depth + c] = kInfinity;
      sequence.k[(length - 1) * sequence.depth + c] = NAN;
    }
    auto spoiled = bits_of(sequence.part(0, length, length, {}));
    for (std::size_t i = 0; i + 2 * sequence.depth < whole.size(); ++i) REQUIRE(spoiled[i] == whole[i]);
  }
}

TEST_CASE("attention: it is what the formula says") {
  // Two keys that are alike share the weight; a third, which is not seen, has none.
  const std::vector<float> q{1, 2}, k{3, 4, 3, 4, 9, 9}, v{2, 4, NAN};
  float y = 0;
  const bool seen[] = {true, true, false};
  Attention a{.batch = 1,
              .heads = 1,
              .kv_heads = 1,
              .queries = 1,
              .keys = 3,
              .depth = 2,
              .value_depth = 1,
              .q = {q.data(), 0, 0, 2},
              .k = {k.data(), 0, 0, 2},
              .v = {v.data(), 0, 0, 1},
              .y = &y};
  a.mask.allowed = seen;
  a.mask.key = 1;
  a.mask.keys = 3;
  attend(a, 1);
  CHECK(y == 3);
  a.mask.keys = 1;
  attend(a, 1);
  CHECK(y == 2);
  a.mask.keys = 0;
  attend(a, 1);
  CHECK(y != y);
}
