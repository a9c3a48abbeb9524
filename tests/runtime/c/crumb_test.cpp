// The C interface: what it gives, what it refuses, and many threads on one model.
#include "runtime/crumb.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/testing.h"

namespace {

struct Close {
  void operator()(crumb_model* model) const { crumb_close(model); }
  void operator()(crumb_session* session) const { crumb_session_close(session); }
};
using Model = std::unique_ptr<crumb_model, Close>;
using Session = std::unique_ptr<crumb_session, Close>;

std::string network() { return (crumb::testing::repo_root() / "examples/digits/digits_cnn.crumb").string(); }

Model opened() {
  crumb_model* model = nullptr;
  REQUIRE(crumb_open(network().c_str(), &model) == CRUMB_OK);
  return Model(model);
}

Session session_of(const Model& model, crumb_options options = {}) {
  crumb_session* session = nullptr;
  REQUIRE(crumb_session_open(model.get(), &options, &session) == CRUMB_OK);
  return Session(session);
}

struct Digits {
  std::vector<int> labels;
  std::vector<float> pixels;

  Digits() {
    std::ifstream file(crumb::testing::repo_root() / "examples/digits/digits.txt");
    for (std::string line; std::getline(file, line);) {
      if (line.empty() || line[0] == '#') continue;
      std::istringstream numbers(line);
      int label = 0;
      numbers >> label;
      labels.push_back(label);
      for (float pixel = 0; numbers >> pixel;) pixels.push_back(pixel);
    }
    REQUIRE(labels.size() >= 100);
    REQUIRE(pixels.size() == 64 * labels.size());
  }
  std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }
};

/// The scores of the first `count` digits from `first` on; the status where that fails.
crumb_status scores_of(crumb_session* session, const Digits& digits, std::int64_t first, std::int64_t count,
                       std::vector<float>& scores) {
  const std::int64_t shape[] = {count, 1, 8, 8};
  const crumb_tensor input = {CRUMB_FLOAT32, 4, shape, digits.pixels.data() + 64 * first,
                              static_cast<std::size_t>(count) * 64 * sizeof(float)};
  if (const crumb_status status = crumb_run(session, &input, 1); status != CRUMB_OK) return status;
  crumb_tensor output;
  if (const crumb_status status = crumb_result(session, 0, &output); status != CRUMB_OK) return status;
  const auto* values = static_cast<const float*>(output.data);
  scores.assign(values, values + output.bytes / sizeof(float));
  return CRUMB_OK;
}

