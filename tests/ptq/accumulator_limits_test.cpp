// Codes within a register: in exact integers, for the worst input that there is.
#include "ptq/rounding/accumulator_limits.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "ptq/rounding/feedback.h"
#include "ptq/rounding/output_error.h"
#include "tests/ptq/layers.h"

TEST_CASE(
    "accumulator limits: no input takes a tile's sum out of its register, and loose registers change "
    "nothing") {
  using namespace crumb::ptq;
  std::mt19937 random(83);
  int tight = 0;
  for (int i = 0; i < 1500; ++i) {
    const auto size = static_cast<Eigen::Index>(1 + random() % 70),
               outputs = static_cast<Eigen::Index>(1 + random() % 12);
    const std::string spec =
        std::array{"int4:channel",   "int8:channel", "int3:group=8:pad",
                   "ternary:tensor", "int2:channel", "int8:tensor:range=full"}[random() % 6];
    if (spec.starts_with("ternary")) continue;
    const test::Rows rows = test::drawn_matrix(random, outputs, size);
    const std::vector<std::uint64_t> shape = {static_cast<std::uint64_t>(outputs),
                                              static_cast<std::uint64_t>(size)};
    const std::span<const float> numbers(rows.data(), static_cast<std::size_t>(rows.size()));
    const crumb::FixedScales scales(crumb::QuantSpec::parse(spec), numbers, shape, "w");
    const InputRange input = std::array{InputRange{0, 15}, InputRange{-128, 127}, InputRange{-7, 7},
                                        InputRange{0, 1}, InputRange{-255, 255}}[random() % 5];
    const Register accumulator{.bits = 4 + static_cast<int>(random() % 20),
                               .tile = random() % 2 == 0 ? 0 : 1 + random() % 40};
    CAPTURE(spec);
    CAPTURE(accumulator.bits);
    const auto moments = test::moments_of(test::drawn_samples(random, size, size + 9, 0.5F));
    const auto feedback = Feedback::of(moments, 0.01, random() % 2 == 0);
    const RowRange range{0, static_cast<std::size_t>(outputs)};
    AccumulatorLimits limits(scales, 0, numbers, input, accumulator);
    const auto free = codes_with_feedback(scales, range, numbers, *feedback, 1);
    const auto codes =
        codes_with_feedback(scales, range, numbers, *feedback, 1 + static_cast<int>(random() % 2), &limits);
    const std::int64_t most = (std::int64_t{1} << (accumulator.bits - 1)) - 1;
    const auto columns = static_cast<std::size_t>(size),
               tile = accumulator.tile == 0 ? columns : accumulator.tile;
    bool free_fits = true;
    for (std::size_t row = 0; row < range.count; ++row) {
      for (std::size_t begin = 0; begin < columns; begin += tile) {
        const auto worst = [&](const std::vector<std::uint8_t>& of) {
          std::int64_t up = 0, down = 0, l1 = 0;
          for (std::size_t k = begin; k < std::min(columns, begin + tile); ++k) {
            const auto code =
                static_cast<std::int64_t>(scales.level(scales.block_of(row, k), of[row * columns + k]));
            up += code * (code > 0 ? input.greatest : input.least);
            down += code * (code > 0 ? input.least : input.greatest);
            l1 += std::abs(code);
          }
          return std::pair(std::max(up, -down), l1);
        };
        CHECK(worst(codes).first <= most);
        tight += worst(codes).first * 10 > most * 9 ? 1 : 0;
        // Far from the bound nothing was brought nearer to 0.
        free_fits = free_fits && 3 * (worst(free).second + static_cast<std::int64_t>(tile)) *
                                         (input.greatest - input.least) <
                                     most;
      }
    }
    if (free_fits) CHECK(codes == free);
  }
  CHECK(tight > 500);  // and the room is used
}
