// Arithmetic on ranges of levels, against the same arithmetic on every level.
#include "graph/facts/level_arithmetic.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

namespace crumb::graph {
namespace {

using Doubles = std::vector<double>;

/// Draws levels on grids of whole and of halved steps.
struct Draw {
  std::mt19937 engine;

  explicit Draw(unsigned seed) : engine(seed) {}
  int whole(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine); }
  bool chance(int of_ten) { return whole(1, 10) <= of_ten; }
  double pick(const Doubles& numbers) {
    return numbers[static_cast<std::size_t>(whole(0, static_cast<int>(numbers.size()) - 1))];
  }

  Levels levels(bool halves, double scale) {
    const int first = whole(-9, 9), last = first + whole(0, 9);
    const double shift = halves ? 0.5 : 0;
    Levels made = ranged({.halves = halves, .scale = scale}, first + shift, last + shift);
    made.assumed = chance(3);
    return made;
  }
  Levels levels() { return levels(chance(3), pick({1, 1, 0.5, 0.3, 2})); }
};

Doubles all_of(const Levels& levels) {
  Doubles made;
  for (double level = levels.low; level <= levels.high; level += 1) made.push_back(level);
  return made;
}

int bits_for(double low, double high) {
  for (int bits = 1;; ++bits) {
    const double all = std::exp2(bits), half = all / 2;
    if (low >= 0 ? high <= all - 1 : low >= -half && high <= half - 1) return bits;
  }
}

/// The range is that of these levels, and the bits and the sign what they need.
void check_range(const Levels& found, const Doubles& levels) {
  const auto [low, high] = std::ranges::minmax(levels);
  CHECK(found.low == low);
  CHECK(found.high == high);
  CHECK(found.is_signed == (low < 0));
  CHECK(found.bits == bits_for(low / found.unit(), high / found.unit()));
}

Doubles pairs(const Doubles& a, const Doubles& b, const std::function<double(double, double)>& f) {
  Doubles made;
  for (const double x : a) {
    for (const double y : b) made.push_back(f(x, y));
  }
  return made;
}

Doubles each(Doubles numbers, const std::function<double(double)>& f) {
  std::ranges::transform(numbers, numbers.begin(), f);
  return numbers;
}

TEST_CASE("levels: a zero point moves them, by halves too") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    Draw draw(seed);
    Levels levels = draw.levels(false, 0.5);
    levels.bits = 17;
    const double first = draw.pick({0, 1, -1, -3, 8, 0.5, -1.5});
    Doubles shifts{first};
    for (double more = draw.pick({0, 0, 1, 3}); more > 0; --more)
      shifts.push_back(first + draw.pick({-4, -1, 0, 2, 3}));
    const auto [low, high] = std::ranges::minmax(shifts);
    const auto span = shifts_of(shifts);
    REQUIRE(span);
    CHECK(span->low == low);
    CHECK(span->high == high);
    const Levels found = shifted(levels, *span);
    CHECK(found.scale == 0.5);
    CHECK(found.halves == (std::fabs(first - std::trunc(first)) == 0.5));
    if (low == 0 && high == 0) {
      CHECK(found == levels);
    } else {
      check_range(found, pairs(all_of(levels), shifts, [](double v, double shift) { return v - shift; }));
    }
    shifts.push_back(first + 0.5);  // whole numbers and halves, and what is neither
    CHECK_FALSE(shifts_of(shifts));
    CHECK_FALSE(shifts_of(Doubles{first + 0.25}));
    CHECK_FALSE(shifts_of(Doubles{}));
  }
  const Levels small = ranged({.minifloat = 0.25}, -2, 3);  // of a format, whose bits they keep
  CHECK(small.bits == 0);
  CHECK(small.low == -2);
  CHECK(small.high == 3);
}