TEST_CASE("a packed network says what it takes, and classifies digits") {
  const Model model = opened();
  REQUIRE(crumb_input_count(model.get()) == 1);
  REQUIRE(crumb_output_count(model.get()) == 1);
  crumb_value value;
  REQUIRE(crumb_input(model.get(), 0, &value) == CRUMB_OK);
  CHECK(std::string(value.name) == "input");
  CHECK(value.type == CRUMB_FLOAT32);
  REQUIRE(value.rank == 4);
  CHECK(value.shape[0] == -1);
  CHECK(std::string(value.symbols[0]) == "batch");
  CHECK(value.shape[3] == 8);
  CHECK(std::string(value.symbols[3]).empty());
  REQUIRE(crumb_output(model.get(), 0, &value) == CRUMB_OK);
  CHECK(value.shape[1] == 10);

  const Digits digits;
  const Session session = session_of(model);
  std::vector<float> all;
  REQUIRE(scores_of(session.get(), digits, 0, digits.size(), all) == CRUMB_OK);
  REQUIRE(all.size() == 10 * digits.labels.size());
  int right = 0;
  for (std::size_t i = 0; i < digits.labels.size(); ++i) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(10 * i);
    right += std::max_element(first, first + 10) - first == digits.labels[i] ? 1 : 0;
  }
  CHECK(right >= digits.size() * 98 / 100);
  CHECK(crumb_work(session.get()) > 100'000);
  CHECK(crumb_peak_memory(session.get()) > 4 * 64 * digits.labels.size());

  // One by one, and from memory: the same bits.
  std::ifstream file(network(), std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  crumb_model* from_memory = nullptr;
  REQUIRE(crumb_open_memory(bytes.data(), bytes.size(), &from_memory) == CRUMB_OK);
  const Model other(from_memory);
  std::ranges::fill(bytes, '\0');  // may be gone after the call
  const Session alone = session_of(other, {.threads = 1});
  for (std::int64_t i = 0; i < digits.size(); ++i) {
    std::vector<float> one;
    REQUIRE(scores_of(alone.get(), digits, i, 1, one) == CRUMB_OK);
    REQUIRE(std::memcmp(one.data(), all.data() + 10 * i, 10 * sizeof(float)) == 0);
  }
}

TEST_CASE("sessions of many threads share a model, and live longer") {
  const Digits digits;
  std::vector<float> expected;
  Model model = opened();
  REQUIRE(scores_of(session_of(model).get(), digits, 0, digits.size(), expected) == CRUMB_OK);
  std::vector<Session> sessions;
  for (int i = 0; i < 4; ++i) sessions.push_back(session_of(model, {.threads = 1 + i % 2}));
  model.reset();
  std::vector<std::thread> threads;
  std::atomic<int> same{0};
  for (const Session& session : sessions) {
    threads.emplace_back([&] {
      for (int round = 0; round < 3; ++round) {
        std::vector<float> scores;
        same += scores_of(session.get(), digits, 0, digits.size(), scores) == CRUMB_OK && scores == expected
                    ? 1
                    : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(same == 12);
}

TEST_CASE("runs end at their limits, and go on where there are none") {
  const Digits digits;
  const Model model = opened();
  std::vector<float> scores;
  const Session small = session_of(model, {.memory = 20'000});
  CHECK(scores_of(small.get(), digits, 0, 100, scores) == CRUMB_ERROR_LIMIT);
  CHECK(std::string(crumb_error()).find("over the limit of 20000 bytes") != std::string::npos);
  crumb_tensor output;
  CHECK(crumb_result(small.get(), 0, &output) == CRUMB_ERROR_ARGUMENT);
  CHECK(scores_of(small.get(), digits, 0, 1, scores) == CRUMB_OK);
  CHECK(crumb_peak_memory(small.get()) <= 20'000);
  const Session lazy = session_of(model, {.work = 100'000});
  CHECK(scores_of(lazy.get(), digits, 0, 1, scores) == CRUMB_ERROR_LIMIT);
  CHECK(std::string(crumb_error()).find("more work than the limit of 100000") != std::string::npos);
  CHECK(crumb_work(lazy.get()) <= 100'000);
}

TEST_CASE("a run that is cancelled from another thread ends, and the next one does not") {
  const Digits digits;
  const Model model = opened();
  const Session session = session_of(model, {.threads = 1});
  std::atomic<bool> done{false};
  std::thread canceller([&] {
    while (!done) crumb_cancel(session.get());
  });
  std::vector<float> scores;
  crumb_status status = CRUMB_OK;
  for (int round = 0; round < 1000 && status == CRUMB_OK; ++round)
    status = scores_of(session.get(), digits, 0, digits.size(), scores);
  done = true;
  canceller.join();
  CHECK(status == CRUMB_ERROR_CANCELLED);
  CHECK(scores_of(session.get(), digits, 0, 1, scores) == CRUMB_OK);
}

TEST_CASE("what is wrong is said, and nothing is written") {
  crumb_model* model = nullptr;
  CHECK(crumb_open("/no/such/file.crumb", &model) == CRUMB_ERROR_FILE);
  CHECK(std::string(crumb_error()).find("/no/such/file.crumb") != std::string::npos);
  CHECK(crumb_open_memory("hello", 5, &model) == CRUMB_ERROR_FILE);
  CHECK(crumb_open(nullptr, &model) == CRUMB_ERROR_ARGUMENT);
  CHECK(crumb_open_memory(nullptr, 5, &model) == CRUMB_ERROR_ARGUMENT);
  const auto checkpoint = (crumb::testing::repo_root() / "tests/fixtures/crumb/v1.crumb").string();
  CHECK(crumb_open(checkpoint.c_str(), &model) == CRUMB_ERROR_FILE);
  CHECK(std::string(crumb_error()).find("expected a graph") != std::string::npos);
  CHECK(model == nullptr);
  crumb_close(nullptr);
  crumb_session_close(nullptr);

  const Model sound = opened();
  crumb_value value = {"untouched", CRUMB_INT8, 7, nullptr, nullptr};
  CHECK(crumb_input(sound.get(), 1, &value) == CRUMB_ERROR_ARGUMENT);
  CHECK(crumb_output(sound.get(), 9, &value) == CRUMB_ERROR_ARGUMENT);
  CHECK(std::string(value.name) == "untouched");
  crumb_session* none = nullptr;
  const crumb_options negative = {.threads = -1};
  CHECK(crumb_session_open(sound.get(), &negative, &none) == CRUMB_ERROR_ARGUMENT);
  CHECK(none == nullptr);

  const Session session = session_of(sound);
  const std::vector<float> pixels(128, 1.0F);
  const auto status_of = [&](crumb_type type, std::vector<std::int64_t> shape, std::size_t bytes) {
    const crumb_tensor input = {type, shape.size(), shape.data(), pixels.data(), bytes};
    return crumb_run(session.get(), &input, 1);
  };
  CHECK(status_of(CRUMB_FLOAT32, {1, 1, 8, 8}, 256) == CRUMB_OK);
  CHECK(status_of(CRUMB_FLOAT32, {1, 1, 8, 8}, 255) == CRUMB_ERROR_INPUT);
  CHECK(std::string(crumb_error()).find("input 'input'") != std::string::npos);
  CHECK(status_of(CRUMB_FLOAT32, {1, 1, 8, 4}, 128) == CRUMB_ERROR_INPUT);
  CHECK(std::string(crumb_error()).find("expected float [batch, 1, 8, 8], found float [1, 1, 8, 4]") !=
        std::string::npos);
  CHECK(status_of(CRUMB_FLOAT32, {64}, 256) == CRUMB_ERROR_INPUT);
  CHECK(status_of(CRUMB_FLOAT32, {1, 1, 8, -8}, 0) == CRUMB_ERROR_INPUT);
  CHECK(status_of(CRUMB_FLOAT32, {std::int64_t{1} << 60, 1, 8, 8}, 256) == CRUMB_ERROR_INPUT);
  CHECK(status_of(CRUMB_INT8, {1, 1, 8, 8}, 64) == CRUMB_ERROR_INPUT);
  CHECK(status_of(99, {1, 1, 8, 8}, 64) == CRUMB_ERROR_INPUT);
  CHECK(status_of(8, {1, 1, 8, 8}, 64) == CRUMB_ERROR_INPUT);  // strings
  CHECK(crumb_run(session.get(), nullptr, 0) == CRUMB_ERROR_INPUT);
  CHECK(std::string(crumb_error()).find("takes 1 input") != std::string::npos);
  CHECK(crumb_run(session.get(), nullptr, 1) == CRUMB_ERROR_ARGUMENT);
  crumb_tensor output;
  CHECK(crumb_result(session.get(), 0, &output) == CRUMB_ERROR_ARGUMENT);
  CHECK(status_of(CRUMB_FLOAT32, {0, 1, 8, 8}, 0) == CRUMB_OK);  // nothing gives nothing
  REQUIRE(crumb_result(session.get(), 0, &output) == CRUMB_OK);
  CHECK(output.bytes == 0);
  CHECK(crumb_result(session.get(), 1, &output) == CRUMB_ERROR_ARGUMENT);
}

TEST_CASE("damaged files are refused or run, and nothing else") {
  std::ifstream file(network(), std::ios::binary);
  const std::string sound{std::istreambuf_iterator<char>(file), {}};
  int refused = 0;
  for (std::size_t i = 0; i < 400; ++i) {
    std::string bytes = sound;
    if (i % 4 == 0) {
      bytes.resize(i * sound.size() / 400);
    } else {
      bytes[i * 7919 % bytes.size()] ^= static_cast<char>(1 << (i % 8));
    }
    crumb_model* model = nullptr;
    const crumb_status status = crumb_open_memory(bytes.data(), bytes.size(), &model);
    CHECK((status == CRUMB_ERROR_FILE) == (model == nullptr));
    refused += status == CRUMB_ERROR_FILE ? 1 : 0;
    crumb_close(model);
  }
  CHECK(refused == 400);  // every byte stands under a checksum
}

}  // namespace
