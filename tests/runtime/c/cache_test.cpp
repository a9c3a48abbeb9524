// The C interface's cache: ties, steps, places, bytes; what is refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/crumb.h"
#include "tests/support/testing.h"

namespace {

constexpr std::int64_t kWordCount = 40;

/// The decoder beside this file, and a session of it.
struct Run {
  crumb_model* model = nullptr;
  crumb_session* session = nullptr;

  explicit Run(crumb_options options = {}) {
    const auto path = (crumb::testing::repo_root() / "tests/runtime/c/decoder.crumb").string();
    REQUIRE(crumb_open(path.c_str(), &model) == CRUMB_OK);
    REQUIRE(crumb_session_open(model, &options, &session) == CRUMB_OK);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run() {
    crumb_session_close(session);
    crumb_close(model);
  }

  /// `count` words more of one sequence.
  crumb_status step(std::int64_t count, std::vector<float>* logits = nullptr) const {
    const auto length = static_cast<std::int64_t>(crumb_cache_length(session));
    std::vector<std::int64_t> ids, positions;
    std::vector<float> mask;
    for (std::int64_t i = length; i < length + count; ++i) {
      ids.push_back(i * 7 % kWordCount);
      positions.push_back(i);
      for (std::int64_t j = 0; j < length + count; ++j) mask.push_back(j <= i ? 0.0F : -1e9F);
    }
    const std::int64_t words[] = {1, count}, places[] = {1, 1, count, length + count};
    const crumb_tensor inputs[] = {
        {CRUMB_INT64, 2, words, ids.data(), ids.size() * sizeof(ids[0])},
        {CRUMB_INT64, 2, words, positions.data(), positions.size() * sizeof(positions[0])},
        {CRUMB_FLOAT32, 4, places, mask.data(), mask.size() * sizeof(mask[0])}};
    if (const crumb_status status = crumb_run(session, inputs, 3); status != CRUMB_OK) return status;
    crumb_tensor output;
    if (const crumb_status status = crumb_result(session, 0, &output); status != CRUMB_OK) return status;
    const auto* values = static_cast<const float*>(output.data);
    const std::size_t made = output.bytes / sizeof(float);
    if (logits) logits->insert(logits->end(), values, values + made);
    return CRUMB_OK;
  }
};

bool error_says(const char* text) { return std::string(crumb_error()).find(text) != std::string::npos; }

TEST_CASE("a cache lives across runs, and is cut, saved and restored") {
  const Run whole, run;
  std::size_t ties = 0;
  REQUIRE(crumb_cache_open(whole.session, 0, nullptr) == CRUMB_OK);
  REQUIRE(crumb_cache_open(run.session, 0, &ties) == CRUMB_OK);
  CHECK(ties == 4);
  for (std::size_t i = 0; i < crumb_input_count(run.model); ++i)
    CHECK(crumb_cache_holds_input(run.session, i) == (i >= 3 ? 1 : 0));
  CHECK(crumb_cache_holds_output(run.session, 0) == 0);
  CHECK(crumb_cache_holds_output(run.session, 4) == 1);
  std::vector<float> expected, logits;
  REQUIRE(whole.step(25, &expected) == CRUMB_OK);
  for (const std::int64_t count : {9, 1, 15}) REQUIRE(run.step(count, &logits) == CRUMB_OK);
  CHECK(logits == expected);
  CHECK(crumb_cache_length(run.session) == 25);
  CHECK(crumb_cache_memory(run.session) > 0);
  crumb_tensor output;
  CHECK(crumb_result(run.session, 1, &output) == CRUMB_ERROR_ARGUMENT);
  CHECK(error_says("the cache holds this output"));

  const void* bytes = nullptr;
  std::size_t size = 0;
  REQUIRE(crumb_cache_truncate(run.session, 10) == CRUMB_OK);
  REQUIRE(crumb_cache_save(run.session, &bytes, &size) == CRUMB_OK);
  const Run other;
  REQUIRE(crumb_cache_open(other.session, 0, nullptr) == CRUMB_OK);
  REQUIRE(crumb_cache_restore(other.session, bytes, size) == CRUMB_OK);
  CHECK(crumb_cache_length(other.session) == 10);
  for (const Run* one : {&run, &other}) {
    std::vector<float> rest;
    REQUIRE(one->step(15, &rest) == CRUMB_OK);
    CHECK(std::equal(rest.begin(), rest.end(), expected.end() - static_cast<std::ptrdiff_t>(rest.size())));
  }
  CHECK(crumb_cache_restore(other.session, bytes, size - 1) == CRUMB_ERROR_INPUT);
  CHECK(crumb_cache_length(other.session) == 25);
  REQUIRE(crumb_cache_reset(other.session) == CRUMB_OK);
  CHECK(crumb_cache_length(other.session) == 0);
}

TEST_CASE("ties by name do what those that are found do") {
  const Run found, named;
  REQUIRE(crumb_cache_open(found.session, 0, nullptr) == CRUMB_OK);
  for (const std::string part : {"0.key", "0.value", "1.key", "1.value"})
    REQUIRE(crumb_cache_tie(named.session, ("past_key_values." + part).c_str(), ("present." + part).c_str(),
                            2) == CRUMB_OK);
  std::vector<float> a, b;
  for (const std::int64_t count : {3, 4}) {
    REQUIRE(found.step(count, &a) == CRUMB_OK);
    REQUIRE(named.step(count, &b) == CRUMB_OK);
  }
  CHECK(a == b);
}

TEST_CASE("what a cache cannot do is said") {
  const Run run;
  const void* bytes = nullptr;
  std::size_t size = 0;
  CHECK(crumb_cache_truncate(run.session, 0) == CRUMB_ERROR_ARGUMENT);
  CHECK(error_says("no cache"));
  CHECK(crumb_cache_save(run.session, &bytes, &size) == CRUMB_ERROR_ARGUMENT);
  CHECK(crumb_cache_open(nullptr, 0, nullptr) == CRUMB_ERROR_ARGUMENT);
  CHECK(crumb_cache_open(run.session, ~std::uint64_t{0}, nullptr) == CRUMB_ERROR_ARGUMENT);
  CHECK(crumb_cache_tie(run.session, "past", "logits", 2) == CRUMB_ERROR_ARGUMENT);
  CHECK(error_says("no input 'past'"));
  CHECK(crumb_cache_tie(run.session, nullptr, "logits", 2) == CRUMB_ERROR_ARGUMENT);
  CHECK(crumb_cache_length(nullptr) == 0);
  CHECK(crumb_cache_memory(run.session) == 0);
  REQUIRE(crumb_cache_open(run.session, 6, nullptr) == CRUMB_OK);
  CHECK(crumb_cache_truncate(run.session, 1) == CRUMB_ERROR_ARGUMENT);
  CHECK(crumb_cache_truncate(run.session, ~std::uint64_t{0}) == CRUMB_ERROR_ARGUMENT);
  CHECK(crumb_cache_save(run.session, nullptr, &size) == CRUMB_ERROR_ARGUMENT);
  CHECK(crumb_cache_restore(run.session, nullptr, 0) == CRUMB_ERROR_ARGUMENT);
  CHECK(crumb_cache_restore(run.session, "crumb-kv", 8) == CRUMB_ERROR_INPUT);
  REQUIRE(run.step(6) == CRUMB_OK);
  CHECK(run.step(1) == CRUMB_ERROR_RUN);
  CHECK(error_says("over the most of 6"));
  CHECK(crumb_run(run.session, nullptr, 0) == CRUMB_ERROR_INPUT);
  CHECK(error_says("takes 3 inputs beside those that it holds"));
  CHECK(crumb_cache_length(run.session) == 6);
  const Run small(crumb_options{.threads = 1, .memory = 40'000, .work = 0});
  REQUIRE(crumb_cache_open(small.session, 0, nullptr) == CRUMB_OK);
  REQUIRE(small.step(2) == CRUMB_OK);
  CHECK(small.step(60) == CRUMB_ERROR_LIMIT);
  CHECK(crumb_cache_length(small.session) == 2);
}

}  // namespace
