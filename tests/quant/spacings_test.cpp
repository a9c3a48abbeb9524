// How far apart the values of a grid lie: by quantizing what lies beside them under the same scales.
#include "quant/codes/spacings.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "quant/codes/fixed_scales.h"

TEST_CASE(
    "spacings: what lies within half of them has the same code, what lies a whole one off has another") {
  std::mt19937 random(51);
  std::normal_distribution<float> normal;
  for (const std::string spec :
       {"int2h:group=8", "int3:channel", "int4:tensor", "uint4:group=8:zero=int", "ternary:channel",
        "e2m1:group=8", "e3m2:channel", "nf4:group=8", "mxfp4:pad", "int8:channel", "palette3:tensor"}) {
    CAPTURE(spec);
    for (int i = 0; i < 20; ++i) {
      const std::vector<std::uint64_t> shape = {1 + random() % 9, 8 * (1 + random() % 5)};
      std::vector<float> values(shape[0] * shape[1]);
      for (float& value : values) value = normal(random);
      const crumb::FixedScales scales(crumb::QuantSpec::parse(spec), values, shape, "w");
      std::vector<std::uint8_t> codes(values.size());
      for (std::size_t k = 0; k < values.size(); ++k)
        codes[k] = scales.code(k / shape[1], k % shape[1], values[k]);
      const std::vector<float> found = crumb::spacings(scales.with_codes(codes));
      REQUIRE(found.size() == values.size());
      for (std::size_t k = 0; k < values.size(); ++k) {
        const std::uint64_t row = k / shape[1], column = k % shape[1];
        const float at = scales.value(row, column, codes[k]);
        const auto value_of = [&](float x) { return scales.value(row, column, scales.code(row, column, x)); };
        REQUIRE(found[k] > 0);
        CHECK(value_of(at + 0.49F * found[k]) == at);
        CHECK(value_of(at - 0.49F * found[k]) == at);
        // On the side of the nearer neighbour, which is there.
        CHECK((value_of(at + found[k]) != at || value_of(at - found[k]) != at));
      }
    }
  }
}
