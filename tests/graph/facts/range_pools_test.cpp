// Ranges of averages and sums: how many values are added, and what divides them.
#include <doctest/doctest.h>

#include <cmath>

#include "graph/facts/level_arithmetic.h"
#include "tests/graph/facts/range_net.h"

namespace crumb::graph {
namespace {

using Ints = std::vector<std::int64_t>;
using Attributes = std::map<std::string, Attribute>;

constexpr float kScale = 0.5F;

/// Levels low..high in steps of kScale / divisor.
void check_levels(const ValueType& known, double low, double high, double divisor) {
  REQUIRE(known.levels);
  CHECK(known.levels->low == low);
  CHECK(known.levels->high == high);
  CHECK(*known.levels->scale * divisor == doctest::Approx(kScale).epsilon(1e-12));
  CHECK_FALSE(known.reach);
}

/// Between the least and the greatest, and the zeros of a border.
void check_reach(const ValueType& known, double low = 0, double high = 9) {
  CHECK_FALSE(known.levels);
  REQUIRE(known.reach);
  CHECK(known.reach->low == low * kScale);
  CHECK(known.reach->high == high * kScale);
}

void check_nothing(const ValueType& known) {
  CHECK_FALSE(known.levels);
  CHECK_FALSE(known.reach);
  CHECK(known.type == DataType::float32());
}

TEST_CASE("ranges of AveragePool") {
  const auto pooled = [](Attributes attributes, std::int64_t version = 11) {
    return known_of([&](RangeNet& net) {
      return net.at_version(version, "AveragePool", {net.above_zero()}, attributes);
    });
  };
  const Ints kernel{2, 3};
  const Attribute one = std::int64_t{1};
  check_levels(pooled({{"kernel_shape", kernel}}), 12, 54, 6);
  check_levels(pooled({{"kernel_shape", Ints{1, 1}}}), 2, 9, 1);
  check_levels(pooled({{"kernel_shape", kernel}, {"pads", Ints{0, 0, 0, 0}}}), 12, 54, 6);
  check_levels(pooled({{"kernel_shape", kernel}, {"auto_pad", std::string("VALID")}}), 12, 54, 6);
  check_levels(pooled({{"kernel_shape", kernel}, {"auto_pad", std::string("NOTSET")}}), 12, 54, 6);
  check_levels(pooled({{"kernel_shape", kernel}, {"ceil_mode", std::int64_t{0}}}), 12, 54, 6);
  check_levels(pooled({{"kernel_shape", kernel}, {"count_include_pad", one}}), 12, 54, 6);
  for (const Ints& pads : {Ints{1, 0, 0, 0}, Ints{0, 0, 0, 2}}) {
    check_reach(pooled({{"kernel_shape", kernel}, {"pads", pads}}));
    check_reach(pooled({{"kernel_shape", kernel}, {"pads", pads}, {"count_include_pad", std::int64_t{0}}}));
    check_levels(pooled({{"kernel_shape", kernel}, {"pads", pads}, {"count_include_pad", one}}), 0, 54, 6);
    check_levels(pooled({{"kernel_shape", kernel}, {"pads", pads}, {"count_include_pad", one}}, 7), 0, 54, 6);
  }
  check_reach(pooled({{"kernel_shape", kernel}, {"ceil_mode", one}}));
  check_reach(pooled({{"kernel_shape", kernel}, {"auto_pad", std::string("SAME_UPPER")}}));
  // Too many to count exactly: the mean itself is known.
  const auto large = known_of([](RangeNet& net) {
    return net.at_version(11, "AveragePool", {net.above_zero({1, 1, 1200, 1200})},
                          {{"kernel_shape", Ints{1100, 1100}}});
  });
  check_reach(large);
  const auto below = known_of([](RangeNet& net) {
    return net.at_version(11, "AveragePool", {net.quantized({1, 1, 4, 4}, kScale, 9, 3, false)},
                          {{"kernel_shape", Ints{2, 2}}, {"ceil_mode", std::int64_t{1}}});
  });
  check_reach(below, -9, 0);
  const auto halves = known_of([](RangeNet& net) {
    return net.at_version(11, "AveragePool", {net.quantized({1, 1, 4, 4}, kScale, 0.5F, 3, false)},
                          {{"kernel_shape", Ints{1, 3}}});
  });
  check_levels(halves, -1.5, 19.5, 3);
  CHECK(halves.levels->halves);
  check_nothing(known_of([](RangeNet& net) {
    return net.at_version(11, "AveragePool", {net.input("x", {1, 1, 4, 4})}, {{"kernel_shape", Ints{2, 2}}});
  }));
}

TEST_CASE("ranges of GlobalAveragePool") {
  const auto pooled = [](const Ints& shape) {
    return known_of([&](RangeNet& net) { return net.node("GlobalAveragePool", {net.above_zero(shape)}); });
  };
  check_levels(pooled({1, 2, 4, 6}), 48, 216, 24);
  check_levels(pooled({7, 5, 3}), 6, 27, 3);
  check_levels(pooled({1, 2, 1, 1, 4}), 8, 36, 4);
  check_reach(known_of([](RangeNet& net) {
    const std::string x = net.above_zero();
    net.graph.values["x0"].shape = Shape{1, 2, Dim("h"), 6};
    return net.node("GlobalAveragePool", {x});
  }));
}

/// ReduceMean and ReduceSum, whose axes became an input.
ValueType reduced(const std::string& op, std::int64_t version, const std::optional<Ints>& axes,
                  Attributes attributes = {}) {
  const bool is_input = version >= (op == "ReduceSum" ? 13 : 18);
  return known_of([&](RangeNet& net) {
    std::vector<std::string> inputs{net.above_zero()};
    if (axes && is_input) inputs.push_back(net.ints(*axes));
    if (axes && !is_input) attributes["axes"] = *axes;
    return net.at_version(version, op, inputs, attributes);
  });
}

TEST_CASE("ranges of ReduceMean and ReduceSum") {
  const std::int64_t sizes[] = {1, 2, 4, 6};
  for (const std::string op : {"ReduceMean", "ReduceSum"}) {
    const double by_count = op == "ReduceMean" ? 1 : 0;
    for (const std::int64_t version : {11, 13, 18}) {
      CAPTURE(op);
      CAPTURE(version);
      const auto check = [&](const std::optional<Ints>& axes, double count,
                             const Attributes& attributes = {}) {
        check_levels(reduced(op, version, axes, attributes), 2 * count, 9 * count, by_count == 1 ? count : 1);
      };
      for (std::int64_t axis = 0; axis < 4; ++axis) {
        check(Ints{axis}, static_cast<double>(sizes[axis]));
        check(Ints{axis - 4}, static_cast<double>(sizes[axis]));
      }
      check(Ints{2, -1}, 24, {{"keepdims", std::int64_t{0}}});
      check(Ints{3, 1, 2}, 48);
      check(std::nullopt, 48);
    }
  }
  const Attributes noop{{"noop_with_empty_axes", std::int64_t{1}}};
  for (const auto& [op, version] : {std::pair("ReduceMean", 18), std::pair("ReduceSum", 13)}) {
    check_levels(reduced(op, version, std::nullopt, noop), 2, 9, 1);
    check_levels(reduced(op, version, Ints{}, noop), 2, 9, 1);
    check_levels(reduced(op, version, Ints{1}, noop), 4, 18, op == std::string("ReduceMean") ? 2 : 1);
    check_levels(reduced(op, version, Ints{}), 96, 432, op == std::string("ReduceMean") ? 48 : 1);
  }
  // Axes that are computed, and sizes that are open.
  for (const std::string op : {"ReduceMean", "ReduceSum"}) {
    const auto open_axes = known_of([&](RangeNet& net) {
      const std::string x = net.above_zero();
      net.graph.inputs.emplace_back("axes");
      net.graph.values["axes"] = {.type = ElementType::kInt64, .shape = Shape{1}};
      return net.at_version(18, op, {x, "axes"});
    });
    const auto open_size = known_of([&](RangeNet& net) {
      const std::string x = net.above_zero();
      net.graph.values["x0"].shape = Shape{1, 2, Dim("h"), 6};
      return net.at_version(18, op, {x, net.ints({2})});
    });
    const auto none = known_of([&](RangeNet& net) {
      return net.at_version(18, op, {net.above_zero({1, 2, 0, 6}), net.ints({2})});
    });
    for (const ValueType& known : {open_axes, open_size, none}) {
      if (op == "ReduceMean") {
        check_reach(known);
      } else {
        check_nothing(known);
      }
    }
  }
}

struct Average {
  std::int64_t kernel, in_bits, out_bits;
  bool is_signed;
  float bits;
  bool is_signed_input;
};

ValueType averaged(const Average& wanted, float scale = 1) {
  return known_of([&](RangeNet& net) {
    return net.node("QuantAvgPool2d",
                    {net.quantized({1, 1, 8, 8}, scale, 0, wanted.bits, wanted.is_signed_input)},
                    {{"kernel", wanted.kernel},
                     {"stride", wanted.kernel},
                     {"ibits", wanted.in_bits},
                     {"obits", wanted.out_bits},
                     {"signed", std::int64_t{wanted.is_signed}},
                     {"data_layout", std::string("NCHW")}},
                    kQonnxDomain);
  });
}

TEST_CASE("ranges of QuantAvgPool2d: a sum of integers, shifted") {
  for (std::int64_t kernel = 1; kernel <= 4; ++kernel) {
    for (std::int64_t in_bits = 1; in_bits <= 6; ++in_bits) {
      for (std::int64_t out_bits = 1; out_bits <= 8; ++out_bits) {
        for (const int signs : {0, 1, 2, 3}) {
          const Average wanted{kernel, in_bits, out_bits, (signs & 1) != 0, 4, (signs & 2) != 0};
          const double count = static_cast<double>(kernel * kernel);
          const double low = wanted.is_signed_input ? -8 : 0, high = wanted.is_signed_input ? 7 : 15;
          double most = (std::exp2(in_bits) - 1) * count, by = 1;
          while (most >= std::exp2(out_bits)) {
            most = std::floor(most / 2);
            by *= 2;
          }
          const ValueType known = averaged(wanted);
          REQUIRE(known.levels);
          CHECK(known.levels->low == std::floor(low * count / by));
          CHECK(known.levels->high == std::floor(high * count / by));
          CHECK(known.levels->scale == 1.0);
          const DataType claimed = DataType::integer(static_cast<int>(out_bits), wanted.is_signed);
          const bool holds = claimed.allows(known.levels->low) && claimed.allows(known.levels->high);
          CHECK(known.type ==
                (holds ? claimed : DataType::least_integer(known.levels->low, known.levels->high)));
        }
      }
    }
  }
  const Average good{2, 4, 8, false, 4, false};
  const auto is_known = [](const Average& wanted, float scale = 1) {
    return averaged(wanted, scale).levels.has_value();
  };
  CHECK(is_known(good));
  const auto plain = known_of([](RangeNet& net) {  // unsigned where nothing says so
    return net.node("QuantAvgPool2d", {net.quantized({1, 1, 8, 8}, 1, 0, 4, false)},
                    {{"kernel", std::int64_t{2}},
                     {"stride", std::int64_t{2}},
                     {"ibits", std::int64_t{4}},
                     {"obits", std::int64_t{8}}},
                    kQonnxDomain);
  });
  CHECK(plain.type == DataType::integer(8, false));
  CHECK_FALSE(is_known(good, 0.5F));
  CHECK(is_known({2, 32, 64, false, 4, false}));
  CHECK_FALSE(is_known({2, 33, 64, false, 4, false}));
  CHECK_FALSE(is_known({2, 32, 65, false, 4, false}));
  CHECK_FALSE(is_known({2, 0, 8, false, 4, false}));
  CHECK_FALSE(is_known({2, 4, 0, false, 4, false}));
}

}  // namespace
}  // namespace crumb::graph
