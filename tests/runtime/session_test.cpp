// Sessions: a sequence at once and in steps gives the same bits, whatever the threads, the batch and how the past is kept.
#include "runtime/session.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <thread>

#include "runtime/meter.h"
#include "tests/runtime/decoder.h"
#include "tests/runtime/session_walk.h"

using crumb::runtime::Array;
using crumb::runtime::Computes;
using crumb::runtime::Ints;
using crumb::runtime::Model;
using crumb::runtime::Session;
using crumb::testing::Decoder;
using crumb::testing::DecoderOptions;
using crumb::testing::says;
using Reads = DecoderOptions::Reads;

namespace {

constexpr std::int64_t kWords = Decoder::kWords;

Array ints(Ints shape, const Ints& values) {
  Array made(crumb::graph::ElementType::kInt64, std::move(shape));
  std::copy(values.begin(), values.end(), made.writable<std::int64_t>().begin());
  return made;
}

/// Words of sequence b; all are as long.
std::int64_t word(std::int64_t b, std::int64_t i) { return (7 * i + 13 * b + i * i % 11) % kWords; }

/// The inputs for places [begin, end) of sequences [first, first + batch).
std::vector<Array> inputs_of(std::int64_t first, std::int64_t batch, std::int64_t begin, std::int64_t end) {
  Ints ids, positions;
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t i = begin; i < end; ++i) {
      ids.push_back(word(first + b, i));
      positions.push_back(i);
    }
  }
  return {ints({batch, end - begin}, ids), ints({batch, end - begin}, positions),
          ints({batch, end}, Ints(static_cast<std::size_t>(batch * end), 1))};
}

/// The logits of sequence b in an output of [batch, places, words], appended.
void append(std::vector<float>& to, const Array& logits, std::int64_t b) {
  const auto values = logits.values<float>().subspan(static_cast<std::size_t>(b * logits.dim(1) * kWords),
                                                     static_cast<std::size_t>(logits.dim(1) * kWords));
  to.insert(to.end(), values.begin(), values.end());
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// The logits of the first `length` places of sequence b, at once, without a session.
std::vector<float> whole(const Model& model, std::int64_t b, std::int64_t length) {
  std::vector<Array> inputs = inputs_of(b, 1, 0, length);
  const auto& graph = model.graph();
  for (std::size_t i = inputs.size(); i < graph.inputs.size(); ++i)
    inputs.emplace_back(graph.find(graph.inputs[i])->type, Ints{1, Decoder::kKvHeads, 0, Decoder::kDepth});
  std::vector<float> logits;
  append(logits, model.run(std::move(inputs), {.threads = 1})[0], 0);
  return logits;
}

/// Runs a session on by `steps`, each so many places, for sequences [0, batch); the logits of sequence b.
std::vector<float> stepped(Session& session, std::int64_t batch, const Ints& steps, int threads,
                           std::int64_t b) {
  std::vector<float> logits;
  for (const std::int64_t step : steps) {
    const std::int64_t begin = session.length();
    const auto made = session.run(inputs_of(0, batch, begin, begin + step), {.threads = threads});
    append(logits, made[0], b);
    CHECK(session.length() == begin + step);
    for (std::size_t i = 1; i < made.size(); ++i) CHECK(!made[i].defined());
  }
  return logits;
}

Session session_of(const Model& model, std::int64_t most = 0) {
  return Session(model, crumb::runtime::find_ties(model.graph()), most);
}

template <class F>
std::string refusal(const F& work) {
  try {
    work();
    return "";
  } catch (const crumb::Error& error) {
    return error.what();
  }
}

/// By layer, itself or an earlier one that has keys and values of its own; at least one layer has none.
std::vector<int> drawn_sources(std::mt19937& random) {
  std::vector<int> sources{0}, own{0};
  for (int layer = 1, last = 1 + static_cast<int>(random() % 4); layer <= last; ++layer) {
    const bool is_own = layer < last && random() % 2 == 0;
    if (is_own) own.push_back(layer);
    sources.push_back(is_own ? layer : own[random() % own.size()]);
  }
  return sources;
}

}  // namespace

