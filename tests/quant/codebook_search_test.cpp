// Codebooks and how they are found: k-means from two starts, and beyond a million values from bins; recomputed here.
#include "quant/search/codebook_search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "quant/quantizer.h"
#include "tests/quant/quantized_oracle.h"
#include "tests/support/capture_copy.h"

using crumb::QuantizedTensor;
using crumb::QuantSpec;
using crumb::testing::normal_values;

namespace {

QuantizedTensor palette_of(const std::string& text, const std::vector<float>& x) {
  const std::vector<std::uint64_t> shape{x.size()};
  return crumb::quantize(QuantSpec::parse(text), x, shape, {.threads = 1});
}

/// Mean squared error of one tensor under one spec.
double palette_error(const std::string& text, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  crumb::dequantize(palette_of(text, x).view(), y, 1);
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i)
    sum += std::pow(static_cast<double>(x[i]) - static_cast<double>(y[i]), 2);
  return sum / static_cast<double>(x.size());
}

double nearest_error(const std::vector<float>& x, const std::vector<double>& centres) {
  double sum = 0;
  for (const float v : x) {
    double least = HUGE_VAL;
    for (const double c : centres) least = std::min(least, std::fabs(static_cast<double>(v) - c));
    sum += least * least;
  }
  return sum;
}

/// The squared error that Lloyd's algorithm ends with: of ascending values, from these centres.
double lloyd_error(const std::vector<float>& x, std::vector<double> centres) {
  std::vector<size_t> cell(x.size(), centres.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t i = 0; i < x.size(); ++i) {
      size_t k = 0;
      while (k + 1 < centres.size() && static_cast<double>(x[i]) > (centres[k] + centres[k + 1]) / 2) ++k;
      moved |= cell[i] != k;
      cell[i] = k;
    }
    for (size_t k = 0; k < centres.size(); ++k) {
      double sum = 0, count = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        if (cell[i] != k) continue;
        sum += static_cast<double>(x[i]);
        ++count;
      }
      if (count > 0) centres[k] = sum / count;
    }
  }
  return nearest_error(x, centres);
}

}  // namespace

TEST_CASE("kmeans: few distinct values lose nothing; many reach Lloyd-Max") {
  for (int bits = 1; bits <= 8; ++bits) {
    CAPTURE(bits);
    const std::string text = "palette" + std::to_string(bits) + ":tensor";
    // As many distinct values as there are codes, the largest a power of two so that scaling is exact.
    std::vector<float> x = normal_values(size_t{1} << bits, static_cast<uint64_t>(bits));
    for (float& v : x) v = std::clamp(v, -3.9F, 3.9F);
    x.back() = 4;
    std::vector<float> many;
    for (int i = 0; i < 5; ++i) many.insert(many.end(), x.begin(), x.end());
    std::vector<float> y(many.size());
    crumb::dequantize(palette_of(text, many).view(), y, 1);
    CHECK(y == many);
  }
  const std::vector<float> x = normal_values(100000, 3);
  CHECK(palette_error("palette1:tensor", x) == doctest::Approx(0.3634).epsilon(0.02));
  CHECK(palette_error("palette2:tensor", x) == doctest::Approx(0.1175).epsilon(0.02));
  CHECK(palette_error("palette3:tensor", x) == doctest::Approx(0.03454).epsilon(0.03));
  CHECK(palette_error("palette4:tensor", x) == doctest::Approx(0.009497).epsilon(0.05));
}

TEST_CASE("kmeans: centres ascend, hold 2^bits, and survive odd input") {
  for (int bits = 1; bits <= 8; ++bits) {
    for (const size_t count : {0, 1, 2, 3, 100, 5000}) {
      std::vector<float> x = normal_values(count, count);
      if (count == 3) x = {1, 1, 1};
      const std::vector<float> centres = crumb::learn_codebook(x, bits);
      CHECK(centres.size() == size_t{1} << bits);
      CHECK(std::is_sorted(centres.begin(), centres.end()));
    }
  }
  std::vector<float> wide{-3e38F, 3e38F, 0, 1e-40F, -1e-40F};
  const std::vector<float> centres = crumb::learn_codebook(wide, 3);
  CHECK(centres.front() == -3e38F);
  CHECK(centres.back() == 3e38F);
}

TEST_CASE("kmeans: the better end of Lloyd's algorithm from quantiles and from an even grid") {
  int even_wins = 0, quantiles_win = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    std::vector<float> x = normal_values(100 + 10 * seed, seed);
    for (float& v : x) {
      if (seed % 3 != 0) v = std::exp(v);
      if (seed % 3 == 2) v = 5 - v;
      v = std::round(v * 1000) / 1000;  // some are alike
    }
    std::ranges::sort(x);
    const int bits = 1 + static_cast<int>(seed % 4);
    const size_t size = size_t{1} << bits;
    std::vector<double> quantiles, even;
    for (size_t k = 0; k < size; ++k) {
      const double share = (static_cast<double>(k) + 0.5) / static_cast<double>(size);
      quantiles.push_back(static_cast<double>(x[static_cast<size_t>(share * static_cast<double>(x.size()))]));
      even.push_back((1 - share) * static_cast<double>(x.front()) + share * static_cast<double>(x.back()));
    }
    const double of_even = lloyd_error(x, even), of_quantiles = lloyd_error(x, quantiles);
    const std::vector<float> found = crumb::learn_codebook(x, bits);
    const double error = nearest_error(x, {found.begin(), found.end()});
    CHECK(error == doctest::Approx(std::min(of_even, of_quantiles)).epsilon(1e-6));
    even_wins += of_even < of_quantiles * 0.999;
    quantiles_win += of_quantiles < of_even * 0.999;
  }
  CHECK(even_wins > 3);
  CHECK(quantiles_win > 3);
}

