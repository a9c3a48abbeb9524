// Decoders whose later layers attend over an earlier layer's keys and values: they give what the same decoder
// gives that computes these twice, at once and in steps, with caches in floats and in codes, and each cache
// is kept once.
#include <doctest/doctest.h>

#include <cstring>

#include "base/error.h"
#include "graph/packed/crumb_graph.h"
#include "graph/quantize/key_cache.h"
#include "quant/quant_spec.h"
#include "runtime/model.h"
#include "runtime/session.h"
#include "tests/models/shared_decoder.h"
#include "tests/runtime/session_walk.h"
#include "tests/support/testing.h"

namespace {

using crumb::DecoderConfig;
using crumb::graph::Graph;
using crumb::runtime::Array;
using crumb::runtime::Ints;
using RunModel = crumb::runtime::Model;
using crumb::runtime::Session;
using crumb::testing::kSharedWords;

constexpr std::int64_t kLongest = 70;

Array numbers(Ints shape, const std::function<std::int64_t(std::int64_t)>& number) {
  Array made(crumb::graph::ElementType::kInt64, std::move(shape));
  std::int64_t i = 0;
  for (std::int64_t& value : made.writable<std::int64_t>()) value = number(i++);
  return made;
}

std::vector<Array> text(std::int64_t begin, std::int64_t end) {
  return {
      numbers({1, end - begin}, [&](std::int64_t i) { return (begin + i) * (begin + i + 5) % kSharedWords; }),
      numbers({1, end}, [](std::int64_t) { return 1; }),
      numbers({1, end - begin}, [&](std::int64_t i) { return begin + i; })};
}

std::vector<float> floats_of(const Array& logits) {
  return {logits.values<float>().begin(), logits.values<float>().end()};
}

bool same_bits(const std::vector<float>& a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Without a session: what is kept is in floats.
std::vector<float> logits_at_once(const RunModel& model) {
  std::vector<Array> inputs = text(0, kLongest);
  for (std::size_t i = inputs.size(); i < model.graph().inputs.size(); ++i) {
    const auto shape = model.graph().shape_of(model.graph().inputs[i]).value();
    inputs.emplace_back(crumb::graph::ElementType::kFloat, Ints{1, shape[1].size, 0, shape[3].size});
  }
  return floats_of(model.run(std::move(inputs), {.threads = 2})[0]);
}

Session session_on(const RunModel& model) { return Session(model, crumb::runtime::find_ties(model.graph())); }

std::vector<float> go_on(Session& session, std::int64_t step, int threads) {
  const std::int64_t begin = session.length();
  return floats_of(session.run(text(begin, begin + step), {.threads = threads})[0]);
}

Graph with_cache(Graph graph, const std::string& spec) {
  return spec.empty() ? graph : with_quantized_cache(std::move(graph), crumb::QuantSpec::parse_cache(spec));
}

Graph written_and_read(const Graph& graph) {
  const crumb::testing::TempDir folder;
  crumb::graph::write_crumb_graph(graph, folder.path() / "decoder.crumb");
  return crumb::graph::read_crumb_graph(folder.path() / "decoder.crumb");
}

std::string what_is_wrong(const DecoderConfig& config) {
  try {
    crumb::testing::shared_decoder(config, 1);
    return "";
  } catch (const crumb::Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE(
    "decoders that share keys and values: logits of projections computed twice, one cache for all who read "
    "it") {
  std::mt19937 random(77);
  const std::array<std::string, 6> specs = {"",       "int8",        "int4:group=4",
                                            "e4m3fn", "int8:rotate", "int4:rotate"};
  for (unsigned round = 0; round < 36; ++round) {
    const std::string spec = specs[round % specs.size()];
    CAPTURE(spec);
    CAPTURE(round);
    const DecoderConfig config = crumb::testing::drawn_decoder(random, true);
    CAPTURE(config.model_type);
    const std::size_t layers = config.layers.size(), own = crumb::testing::layers_with_own(config);
    const Graph shared = with_cache(crumb::testing::shared_decoder(config, round), spec);
    const RunModel model(round % 3 == 0 ? written_and_read(shared) : shared),
        plain(crumb::testing::shared_decoder(config, round)),
        twice(with_cache(crumb::testing::with_projections_twice(config, round), spec));
    const std::vector<float> expected = logits_at_once(twice);
    REQUIRE(same_bits(logits_at_once(model), expected));
    CHECK(same_bits(logits_at_once(plain), expected) == spec.empty());

    Session session = session_on(model), fresh = session_on(model), apart = session_on(twice),
            floats = session_on(plain);
    REQUIRE(fresh.ties().size() == 2 * own);
    for (std::size_t i = 0; i < fresh.ties().size(); ++i) CHECK(fresh.grows_in_place(i));
    for (const std::int64_t step : {std::int64_t{1}, std::int64_t{30}, kLongest - 31}) {
      const auto begin = static_cast<std::size_t>(fresh.length() * kSharedWords);
      const auto meant = std::span(expected).subspan(begin, static_cast<std::size_t>(step * kSharedWords));
      for (Session* one : {&fresh, &apart}) REQUIRE(same_bits(go_on(*one, step, 2), meant));
      go_on(floats, step, 2);
    }
    CHECK(fresh.bytes() * layers == apart.bytes() * own);
    // Heads of 8 numbers: at most a byte for each, and a scale for four.
    CHECK(fresh.bytes() <= (spec.empty() ? floats.bytes() : floats.bytes() / 2));

    const crumb::testing::SessionWalk walk{
        .places = kLongest,
        .work = 60000,
        .open = [&] { return session_on(model); },
        .run =
            [&](Session& one, std::int64_t step, int threads) {
              const auto begin = static_cast<std::size_t>(one.length() * kSharedWords);
              const auto count = static_cast<std::size_t>(step * kSharedWords);
              const std::vector<float> made = go_on(one, step, threads);  // may be stopped
              REQUIRE(same_bits(made, std::span(expected).subspan(begin, count)));
            }};
    walk(random, session, 16);
  }
}

TEST_CASE("decoders that share keys and values: a layer without its own has no projections of them") {
  std::mt19937 random(5);
  const DecoderConfig config = crumb::testing::drawn_decoder(random, true);
  crumb::testing::DrawnWeights weights(1);
  const Graph graph = crumb::models::build_decoder(weights, config);
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const std::string name = "model.layers." + std::to_string(i) + ".self_attn.";
    for (const char* part : {"k_proj.weight", "v_proj.weight"})
      CHECK(weights.asked.contains(name + part) == !config.layers[i].kv_source);
    CHECK(weights.asked.contains(name + "q_proj.weight"));
  }
}

TEST_CASE("decoders that share keys and values: sources that are none are refused") {
  std::mt19937 random(6);
  DecoderConfig config = crumb::testing::drawn_decoder(random, false);
  config.layers.resize(3);
  CHECK(what_is_wrong(config).empty());
  const auto with = [&](std::size_t layer, std::size_t source) {
    DecoderConfig made = config;
    made.layers[1].kv_source = 0;
    made.layers[layer].kv_source = source;
    return what_is_wrong(made);
  };
  CHECK(with(2, 0).empty());
  CHECK(with(2, 1) == "layer 2 takes keys and values of layer 1, expected an earlier layer that has its own");
  CHECK(with(2, 2).find("layer 2 takes keys and values of layer 2") == 0);
  CHECK(with(0, 2).find("layer 0 takes keys and values of layer 2") == 0);
  CHECK(with(2, 9).find("expected an earlier layer") != std::string::npos);
  config.fused = true;
  CHECK(with(2, 0).find("where its projections are one matrix") != std::string::npos);
}