TEST_CASE("session: layers that attend over an earlier one's positions share its cache") {
  std::mt19937 random(31);
  for (int round = 0; round < 36; ++round) {
    DecoderOptions options{.reads_length = random() % 3 == 0, .half = random() % 2 == 0};
    options.sources = drawn_sources(random);
    options.reads = static_cast<Reads>(random() % 3);
    CAPTURE(round);
    const Model model(Decoder(options).graph());
    options.reads = Reads::kTwice;
    const Model twice(Decoder(options).graph());
    const auto expected = whole(twice, 0, 70);
    REQUIRE(same(whole(model, 0, 70), expected));
    const std::set<int> own(options.sources.begin(), options.sources.end());
    Session session = session_of(model), fresh = session_of(model), apart = session_of(twice);
    REQUIRE(session.ties().size() == 2 * own.size());
    for (std::size_t i = 0; i < session.ties().size(); ++i) CHECK(session.grows_in_place(i));
    const auto run = [&](Session& one, std::int64_t step, int threads) {
      const std::int64_t begin = one.length();
      const auto made = stepped(one, 1, {step}, threads, 0);
      REQUIRE(same(made, {expected.begin() + begin * kWords, expected.begin() + (begin + step) * kWords}));
    };
    const crumb::testing::SessionWalk walk{
        .places = 70, .work = 60000, .open = [&] { return session_of(model); }, .run = run};
    walk(random, session, 24);
    for (Session* one : {&fresh, &apart}) REQUIRE(same(stepped(*one, 1, {1, 30, 39}, 2, 0), expected));
    CHECK(fresh.bytes() * options.sources.size() == apart.bytes() * own.size());
  }
}

TEST_CASE("session: a cache that something else than attention reads stays a value, whoever shares it") {
  for (const Reads reads : {Reads::kWhatItTakes, Reads::kAndNamesOwn, Reads::kWhatItGives}) {
    DecoderOptions options{.sources = {0, 0, 2}, .reads = reads};
    crumb::graph::Graph graph = Decoder(options).graph();
    graph.nodes.push_back({.name = "look",
                           .op = "Neg",
                           .domain = "",
                           .version = 24,
                           .inputs = {"present.0.key"},
                           .outputs = {"looked_at"},
                           .attributes = {}});
    graph.outputs.push_back("looked_at");
    graph.values["looked_at"] = *graph.find("present.0.key");
    const Model model(graph);
    Session session = session_of(model);
    CHECK_FALSE(session.grows_in_place(0));
    CHECK(session.grows_in_place(2));
    std::vector<float> logits;
    for (const std::int64_t step : {3, 1, 16}) {
      const std::int64_t begin = session.length();
      append(logits, session.run(inputs_of(0, 1, begin, begin + step), {.threads = 1})[0], 0);
    }
    CHECK(same(logits, whole(model, 0, 20)));
  }
}

TEST_CASE("session: steps are the whole, bit for bit") {
  for (const DecoderOptions& options :
       {DecoderOptions{}, DecoderOptions{.through_identity = true}, DecoderOptions{.reads_length = true},
        DecoderOptions{.half = true}, DecoderOptions{.lowest = -std::numeric_limits<float>::infinity()}}) {
    const Decoder decoder(options);
    const Model model(decoder.graph());
    const auto ties = crumb::runtime::find_ties(model.graph());
    REQUIRE(ties.size() == 4);
    const auto first = whole(model, 0, 40), third = whole(model, 2, 40);
    for (const Ints& steps : {Ints{40}, Ints(40, 1), Ints{1, 17, 22}, Ints{16, 16, 8}, Ints{39, 1}}) {
      for (const int threads : {1, 2, 3, 7}) {
        Session session(model, ties);
        CHECK(session.grows_in_place(0) == !options.through_identity);
        REQUIRE(same(stepped(session, 1, steps, threads, 0), first));
        session.reset();
        REQUIRE(same(stepped(session, 3, steps, threads, 2), third));
      }
    }
  }
}

