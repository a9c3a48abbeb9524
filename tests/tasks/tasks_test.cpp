// The data of the tasks: sizes, balance, and the same numbers on every machine.
#include <doctest/doctest.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <set>

#include "formats/npy/npy.h"
#include "tasks/digits.h"
#include "tasks/jets.h"
#include "tasks/lines.h"
#include "tasks/photographs.h"
#include "tasks/random.h"
#include "tests/support/samples.h"
#include "tests/support/testing.h"

namespace crumb::tasks {
namespace {

using crumb::testing::says;

template <class T>
std::uint32_t checksum(const std::vector<T>& values) {
  return static_cast<std::uint32_t>(::crc32(0, reinterpret_cast<const Bytef*>(values.data()),
                                            static_cast<uInt>(values.size() * sizeof(T))));
}

std::array<int, 10> histogram(const Samples& samples) {
  std::array<int, 10> counts{};
  for (const std::int64_t label : samples.labels) ++counts.at(static_cast<std::size_t>(label));
  return counts;
}

/// A table of digits: pixels and labels by a formula.
std::string made_digits(int rows) {
  std::string text;
  for (int row = 0; row < rows; ++row) {
    for (int pixel = 0; pixel < 64; ++pixel) text += std::to_string((row * 31 + pixel * 7) % 17) + ",";
    text += std::to_string(row % 10) + "\n";
  }
  return text;
}

std::string refusal(const std::filesystem::path& folder, const std::string& text) {
  std::ofstream(folder / "digits.csv") << text;
  const auto read = read_digits(folder / "digits.csv");
  return read.ok() ? "" : read.failure().message;
}

}  // namespace

TEST_CASE("random: golden numbers of SplitMix64's streams") {
  Random random(0);
  const std::array<std::uint64_t, 3> first{random.bits(), random.bits(), random.bits()};
  Random again(0);
  CHECK(again.bits() == first[0]);
  CHECK(Random(0, 1).bits() != first[0]);
  CHECK(Random(1).bits() != first[0]);
  CHECK(first[0] == 0x346dbc0b5711d830U);
  CHECK(first[2] == 0x6e2758640b1bd75bU);
}

TEST_CASE("random: uniform and normal numbers have the moments they should, permutations are permutations") {
  Random random(7);
  constexpr int kDraws = 100000;
  double sum = 0, squares = 0, uniform = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = random.normal(), u = random.uniform();
    CHECK_MESSAGE((u >= 0 && u < 1), u);
    sum += x;
    squares += x * x;
    uniform += u;
  }
  CHECK(std::fabs(sum / kDraws) < 0.015);
  CHECK(std::fabs(squares / kDraws - 1) < 0.02);
  CHECK(std::fabs(uniform / kDraws - 0.5) < 0.005);
  for (const std::size_t n : {0U, 1U, 2U, 1000U}) {
    const auto order = random.permutation(n);
    CHECK(std::set<std::int64_t>(order.begin(), order.end()).size() == n);
    if (n > 0) CHECK(*std::ranges::max_element(order) == static_cast<std::int64_t>(n) - 1);
  }
  std::array<int, 6> faces{};
  for (int i = 0; i < 60000; ++i) ++faces[random.below(6)];
  for (const int count : faces) CHECK(std::abs(count - 10000) < 500);
}

TEST_CASE("jets: sizes, balance, the same bits everywhere") {
  const Split jets = make_jets();
  CHECK(jets.train.shape == std::vector<std::int64_t>{16});
  CHECK(jets.train.size() == 18000);
  CHECK(jets.test.size() == 6000);
  CHECK(jets.train.inputs.size() == 18000 * 16);
  for (int label = 0; label < 5; ++label) {
    CHECK(histogram(jets.train)[static_cast<std::size_t>(label)] == 3600);
    CHECK(histogram(jets.test)[static_cast<std::size_t>(label)] == 1200);
  }
  CHECK(checksum(jets.train.inputs) == 0xdb61d544U);
  CHECK(checksum(jets.test.inputs) == 0x1afd136bU);
  CHECK(checksum(make_jets(2).train.inputs) != checksum(jets.train.inputs));
  CHECK(checksum(make_jets().train.inputs) == checksum(jets.train.inputs));
  for (const float x : jets.train.inputs) REQUIRE(std::fabs(x) < 1.5F);
}