TEST_CASE("levels: every value of a grid has its level, and others have none") {
  for (const bool halves : {false, true}) {
    for (const double scale : {1.0, 0.5, 0.3, 0.0117, -0.25, 3e-30, 1e29}) {
      const Levels grid{.halves = halves, .scale = scale};
      for (int i = -40; i <= 40; ++i) {
        const double level = i + (halves ? 0.5 : 0);
        CAPTURE(scale);
        CAPTURE(level);
        CHECK(level_of(grid, static_cast<float>(level * scale)) == level);
        CHECK_FALSE(level_of(grid, static_cast<float>((level + 0.5) * scale)));
        CHECK_FALSE(level_of(grid, static_cast<float>((level + 0.25) * scale)));
      }
      CHECK_FALSE(level_of(grid, INFINITY));
      CHECK_FALSE(level_of(grid, NAN));
    }
  }
  const Levels minifloat{.minifloat = 0.125, .scale = 2};
  CHECK(level_of(minifloat, 0.75) == 0.375);
  CHECK_FALSE(level_of(minifloat, 0.8));
  CHECK(level_of({.scale = std::nullopt}, 0) == 0.0);  // zero is on every whole grid
  CHECK_FALSE(level_of({.scale = std::nullopt}, 1));
  CHECK_FALSE(level_of({.one_scale = false, .scale = 1}, 1));
  CHECK_FALSE(level_of({.scale = 0.5e-30}, 1e-30F));
  CHECK(level_of({.scale = 1e-30}, 1e-30F) == 1.0);
}

TEST_CASE("levels: constants on a grid") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    Draw draw(seed);
    const Levels grid = draw.levels();
    Doubles levels, values;
    for (int i = draw.whole(1, 5); i > 0; --i) {
      levels.push_back(draw.whole(-300, 300) + (grid.halves ? 0.5 : 0));
      values.push_back(static_cast<float>(levels.back() * *grid.scale));
    }
    const auto found = on_grid(grid, values);
    REQUIRE(found);
    check_range(*found, levels);
    CHECK(found->assumed == grid.assumed);
    values[static_cast<std::size_t>(draw.whole(0, static_cast<int>(values.size()) - 1))] += *grid.scale * 0.5;
    CHECK_FALSE(on_grid(grid, values));
    CHECK_FALSE(on_grid(grid, {}));
  }
}

TEST_CASE("levels: sums, differences and unions of two") {
  std::size_t apart = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    CAPTURE(seed);
    Draw draw(seed);
    const bool halves = draw.chance(3);
    const double scale = draw.pick({1, 0.5, 0.3});
    const Levels a = draw.levels(halves, scale),
                 b = draw.chance(7) ? draw.levels(halves, scale) : draw.levels();
    const bool same = a.halves == b.halves && a.scale == b.scale;
    CHECK(same_grid(a, b) == same);
    const auto sum = sum_of(a, b, false), difference = sum_of(a, b, true), both = joined(a, b);
    CHECK(bool(sum) == same);
    CHECK(bool(difference) == same);
    CHECK(bool(both) == same);
    apart += same ? 0 : 1;
    if (!same) continue;
    check_range(*sum, pairs(all_of(a), all_of(b), std::plus()));
    check_range(*difference, pairs(all_of(a), all_of(b), std::minus()));
    Doubles of_either = all_of(a);
    std::ranges::copy(all_of(b), std::back_inserter(of_either));
    check_range(*both, of_either);
    for (const auto& made : {sum, difference, both}) {
      CHECK(made->scale == a.scale);
      CHECK(made->assumed == (a.assumed || b.assumed));
    }
    CHECK_FALSE(sum->halves);
    CHECK_FALSE(difference->halves);
    CHECK(both->halves == halves);
    CHECK_FALSE(sum_of(a, std::nullopt, false));
    CHECK_FALSE(sum_of(std::nullopt, b, false));
    CHECK_FALSE(joined(a, std::nullopt));
    CHECK_FALSE(joined(std::nullopt, b));
  }
  CHECK(apart > 100);
  const Levels plain{.low = -1, .high = 1, .scale = 1};
  for (const auto& [change, same] : std::vector<std::pair<std::function<void(Levels&)>, bool>>{
           {[](Levels&) {}, true},
           {[](Levels& l) { l.one_scale = false; }, false},
           {[](Levels& l) { l.scale.reset(); }, false},
           {[](Levels& l) { l.scale = 2; }, false},
           {[](Levels& l) { l.halves = true; }, false},
           {[](Levels& l) { l.minifloat = 0.5; }, false},
           {[](Levels& l) { l.bits = 9; }, true}}) {
    Levels other = plain;
    change(other);
    CHECK(same_grid(plain, other) == same);
    CHECK(same_grid(other, plain) == same);
  }
  Levels bare = plain;
  bare.scale.reset();
  CHECK_FALSE(same_grid(bare, bare));
}