TEST_CASE("kmeans: beyond a million values few distinct ones lose nothing either, however they are cut") {
  const size_t most_sorted = size_t{1} << 20;
  CHECK(crumb::CodebookSearch(most_sorted, 2).walks() == 1);
  CHECK(crumb::CodebookSearch(most_sorted + 1, 2).walks() == 2);
  for (const std::vector<float>& values : {std::vector<float>{0.75F},
                                           {-1.0F, 3.0F},
                                           {-1.0F, 0.25F, 3.0F},
                                           {-3.0F, -2.0F, -1.0F, -0.5F},
                                           {0.0F, 0x1p-18F, 1 - 0x3p-19F, 1.0F}}) {
    std::vector<float> expected = values;
    expected.resize(4, values.back());
    for (const size_t count : {most_sorted, most_sorted + 1}) {
      std::vector<float> x(count);
      for (size_t i = 0; i < count; ++i) x[i] = values[i % values.size()];
      CHECK(crumb::learn_codebook(x, 2) == expected);
      crumb::CodebookSearch search(count, 2);
      for (int walk = 0; walk < search.walks(); ++walk) {
        for (size_t i = 0; i < count; i += 400001) {
          search.add(walk, std::span(x).subspan(i, std::min<size_t>(400001, count - i)));
          search.add(walk, {});
        }
      }
      CHECK(search.learn() == expected);
    }
  }
}

TEST_CASE("kmeans: more than a million values are binned and end near the sorted result") {
  std::vector<float> few = normal_values(1 << 20, 21), many = few;
  const std::vector<float> more = normal_values(1 << 18, 22);
  many.insert(many.end(), more.begin(), more.end());
  const std::vector<float> a = crumb::learn_codebook(few, 2), b = crumb::learn_codebook(many, 2);
  for (size_t i = 0; i < 4; ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(0.02));
}

TEST_CASE("kmeans: beyond a million values what lies in one of 2^18 bins counts as its mean") {
  const float width = 0x1p-18F;
  // The second of the bin is nearer to the next bin than to the first.
  const std::vector<float> values{0, 0.5F + width / 8, 0.5F + width * 6 / 8, 0.5F + width * 9 / 8, 1};
  const std::vector<float> expected{0, 0.5F + width * 7 / 16, 0.5F + width * 9 / 8, 1};
  std::vector<float> x((size_t{1} << 20) + 5);
  for (size_t i = 0; i < x.size(); ++i) x[i] = values[i % values.size()];
  x.resize(x.size() / 5 * 5);  // each as often
  REQUIRE(crumb::CodebookSearch(x.size(), 2).walks() == 2);
  CHECK(crumb::learn_codebook(x, 2) == expected);
}

TEST_CASE("weighted codebooks: a value of weight n is n values") {
  std::mt19937 random(211);
  for (int round = 0; round < 300; ++round) {
    const int bits = 1 + static_cast<int>(random() % 4);
    std::vector<float> values, repeated;
    std::vector<double> weights;
    for (unsigned i = 0; i < 1 + random() % 200; ++i) {
      const float value = std::ldexp(static_cast<float>(static_cast<int>(random() % 400) - 200), -5);
      const unsigned weight = random() % 5;
      values.push_back(value);
      weights.push_back(weight);
      repeated.insert(repeated.end(), weight, value);
    }
    if (repeated.empty()) continue;
    CHECK(crumb::learn_codebook(values, weights, bits) == crumb::learn_codebook(repeated, bits));
  }
}

TEST_CASE("weighted codebooks: beyond a million values, too, heavy values lose less") {
  const std::vector<float> values = normal_values((size_t{1} << 20) + 1000, 5);
  std::vector<double> weights;
  for (const float value : values) weights.push_back(value > 1 ? 100 : 0.01);
  const auto lost = [&](const std::vector<float>& codebook) {
    double sum = 0;
    for (size_t i = 0; i < values.size(); i += 97) {
      double least = HUGE_VAL;
      for (const float c : codebook)
        least = std::min(least, std::fabs(static_cast<double>(values[i]) - static_cast<double>(c)));
      sum += weights[i] * least * least;
    }
    return sum;
  };
  CHECK(lost(crumb::learn_codebook(values, weights, 3)) < 0.3 * lost(crumb::learn_codebook(values, 3)));
}