TEST_CASE("digits: every fifth row is a test image") {
  const crumb::testing::TempDir folder;
  std::ofstream(folder.path() / "digits.csv") << made_digits(23);
  const Split split = read_digits(folder.path() / "digits.csv").take();
  CHECK(split.train.size() == 19);
  CHECK(split.test.size() == 4);
  CHECK(split.test.labels == std::vector<std::int64_t>{4, 9, 4, 9});
  CHECK(split.test.inputs[1] == static_cast<float>((4 * 31 + 7) % 17));
  CHECK(split.train.inputs[4 * 64] == static_cast<float>(5 * 31 % 17));
}

TEST_CASE("digits: the real set") {
  const char* cache = std::getenv("CRUMB_CACHE");
  const char* home = std::getenv("HOME");
  const std::filesystem::path folder = cache ? std::filesystem::path(cache) / "data"
                                             : std::filesystem::path(home ? home : "") / ".cache/crumb/data";
  if (!std::filesystem::exists(folder / kDigitsFile))
    return crumb::testing::skip("digits.csv.gz is not there");
  const Split split = read_digits(folder / kDigitsFile).take();
  CHECK(split.train.size() == 1438);
  CHECK(split.test.size() == 359);
  for (const int count : histogram(split.train)) CHECK(std::abs(count - 144) < 20);
  CHECK(*std::ranges::max_element(split.train.inputs) == 16);
}

TEST_CASE("digits: tables that are none") {
  const crumb::testing::TempDir folder;
  CHECK(says(refusal(folder.path(), "1,2,3\n"), {"digits.csv", "3 numbers", "64 pixels"}));
  CHECK(says(refusal(folder.path(), made_digits(4)), {"4 rows", "5 or more"}));
  std::string text = made_digits(6);
  CHECK(says(refusal(folder.path(), "17" + text.substr(1)), {"row 0", "pixel 17"}));
  CHECK(says(refusal(folder.path(), "0.5" + text.substr(1)), {"row 0", "pixel 0.5"}));
  text.replace(text.size() - 2, 1, "10");
  CHECK(says(refusal(folder.path(), text), {"row 5", "label 10"}));
}

TEST_CASE("lines: digits side by side, in order, with their labels") {
  Samples digits{.shape = {64}, .inputs = {}, .labels = {}};
  for (int d = 0; d < 10; ++d) {
    digits.inputs.insert(digits.inputs.end(), 64, static_cast<float>(d + 1));
    digits.labels.push_back(d);
  }
  const Samples lines = make_lines(digits, 300, 3);
  CHECK(lines.inputs.size() == 300U * kLineColumns * kLineRows);
  CHECK(lines.labels.size() == 300U * kMostDigits);
  for (std::size_t line = 0; line < 300; ++line) {
    // What stands in the columns, each digit once for its eight columns, is what the labels say.
    std::vector<std::int64_t> read;
    for (std::size_t t = 0; t < kLineColumns;) {
      const float value = lines.inputs[(line * kLineColumns + t) * kLineRows];
      if (value == 0) {
        ++t;
        continue;
      }
      read.push_back(static_cast<std::int64_t>(value) - 1);
      t += 8;
    }
    std::vector<std::int64_t> wanted;
    for (std::size_t i = 0; i < kMostDigits; ++i) {
      if (lines.labels[line * kMostDigits + i] >= 0) wanted.push_back(lines.labels[line * kMostDigits + i]);
    }
    REQUIRE(read == wanted);
    REQUIRE(wanted.size() >= 3);
  }
}

