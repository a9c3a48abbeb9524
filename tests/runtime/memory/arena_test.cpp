// Arenas: whatever runs take and give back, in whichever order and on whichever thread, no byte belongs to two; runs of the
// same sizes lie in one block; networks compute the same bits in one.
#include "runtime/memory/arena.h"

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <random>
#include <set>
#include <thread>

#include "graph/packed/crumb_graph.h"
#include "runtime/memory/memory_use.h"
#include "runtime/meter.h"
#include "runtime/session.h"
#include "tests/runtime/decoder.h"
#include "tests/support/capture_copy.h"
#include "tests/support/testing.h"

using crumb::runtime::Arena;
using crumb::runtime::ArenaScope;
using crumb::runtime::Array;
using crumb::runtime::Ints;
using crumb::runtime::Model;
using crumb::testing::Decoder;

namespace {

using Random = std::mt19937;
using Memory = std::shared_ptr<std::byte[]>;

std::size_t drawn(Random& random, std::size_t least, std::size_t most) {
  return std::uniform_int_distribution<std::size_t>(least, most)(random);
}

/// Memory with something written into it that must still be there when it is given back.
struct Held {
  Memory memory;
  std::size_t bytes = 0;
  unsigned char mark = 0;

  static Held of(std::size_t bytes, unsigned char mark) {
    Held held{crumb::runtime::metered_memory(bytes), bytes, mark};
    std::memset(held.memory.get(), mark, bytes);
    return held;
  }
  bool is_whole() const {
    for (std::size_t i = 0; i < bytes; ++i) {
      if (memory[static_cast<std::ptrdiff_t>(i)] != std::byte{mark}) return false;
    }
    return true;
  }
};

/// A run that takes at every step some memory and drops some: as the trace says, or now and then something else.
struct Trace {
  struct Take {
    std::size_t bytes, dropped_after;
  };
  std::vector<std::vector<Take>> steps;

  static Trace draw(Random& random) {
    Trace trace;
    trace.steps.resize(drawn(random, 1, 12));
    for (std::size_t s = 0; s < trace.steps.size(); ++s) {
      for (std::size_t i = drawn(random, 0, 3); i > 0; --i)
        trace.steps[s].push_back({drawn(random, 0, 700), drawn(random, s, trace.steps.size())});
    }
    return trace;
  }

  /// The same with some of it changed.
  Trace changed(Random& random) const {
    Trace other = *this;
    for (std::vector<Take>& step : other.steps) {
      for (Take& take : step) {
        if (drawn(random, 0, 3) == 0) take.bytes = drawn(random, 0, 900);
        if (drawn(random, 0, 5) == 0) take.dropped_after = drawn(random, 0, other.steps.size());
      }
      if (drawn(random, 0, 5) == 0)
        step.push_back({drawn(random, 0, 700), drawn(random, 0, other.steps.size())});
      if (drawn(random, 0, 9) == 0 && !step.empty()) step.pop_back();
    }
    return other;
  }
};

/// What outlives the run; `places` gets where everything else lay. `elsewhere`: another thread gives some of it back.
std::vector<Held> run(Arena& arena, const Trace& trace, std::vector<const std::byte*>& places,
                      bool elsewhere) {
  ArenaScope scope(&arena);
  std::vector<std::pair<std::size_t, Held>> held;
  static unsigned char mark = 0;
  places.clear();
  for (std::size_t s = 0; s < trace.steps.size(); ++s) {
    arena.enter(s);
    for (const Trace::Take& take : trace.steps[s]) {
      held.emplace_back(take.dropped_after, Held::of(take.bytes, ++mark));
      if (take.dropped_after < trace.steps.size()) places.push_back(held.back().second.memory.get());
    }
    for (std::size_t i = held.size(); i-- > 0;) {
      if (held[i].first > s) continue;
      REQUIRE(held[i].second.is_whole());
      if (elsewhere && i % 2 == 0) std::thread([given = std::move(held[i].second.memory)] {}).join();
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  scope.finish();
  std::vector<Held> outliving;
  for (auto& [after, one] : held) outliving.push_back(std::move(one));
  return outliving;
}

Array ints(const Ints& shape, std::int64_t value) {
  Array made(crumb::graph::ElementType::kInt64, shape);
  for (std::int64_t& x : made.writable<std::int64_t>()) x = value++ % 7;
  return made;
}

bool same(const std::vector<Array>& a, const std::vector<Array>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].shape() != b[i].shape() || std::memcmp(a[i].data(), b[i].data(), a[i].bytes()) != 0)
      return false;
  }
  return true;
}

/// Of a batch and a sequence, without a past.
std::vector<Array> decoder_inputs(const Model& model, std::int64_t batch, std::int64_t length) {
  std::vector<Array> inputs{ints({batch, length}, 0), ints({batch, length}, 1), ints({batch, length}, 1)};
  std::ranges::fill(inputs[2].writable<std::int64_t>(), 1);
  for (std::size_t i = inputs.size(); i < model.graph().inputs.size(); ++i)
    inputs.emplace_back(model.graph().find(model.graph().inputs[i])->type,
                        Ints{batch, Decoder::kKvHeads, 0, Decoder::kDepth});
  return inputs;
}

}  // namespace

