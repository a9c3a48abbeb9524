#include "base/files/inflate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>

#include "tests/formats/zip/samples.h"

namespace crumb {
namespace {

using testing::bytes_of;
using testing::deflated;

std::string some_text(std::mt19937& random, std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) {
    const std::size_t run = 1 + random() % 40;
    if (random() % 3 == 0 || text.empty())
      for (std::size_t i = 0; i < run; ++i) text += static_cast<char>(random());
    else
      text += text.substr(random() % text.size(), run);
  }
  text.resize(bytes);
  return text;
}

TEST_CASE("any pieces in and out give the same bytes") {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    const std::string plain = some_text(random, round == 0 ? 0 : random() % 200'000 / (1 + random() % 100));
    const std::string coded = deflated(plain, static_cast<int>(random() % 10));
    const std::size_t most = std::size_t{1} << (random() % 18);
    Inflater inflater;
    std::string decoded;
    std::size_t used = 0;
    for (bool ended = false; !ended;) {
      std::string out(random() % (most + 1), '\0');
      const std::string in = coded.substr(used, random() % (most + 1));
      const Inflater::Step step = inflater.step(bytes_of(in), std::as_writable_bytes(std::span(out))).take();
      REQUIRE(step.consumed <= in.size());
      REQUIRE(step.produced <= out.size());
      // Something is used up: either there is no more to decode from or no room to decode to.
      REQUIRE((step.ended || step.consumed == in.size() || step.produced == out.size()));
      used += step.consumed;
      decoded += out.substr(0, step.produced);
      ended = step.ended;
      if (round % 7 == 0) {
        Inflater moved = std::move(inflater);
        inflater = std::move(moved);
      }
    }
    REQUIRE(decoded == plain);
    REQUIRE(used == coded.size());
  }
}

TEST_CASE("the end is seen without room, and what follows it is left alone") {
  const std::string coded = deflated("four") + "next";
  Inflater inflater;
  std::string out(4, '\0');
  Inflater::Step step = inflater.step(bytes_of(coded), std::as_writable_bytes(std::span(out))).take();
  CHECK(step.produced == 4);
  CHECK(out == "four");
  if (!step.ended) {
    const std::size_t used = step.consumed;
    step = inflater.step(bytes_of(coded).subspan(used), {}).take();
    step.consumed += used;
  }
  CHECK(step.ended);
  CHECK(step.consumed == coded.size() - 4);
  step = inflater.step(bytes_of(coded), std::as_writable_bytes(std::span(out))).take();
  CHECK(step.ended);
  CHECK(step.consumed == 0);
  CHECK(step.produced == 0);
}

TEST_CASE("damaged streams fail or decode to something, within their room") {
  std::mt19937 random(13);
  const std::string plain = some_text(random, 3000);
  const std::string good = deflated(plain);
  int failed = 0;
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string coded = good;
    coded[bit / 8] = static_cast<char>(coded[bit / 8] ^ (1 << (bit % 8)));
    Inflater inflater;
    std::vector<std::byte> out(4000);
    const Result<Inflater::Step> step = inflater.step(bytes_of(coded), out);
    if (!step.ok()) {
      ++failed;
      REQUIRE(step.failure().message.starts_with("the compressed data is damaged"));
    }
  }
  CHECK(failed > 0);
  Inflater inflater;
  std::vector<std::byte> out(10);
  CHECK_FALSE(inflater.step(bytes_of("\7\7\7\7"), out).ok());
  // And goes on failing.
  CHECK_FALSE(inflater.step(bytes_of(good), out).ok());
}

}  // namespace
}  // namespace crumb