TEST_CASE("photographs: tiles, their thirds and turns, and those of half the size") {
  const crumb::testing::TempDir folder;
  constexpr std::size_t kHeight = 196, kWidth = 250;
  std::vector<std::byte> pixels(kHeight * kWidth * 3);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::byte>(i * 2654435761U >> 24);
  write_npy(folder.path() / "p.npy", DType::kU8, std::vector<std::uint64_t>{kHeight, kWidth, 3}, pixels);
  const auto brightness = [&](std::size_t y, std::size_t x) {
    const std::byte* rgb = &pixels[(y * kWidth + x) * 3];
    return 0.299 * static_cast<int>(rgb[0]) + 0.587 * static_cast<int>(rgb[1]) +
           0.114 * static_cast<int>(rgb[2]);
  };
  const Tiles plain = read_tiles(folder.path() / "p.npy", false).take();
  REQUIRE(plain.count == 4);
  REQUIRE(plain.large.size() == 4 * 96 * 96);
  REQUIRE(plain.small.size() == 4 * 32 * 32);
  double off = 0;
  for (std::size_t i = 0; i < plain.large.size(); ++i) {
    const std::size_t tile = i / (96 * 96), y = tile / 2 * 96 + i / 96 % 96, x = tile % 2 * 96 + i % 96;
    off = std::max(off, std::abs(plain.large[i] - brightness(y, x)));
  }
  for (std::size_t i = 0; i < plain.small.size(); ++i) {
    const std::size_t tile = i / (32 * 32), y = tile / 2 * 96 + i / 32 % 32 * 3,
                      x = tile % 2 * 96 + i % 32 * 3;
    double sum = 0;
    for (std::size_t k = 0; k < 9; ++k) sum += brightness(y + k / 3, x + k % 3);
    off = std::max(off, std::abs(plain.small[i] - sum / 9));
  }
  CHECK(off < 255 * 16 * 0x1p-24);  // three products and two sums; nine of these and a quotient

  // At 0, 48 and 96 of 196 and 0, 48, 96 and 144 of 250; of 98 and 125 at 0 alone.
  const Tiles many = read_tiles(folder.path() / "p.npy", true).take();
  REQUIRE(many.count == 8 * (3 * 4 + 1));
  REQUIRE(many.large.size() == static_cast<std::size_t>(many.count) * 96 * 96);
  const auto tile = [](const Tiles& tiles, std::ptrdiff_t i) {
    return std::vector<float>(tiles.large.begin() + i * 96 * 96, tiles.large.begin() + (i + 1) * 96 * 96);
  };
  CHECK(tile(many, 0) == tile(plain, 0));
  CHECK(tile(many, 8 * 2) == tile(plain, 1));
  CHECK(tile(many, 8 * 8) == tile(plain, 2));
  std::set<std::vector<float>> different;
  std::vector<float> first = tile(plain, 0);
  std::ranges::sort(first);
  for (std::ptrdiff_t i = 0; i < 8; ++i) {
    std::vector<float> turned = tile(many, i);
    different.insert(turned);
    std::ranges::sort(turned);
    CHECK(turned == first);
  }
  CHECK(different.size() == 8);
  const std::vector<float> half = tile(many, 8 * 12);
  double half_off = 0;
  for (std::size_t i = 0; i < half.size(); ++i) {
    const std::size_t y = i / 96 * 2, x = i % 96 * 2;
    const double mean =
        (brightness(y, x) + brightness(y, x + 1) + brightness(y + 1, x) + brightness(y + 1, x + 1)) / 4;
    half_off = std::max(half_off, std::abs(half[i] - mean));
  }
  CHECK(half_off < 255 * 16 * 0x1p-24);

  write_npy(folder.path() / "small.npy", DType::kU8, std::vector<std::uint64_t>{90, 200, 3},
            std::span(pixels).first(90 * 200 * 3));
  CHECK_FALSE(read_tiles(folder.path() / "small.npy", false).ok());
}

}  // namespace crumb::tasks