TEST_CASE("levels: opposites, zero among them, and whole steps") {
  for (unsigned seed = 0; seed < 300; ++seed) {
    Draw draw(seed);
    const Levels levels = draw.levels();
    check_range(negated(levels), each(all_of(levels), std::negate()));
    const auto zero = with_zero(levels);
    CHECK(bool(zero) == !levels.halves);
    if (zero) {
      Doubles all = all_of(levels);
      all.push_back(0);
      check_range(*zero, all);
    }
    const Levels whole = whole_steps(levels);
    CHECK_FALSE(whole.halves);
    CHECK(*whole.scale * whole.low == *levels.scale * levels.low);
    CHECK(*whole.scale * whole.high == *levels.scale * levels.high);
    CHECK(*whole.scale == *levels.scale / (levels.halves ? 2 : 1));
    check_range(whole, each(all_of(levels), [&](double v) { return levels.halves ? 2 * v : v; }));
  }
  Levels bare{.low = -1.5, .high = 0.5, .halves = true, .scale = std::nullopt};
  CHECK(whole_steps(bare).low == -3);
}

TEST_CASE("levels: times constants, and divided by them") {
  std::size_t several = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    CAPTURE(seed);
    Draw draw(seed);
    const Levels levels = draw.levels();
    const bool divides = draw.chance(5);
    const double size = draw.pick({1, 0.5, 4, 3});
    Doubles factors;
    bool one_size = true;
    for (int i = draw.whole(1, 3); i > 0; --i) {
      const double by = draw.chance(7) ? size : draw.pick({0.25, 8});
      one_size = one_size && by == (factors.empty() ? by : std::fabs(factors[0]));
      factors.push_back(draw.chance(6) ? by : -by);
    }
    const auto found = scaled(levels, factors, divides);
    REQUIRE(found);
    check_range(*found, pairs(all_of(levels), factors, [](double v, double f) { return f < 0 ? -v : v; }));
    CHECK(found->one_scale == one_size);
    CHECK(bool(found->scale) == one_size);
    const double by = std::fabs(factors[0]);
    if (one_size) CHECK(found->scale == (divides ? *levels.scale / by : *levels.scale * by));
    several += one_size ? 0 : 1;
    for (const double bad : {0.0, double(INFINITY), double(NAN)}) {
      Doubles others = factors;
      others.push_back(bad);
      CHECK_FALSE(scaled(levels, others, divides));
    }
    CHECK_FALSE(scaled(levels, {}, divides));
  }
  CHECK(several > 100);
}

TEST_CASE("levels: sums of several, and their means") {
  for (unsigned seed = 0; seed < 300; ++seed) {
    Draw draw(seed);
    const Levels levels = draw.levels();
    const int count = draw.whole(1, 4);
    const double divisor = draw.pick({1, double(count)});
    Doubles sums{0};
    for (int i = 0; i < count; ++i) sums = pairs(sums, all_of(levels), std::plus());
    const auto found = summed(levels, count, divisor);
    REQUIRE(found);
    check_range(*found, sums);
    CHECK(found->halves == (levels.halves && count % 2 == 1));
    CHECK(found->scale == *levels.scale / divisor);
    CHECK(found->assumed == levels.assumed);
  }
  const Levels levels{.low = -1, .high = 2, .scale = 1};
  CHECK_FALSE(summed(levels, 0, 1));
  CHECK_FALSE(summed({.low = -1, .high = 2, .one_scale = false, .scale = 1}, 2, 1));
  CHECK_FALSE(summed({.low = -1, .high = 2}, 2, 1));
  CHECK_FALSE(summed(levels, NAN, 1));
  // 2 n levels after n additions: 2 n^2 <= 2^22.
  CHECK(summed(levels, 1448, 1));
  CHECK_FALSE(summed(levels, 1449, 1));
  CHECK(summed({.low = 0, .high = 0, .scale = 1}, kMostExact, 1));
  CHECK_FALSE(summed({.low = 0, .high = 0, .scale = 1}, kMostExact + 1, 1));
}

TEST_CASE("levels: slopes on both sides of zero") {
  for (unsigned seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    Draw draw(seed);
    Levels levels = draw.levels();
    const double above = draw.pick({1, 2, 5}), below = draw.pick({1, 3, 0, -2}), divisor = draw.pick({1, 4});
    const auto found = sloped(levels, above, below, divisor);
    REQUIRE(found);
    const Levels whole = whole_steps(levels);
    Doubles made = each(each(all_of(levels), [&](double v) { return levels.halves ? 2 * v : v; }),
                        [&](double v) { return v * (v < 0 ? below : above); });
    if (levels.halves && levels.low < 0 && levels.high > 0) made.push_back(0);  // between the two sides
    check_range(*found, made);
    CHECK(found->scale == *whole.scale / divisor);
    levels.positive = false;
    CHECK_FALSE(sloped(levels, above, below, divisor));
  }
}