TEST_CASE("session: growing past its capacity again and again changes nothing") {
  const Model model(Decoder().graph());
  Session session = session_of(model);
  const auto expected = whole(model, 0, 200);
  CHECK(same(stepped(session, 1, Ints(20, 10), 2, 0), expected));
  CHECK(session.bytes() < 4 * 2 * 256 * 2 * 8 * sizeof(float));
  session.truncate(150);
  CHECK(session.length() == 150);
  const auto tail = stepped(session, 1, {30, 20}, 1, 0);
  CHECK(same(tail, {expected.end() - 50 * kWords, expected.end()}));
}

TEST_CASE("session: what is saved goes on elsewhere") {
  for (const DecoderOptions& options :
       {DecoderOptions{}, DecoderOptions{.through_identity = true}, DecoderOptions{.half = true}}) {
    const Decoder decoder(options);
    const Model model(decoder.graph());
    const auto expected = whole(model, 1, 30);
    Session one = session_of(model), other = session_of(model);
    stepped(one, 2, {13, 7}, 1, 1);
    const auto saved = one.save();
    CHECK(one.save() == saved);
    stepped(other, 3, {5}, 1, 1);
    other.restore(saved);
    CHECK(other.length() == 20);
    CHECK(other.save() == saved);
    CHECK(same(stepped(other, 2, {10}, 1, 1), {expected.end() - 10 * kWords, expected.end()}));
    one.truncate(7);
    CHECK(same(stepped(one, 2, {23}, 1, 1), {expected.begin() + 7 * kWords, expected.end()}));
    // Nothing is something that can be saved.
    Session empty = session_of(model);
    other.restore(empty.save());
    CHECK(other.length() == 0);
    CHECK(same(stepped(other, 2, {30}, 1, 1), expected));
  }
}

TEST_CASE("session: damaged and foreign bytes are refused, and change nothing") {
  const Model model(Decoder().graph());
  Session session = session_of(model);
  stepped(session, 1, {9}, 1, 0);
  const auto saved = session.save();
  for (std::size_t i = 0; i < saved.size(); i += 7) {
    auto bytes = saved;
    bytes[i] ^= std::byte{4};
    CHECK_THROWS_AS(session.restore(bytes), crumb::Error);
    bytes = saved;
    bytes.resize(i);
    CHECK_THROWS_AS(session.restore(bytes), crumb::Error);
  }
  CHECK(session.save() == saved);
  const Model half(Decoder({.half = true}).graph());
  Session other = session_of(half);
  CHECK(says(refusal([&] { other.restore(saved); }), {"past_key_values.0.key", "float16"}));
  Session less(model, {{"past_key_values.0.key", "present.0.key"}});
  CHECK(says(refusal([&] { less.restore(saved); }), {"4 values", "expected 1"}));
  Session small = session_of(model, 8);
  CHECK(says(refusal([&] { small.restore(saved); }), {"9 places are too many"}));
}