TEST_CASE("arena: whatever runs take and drop, nobody writes into what another has") {
  Random random(3);  // NOLINT(cert-msc51-cpp)
  std::size_t in_one_block = 0;
  for (int round = 0; round < 400; ++round) {
    CAPTURE_COPY(round);
    Arena arena;
    const Trace trace = Trace::draw(random);
    std::vector<Held> kept;  // of runs before
    std::vector<const std::byte*> places, again;
    for (int i = 0; i < 8; ++i) {
      const bool as_planned = i == 0 || drawn(random, 0, 1) == 0;
      std::vector<Held> outliving =
          run(arena, as_planned ? trace : trace.changed(random), places, drawn(random, 0, 3) == 0);
      if (drawn(random, 0, 1) == 0) kept.clear();
      for (Held& one : outliving) kept.push_back(std::move(one));
      for (const Held& one : kept) REQUIRE(one.is_whole());
    }
    Arena steady;
    for (const auto to : {&places, &again, &places}) run(steady, trace, *to, false);
    REQUIRE(places == again);  // runs behind the first have the same places
    std::byte const *first = nullptr, *last = nullptr;
    for (const std::byte* place : places) {
      first = !first || place < first ? place : first;
      last = std::max(last, place);
    }
    if (first) REQUIRE(static_cast<std::size_t>(last - first) <= steady.bytes());
    in_one_block += first ? 1 : 0;
  }
  CHECK(in_one_block > 300);
}

TEST_CASE(
    "arena: the first run's lifetimes are the plan's, and a limit that the block would pass keeps values on "
    "the heap") {
  Trace trace;
  trace.steps = {{{100, 1}}, {{200, 3}, {50, 1}}, {{100, 2}}, {}};
  Arena arena;
  std::vector<const std::byte*> places;
  CHECK(arena.places().empty());
  CHECK(run(arena, trace, places, false).empty());
  const std::vector<Arena::Place> plan = arena.places();
  REQUIRE(plan.size() == 4);
  CHECK(plan[0].first == 0);
  CHECK(plan[0].last == 1);
  CHECK(plan[1].last == 3);
  CHECK(plan[2].last == 1);
  CHECK(plan[3].first == 2);
  CHECK(arena.bytes() ==
        128 + 256 + 64);  // steps 0 to 1: all but the last, which takes the first one's place
  const auto meter = std::make_shared<crumb::runtime::Meter>(crumb::runtime::Limits{.memory = 400});
  const crumb::runtime::MeterScope scope(meter);
  run(arena, trace, places, false);
  CHECK(meter->peak() == 350);
  CHECK(arena.bytes() == 128 + 256 + 64);
}

TEST_CASE("arena: a decoder has the same bits in one, whatever batches and lengths came before") {
  const Model model(Decoder().graph());
  Arena arena;
  Random random(4);  // NOLINT(cert-msc51-cpp)
  for (int round = 0; round < 40; ++round) {
    const auto batch = static_cast<std::int64_t>(drawn(random, 1, 3)),
               length = static_cast<std::int64_t>(drawn(random, 1, 20));
    CAPTURE_COPY(round);
    const auto alone = model.run(decoder_inputs(model, batch, length), {.threads = 1});
    REQUIRE(same(alone, model.run(decoder_inputs(model, batch, length), {.threads = 2, .arena = &arena})));
  }
}

TEST_CASE("arena: outputs that are kept stay as they are while later runs go on") {
  const Model model(Decoder().graph());
  Arena arena;
  std::vector<std::vector<Array>> kept;
  for (std::int64_t length = 1; length < 12; ++length)
    kept.push_back(model.run(decoder_inputs(model, 1, length), {.threads = 1, .arena = &arena}));
  for (std::int64_t length = 1; length < 12; ++length)
    CHECK(same(kept[static_cast<std::size_t>(length - 1)],
               model.run(decoder_inputs(model, 1, length), {.threads = 1})));
}

TEST_CASE("arena: what a model takes is named, and outputs are not in the block") {
  const Model model(Decoder().graph());
  const auto use = crumb::runtime::memory_use(model, decoder_inputs(model, 2, 5));
  CHECK(use.steps == model.steps());
  CHECK(use.block >= use.most_at_a_time);
  CHECK(use.block < 2 * use.most_at_a_time);
  std::set<std::string> outputs;
  std::size_t outliving = 0;
  for (const auto& value : use.values) {
    CHECK(value.place.last < use.steps);
    if (value.place.outlives) {
      outputs.insert(value.name);
      outliving += value.place.bytes;
    }
  }
  CHECK(outputs.contains("logits"));
  CHECK(outputs.size() == model.graph().outputs.size());
  CHECK(outliving == use.outliving);
}