TEST_CASE("levels: what float32 does not keep exact is unknown") {
  const auto wide = [](double low, double high, double scale = 1) {
    return Levels{.low = low, .high = high, .scale = scale};
  };
  const Levels zero = wide(0, 0);
  CHECK(sum_of(wide(-kMostExact, kMostExact), zero, false));
  CHECK_FALSE(sum_of(wide(-kMostExact - 1, 0), zero, false));
  CHECK_FALSE(sum_of(wide(0, kMostExact + 1), zero, false));
  const Doubles one{1};
  Levels halves{.low = 0.5, .high = kMostExact / 2 - 0.5, .halves = true, .scale = 1};
  CHECK(scaled(halves, one, false));
  halves.high += 1;
  CHECK_FALSE(scaled(halves, one, false));
  for (const double scale : {1e-30, 1e30, -1e-30, -1e30}) {
    CHECK(scaled(wide(-1, 1, scale), one, false));
    CHECK_FALSE(scaled(wide(-1, 1, std::fabs(scale) < 1 ? scale / 2 : scale * 2), one, false));
  }
  Levels bare = wide(-1, 1);
  bare.scale.reset();
  CHECK(scaled(bare, one, false));
}

TEST_CASE("levels: the reach of values, and the types of levels") {
  for (unsigned seed = 0; seed < 300; ++seed) {
    Draw draw(seed);
    Levels levels = draw.levels();
    if (draw.chance(3)) levels.scale = -*levels.scale;
    const auto reach = reach_of({.levels = levels});
    REQUIRE(reach);
    const Doubles values = each(all_of(levels), [&](double v) { return v * *levels.scale; });
    CHECK(reach->low == std::ranges::min(values));
    CHECK(reach->high == std::ranges::max(values));
    CHECK(reach->assumed == levels.assumed);
    const bool is_plain = levels.scale == 1.0 && !levels.halves;
    const DataType type = type_of(levels);
    CHECK(type.is_integer() == is_plain);
    if (is_plain) {
      CHECK(type.bits() == bits_for(levels.low, levels.high));
      CHECK(type.is_signed() == (levels.low < 0));
    } else {
      CHECK(type == DataType::scaled(levels.bits));
    }
    levels.scale.reset();
    CHECK_FALSE(reach_of({.levels = levels}));
    levels.scale = 1;
    levels.one_scale = false;
    CHECK_FALSE(reach_of({.levels = levels}));
    CHECK(type_of(levels) == DataType::scaled(levels.bits));
  }
  CHECK(reach_of({.levels = Levels{.scale = 1}, .reach = Reach{-3, 5, true}}) == Reach{-3, 5, true});
  CHECK_FALSE(reach_of({}));
  CHECK(type_of(std::nullopt) == DataType::float32());
  CHECK(type_of(Levels{.low = -1, .high = 1, .bits = 0, .minifloat = 0.5, .scale = 1}) ==
        DataType::scaled(1));
}

TEST_CASE("levels: those of a type are its numbers") {
  for (const char* name :
       {"INT2", "INT7", "UINT1", "UINT5", "BIPOLAR", "TERNARY", "FIXED<6,3>", "FIXED<4,3>", "FIXED<5,1>"}) {
    CAPTURE(name);
    const DataType type = DataType::parse(name).take();
    const ValueType made = of_type(type);
    CHECK(made.type == type);
    REQUIRE(made.levels);
    CHECK(made.levels->low * *made.levels->scale == *type.min());
    CHECK(made.levels->high * *made.levels->scale == *type.max());
    CHECK(made.levels->bits == type.bits());
    CHECK(made.levels->is_signed == type.is_signed());
    CHECK(type.allows((made.levels->low + 1) * *made.levels->scale) == (type != DataType::bipolar()));
    CHECK_FALSE(type.allows((made.levels->low + 0.5) * *made.levels->scale));
    CHECK_FALSE(made.levels->assumed);
  }
  for (const char* name : {"FLOAT32", "FLOAT16", "FLOAT<4,3,7>", "SCALEDINT<5>"}) {
    CHECK_FALSE(of_type(DataType::parse(name).take()).levels);
  }
}

}  // namespace
}  // namespace crumb::graph