TEST_CASE("session: what it cannot do is said, and the places before stay") {
  const Model model(Decoder().graph());
  CHECK(says(refusal([&] { Session(model, {{"past", "logits"}}); }), {"no input 'past'"}));
  CHECK(says(refusal([&] { Session(model, {{"ids", "present"}}); }), {"no output 'present'"}));
  CHECK(says(refusal([&] { Session(model, {{"past_key_values.0.key", "present.0.key", 4}}); }), {"axis 4"}));
  CHECK(says(
      refusal([&] {
        Session(model, {{"past_key_values.0.key", "present.0.key"}, {"past_key_values.0.key", "logits"}});
      }),
      {"tied twice"}));
  Session session = session_of(model, 20);
  const auto expected = whole(model, 0, 20);
  stepped(session, 1, {12}, 1, 0);
  CHECK(says(refusal([&] { session.run(inputs_of(0, 2, 12, 13), {}); }), {"past_key_values.0.key", "found"}));
  CHECK(says(refusal([&] { session.run(inputs_of(0, 1, 12, 21), {}); }), {"attend0", "over the most of 20"}));
  CHECK(says(refusal([&] { session.run({}, {}); }), {"takes 3 inputs"}));
  CHECK(says(refusal([&] { session.truncate(13); }), {"12 places", "13"}));
  auto stale = session.complete(inputs_of(0, 1, 12, 14));
  session.truncate(11);
  CHECK(says(refusal([&] { session.run_complete(std::move(stale), {}); }), {"attend0", "has changed"}));
  auto lacking = inputs_of(0, 1, 11, 13);
  lacking[0] = ints({1, 2}, {3, 1000});  // no such word
  CHECK(refusal([&] { session.run(std::move(lacking), {}); }) != "");
  CHECK(session.length() == 11);
  CHECK(same(stepped(session, 1, {9}, 1, 0), {expected.begin() + 11 * kWords, expected.end()}));
}

TEST_CASE("session: its memory is the meter's while it runs, and limits stop it") {
  const Model model(Decoder().graph());
  Session session = session_of(model);
  const auto peak = [&](std::uint64_t memory, std::int64_t end) {
    const auto meter = std::make_shared<crumb::runtime::Meter>(crumb::runtime::Limits{.memory = memory});
    const crumb::runtime::MeterScope scope(meter);
    session.run(inputs_of(0, 1, session.length(), end), {.threads = 1});
    return meter->peak();
  };
  peak(std::uint64_t{1} << 30, 60);
  const std::uint64_t held = session.bytes();
  CHECK(held >= 4 * 60 * 2 * 8 * sizeof(float));
  CHECK(peak(std::uint64_t{1} << 30, 61) > held);
  CHECK_THROWS_AS(peak(held, 62), crumb::runtime::Stopped);
  CHECK_THROWS_AS(peak(held - 1, 62), crumb::runtime::Stopped);
  CHECK(session.length() == 61);
  const auto expected = whole(model, 0, 90);
  CHECK(same(stepped(session, 1, {29}, 1, 0), {expected.begin() + 61 * kWords, expected.end()}));
}

TEST_CASE("session: many sessions run one model at a time") {
  const Model model(Decoder().graph());
  std::vector<std::thread> threads;
  std::vector<int> right(4, 0);
  for (std::size_t t = 0; t < right.size(); ++t) {
    threads.emplace_back([&, t] {
      const auto b = static_cast<std::int64_t>(t % 3);
      const auto expected = whole(model, b, 24);
      Session session = session_of(model);
      for (int round = 0; round < 3; ++round) {
        session.reset();
        std::vector<float> logits;
        for (std::int64_t at = 0; at < 24; at += 4)
          append(logits, session.run(inputs_of(0, 3, at, at + 4), {.threads = 2})[0], b);
        right[t] += same(logits, expected) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(right == std::vector<int>(4, 3));
}

TEST_CASE("session: keys that a mask leaves out weigh nothing, whatever the batch beside") {
  const Model model(Decoder().graph());
  // Sequence 0 has two words less than sequence 1: padded at its end, and masked there.
  auto inputs = inputs_of(0, 2, 0, 12);
  const auto mask = inputs[2].writable<std::int64_t>();
  mask[10] = mask[11] = 0;
  Session session = session_of(model);
  const auto made = session.run(std::move(inputs), {});
  std::vector<float> logits;
  append(logits, made[0], 0);
  logits.resize(10 * kWords);
  CHECK(same(logits, whole(model, 0, 10)));
}
