// Ranges of what gives back elements: which attributes, versions and inputs leave them as they are.
#include <doctest/doctest.h>

#include <cmath>

#include "graph/facts/level_arithmetic.h"
#include "tests/graph/facts/range_net.h"

namespace crumb::graph {
namespace {

using Ints = std::vector<std::int64_t>;
using Attributes = std::map<std::string, Attribute>;

Attribute text(const char* value) { return std::string(value); }
Attribute number(std::int64_t value) { return value; }

std::optional<Levels> of_one(const std::string& op, const Ints& shape, const Attributes& attributes,
                             std::int64_t version = 13, std::string_view domain = kOnnxDomain,
                             const std::function<void(RangeNet&, std::vector<std::string>&)>& add = {}) {
  return known_of([&](RangeNet& net) {
           std::vector<std::string> inputs{net.above_zero(shape)};
           if (add) add(net, inputs);
           return net.at_version(version, op, inputs, attributes, domain);
         })
      .levels;
}

void check_range(const std::optional<Levels>& levels, double low, double high) {
  REQUIRE(levels);
  CHECK(levels->low == low);
  CHECK(levels->high == high);
  CHECK(levels->scale == 0.5);
}

TEST_CASE("ranges of MaxPool: every window has an element of the input") {
  const auto known = [](Attributes attributes, const Ints& shape = {1, 2, 6, 6}) {
    const auto levels = of_one("MaxPool", shape, attributes);
    if (levels) check_range(levels, 2, 9);
    return levels.has_value();
  };
  const std::pair<const char*, Attribute> kernel{"kernel_shape", Ints{2, 3}};
  const auto with = [&](std::vector<std::pair<const char*, Attribute>> others) {
    others.push_back(kernel);
    return known(Attributes(others.begin(), others.end()));
  };
  CHECK(with({}));
  CHECK(with({{"strides", Ints{5, 5}}}));
  CHECK(with({{"dilations", Ints{2, 2}}}));
  CHECK(with({{"auto_pad", text("VALID")}}));
  CHECK(with({{"auto_pad", text("SAME_UPPER")}}));
  CHECK_FALSE(with({{"auto_pad", text("SAME_UPPER")}, {"dilations", Ints{2, 1}}}));
  CHECK(with({{"pads", Ints{0, 0, 0, 0}}, {"dilations", Ints{2, 2}}}));
  CHECK(with({{"pads", Ints{1, 2, 1, 2}}}));
  CHECK_FALSE(with({{"pads", Ints{1, 2, 1, 2}}, {"dilations", Ints{1, 2}}}));
  for (const Ints& pads : {Ints{2, 0, 0, 0}, Ints{0, 3, 0, 0}, Ints{0, 0, 2, 0}, Ints{0, 0, 0, 3}})
    CHECK_FALSE(with({{"pads", pads}}));
  for (const Ints& pads : {Ints{1, 0, 0, 0}, Ints{0, 2, 0, 0}, Ints{0, 0, 1, 0}, Ints{0, 0, 0, 2}})
    CHECK(with({{"pads", pads}}));
  for (const Ints& pads : {Ints{-1, 0, 0, 0}, Ints{0, -1, 0, 0}, Ints{0, 0, -1, 0}, Ints{0, 0, 0, -1}})
    CHECK_FALSE(with({{"pads", pads}}));
  CHECK(with({{"ceil_mode", number(1)}}));
  CHECK(with({{"ceil_mode", number(1)}, {"strides", Ints{2, 3}}}));
  CHECK_FALSE(with({{"ceil_mode", number(1)}, {"strides", Ints{3, 1}}}));
  CHECK_FALSE(with({{"ceil_mode", number(1)}, {"strides", Ints{1, 4}}}));
  CHECK_FALSE(with({{"ceil_mode", number(1)}, {"pads", Ints{1, 0, 0, 0}}}));
  CHECK_FALSE(with({{"ceil_mode", number(1)}, {"dilations", Ints{2, 2}}}));
  CHECK(with({{"ceil_mode", number(1)}, {"auto_pad", text("VALID")}}));
  CHECK_FALSE(with({{"ceil_mode", number(1)}, {"auto_pad", text("SAME_LOWER")}}));
  CHECK_FALSE(known(Attributes{kernel}, {0, 2, 6, 6}));
}

TEST_CASE("ranges of Resize, Pad, Im2Col and Trilu: a number of their own") {
  const auto resized = [](const Attributes& attributes) {
    return of_one("Resize", {1, 1, 4, 4}, attributes, 13, kOnnxDomain, [](RangeNet& net, auto& inputs) {
      inputs.push_back("");
      inputs.push_back(net.floats({4}, {1, 1, 2, 2}));
    });
  };
  check_range(resized({}), 2, 9);
  check_range(resized({{"mode", text("nearest")}}), 2, 9);
  CHECK_FALSE(resized({{"mode", text("linear")}}));
  check_range(
      resized({{"coordinate_transformation_mode", text("asymmetric")}, {"extrapolation_value", 6.0F}}), 2, 9);

  const auto padded = [](const Attributes& attributes, std::int64_t version, std::optional<float> pad) {
    return of_one("Pad", {2, 3}, attributes, version, kOnnxDomain, [&](RangeNet& net, auto& inputs) {
      if (version < 11) return;
      inputs.push_back(net.ints({1, 1, 1, 1}));
      if (pad) inputs.push_back(net.number(*pad));
    });
  };
  const std::pair<const std::string, Attribute> pads{"pads", Ints{1, 1, 1, 1}};
  check_range(padded({}, 13, {}), 0, 9);
  check_range(padded({}, 13, 6.0F), 2, 12);
  check_range(padded({}, 11, -1.5F), -3, 9);
  check_range(padded({{"mode", text("constant")}}, 13, 1.5F), 2, 9);
  CHECK_FALSE(padded({}, 13, 0.3F));
  check_range(padded({{"mode", text("reflect")}}, 13, {}), 2, 9);
  check_range(padded({{"mode", text("edge")}}, 13, 7.0F), 2, 9);
  check_range(padded({pads}, 10, {}), 0, 9);
  check_range(padded({pads, {"value", 6.0F}}, 10, {}), 2, 12);
  check_range(padded({pads, {"value", 6.0F}}, 2, {}), 2, 12);
  CHECK_FALSE(padded({pads, {"value", 6.0F}}, 1, {}));
  CHECK_FALSE(known_of([](RangeNet& net) {
                return net.node("Pad", {net.above_zero({2, 3}), net.ints({1, 1, 1, 1}), net.input("p", {})});
              }).levels);

  const auto columns = [](Attributes attributes) {
    attributes.merge(
        Attributes{{"kernel_size", Ints{1, 1}}, {"stride", Ints{1, 1}}, {"input_shape", text("(1,4,4,2)")}});
    return of_one("Im2Col", {1, 4, 4, 2}, attributes, 1, kQonnxDomain);
  };
  check_range(columns({}), 2, 9);
  check_range(columns({{"pad_amount", Ints{0, 0, 0, 0}}, {"pad_value", number(7)}}), 2, 9);
  check_range(columns({{"pad_amount", Ints{0, 1, 0, 0}}}), 0, 9);
  check_range(columns({{"pad_amount", Ints{1, 1, 1, 1}}, {"pad_value", number(6)}}), 2, 12);
  check_range(of_one("Trilu", {3, 3}, {}, 14), 0, 9);
}

TEST_CASE("ranges with a number more: the type, too") {
  const auto padded = [](float bits, bool is_signed, float scale, float pad) {
    return known_of([&](RangeNet& net) {
      return net.node(
          "Pad", {net.quantized({2, 3}, scale, 0, bits, is_signed), net.ints({1, 1, 1, 1}), net.number(pad)});
    });
  };
  CHECK(padded(3, false, 1, 7).type == DataType::integer(3, false));
  CHECK(padded(3, false, 1, 8).type == DataType::integer(4, false));
  CHECK(padded(3, false, 1, -1).type == DataType::integer(4, true));
  CHECK(padded(3, true, 1, -4).type == DataType::integer(3, true));
  CHECK(padded(3, true, 1, 0.5F).type == DataType::float32());
  CHECK(padded(3, true, 0.5F, 0.5F).type == DataType::scaled(3));
  CHECK(padded(1, true, 1, 0).type == DataType::integer(2, true));  // -1 and 1, and zeros
  CHECK(padded(1, true, 1, 1).type == DataType::bipolar());
}

TEST_CASE("ranges of Dropout: inference alone keeps them") {
  const auto known = [](std::int64_t version, const Attributes& attributes,
                        const std::optional<Tensor>& training, bool is_open = false) {
    return of_one(
               "Dropout", {2, 3}, attributes, version, kOnnxDomain,
               [&](RangeNet& net, auto& inputs) {
                 if (!training && !is_open) return;
                 inputs.push_back(net.number(0.5F));
                 inputs.push_back(training ? net.constant("training", *training) : net.input("training", {}));
                 if (is_open) net.graph.values["training"].type = ElementType::kBool;
               })
        .has_value();
  };
  const auto flag = [](int value) { return Tensor(ElementType::kBool, {}, {static_cast<std::byte>(value)}); };
  CHECK(known(6, {{"is_test", number(1)}}, {}));
  CHECK_FALSE(known(6, {{"is_test", number(0)}}, {}));
  CHECK_FALSE(known(6, {}, {}));
  CHECK(known(7, {}, {}));
  CHECK(known(10, {}, {}));
  CHECK(known(12, {}, {}));
  CHECK(known(13, {}, flag(0)));
  CHECK_FALSE(known(13, {}, flag(1)));
  CHECK_FALSE(known(12, {}, flag(1)));
  CHECK_FALSE(known(13, {}, {}, true));
}

/// Of values with other ranges: levels -4..3 and 0..7 times 0.5, and constants.
ValueType of_two(const std::string& op,
                 const std::function<std::vector<std::string>(RangeNet&, std::string, std::string)>& inputs,
                 const Attributes& attributes = {}, float other_scale = 0.5F) {
  return known_of([&](RangeNet& net) {
    const std::string a = net.quantized({2, 3}, 0.5F, 0, 3, true),
                      b = net.quantized({2, 3}, other_scale, 0, 3, false);
    return net.at_version(16, op, inputs(net, a, b), attributes);
  });
}

using Inputs = std::vector<std::string>;

TEST_CASE("ranges of Concat, Where, Max and Min") {
  const auto both = [](RangeNet&, const std::string& a, const std::string& b) { return Inputs{a, b}; };
  const auto first = [](RangeNet&, const std::string& a, const std::string&) { return Inputs{a}; };
  const Attributes axis{{"axis", std::int64_t{0}}};
  check_range(of_two("Concat", both, axis).levels, -4, 7);
  check_range(of_two("Concat", first, axis).levels, -4, 3);
  CHECK(of_two("Concat", both, axis).type == DataType::scaled(3));
  CHECK_FALSE(of_two("Concat", both, axis, 0.25F).levels);
  check_range(of_two(
                  "Concat",
                  [](RangeNet& net, const std::string& a, const std::string&) {
                    return Inputs{a, net.floats({1, 3}, {4, -1, 0})};
                  },
                  axis)
                  .levels,
              -4, 8);
  check_range(of_two(
                  "Concat",
                  [](RangeNet& net, const std::string& a, const std::string&) {
                    return Inputs{net.floats({1, 3}, {4, -1, 0}), a};
                  },
                  axis)
                  .levels,
              -4, 8);
  CHECK_FALSE(of_two(
                  "Concat",
                  [](RangeNet& net, const std::string& a, const std::string&) {
                    return Inputs{a, net.floats({1, 3}, {4, -1.2F, 0})};
                  },
                  axis)
                  .levels);
  check_range(of_two("Where",
                     [](RangeNet& net, const std::string& a, const std::string& b) {
                       net.input("c", {2, 3});
                       net.graph.values["c"].type = ElementType::kBool;
                       return Inputs{"c", a, b};
                     })
                  .levels,
              -4, 7);
  check_range(of_two("Max", both).levels, 0, 7);
  check_range(of_two("Min", both).levels, -4, 3);
  check_range(of_two("Max", first).levels, -4, 3);
  const auto bounded = [](float by) {
    return [by](RangeNet& net, const std::string& a, const std::string&) {
      return Inputs{a, net.floats({1, 3}, {by, by, by})};
    };
  };
  check_range(of_two("Max", bounded(0.5F)).levels, 1, 3);
  check_range(of_two("Min", bounded(0.5F)).levels, -4, 1);
  check_range(of_two("Max", bounded(-9)).levels, -4, 3);
  CHECK_FALSE(of_two("Max", both, {}, 0.25F).levels);
  const auto negative =
      known_of([](RangeNet& net) {  // a scale below zero: the greatest level is the least value
        const std::string a = net.quantized({2, 3}, -0.5F, 0, 3, true),
                          b = net.quantized({2, 3}, -0.5F, 0, 3, false);
        return net.node("Max", {a, b});
      });
  REQUIRE(negative.levels);
  CHECK(negative.levels->low == -4);
  CHECK(negative.levels->high == 7);
}

TEST_CASE("types of Concat hold those of all") {
  const auto joined = [](float bits, bool is_signed, float others, bool are_signed, float scale = 1) {
    return known_of([&](RangeNet& net) {
             return net.node("Concat",
                             {net.quantized({2, 3}, scale, 0, bits, is_signed),
                              net.quantized({2, 3}, scale, 0, others, are_signed)},
                             {{"axis", std::int64_t{0}}});
           })
        .type;
  };
  CHECK(joined(3, true, 3, true) == DataType::integer(3, true));
  CHECK(joined(3, true, 3, false) == DataType::integer(4, true));
  CHECK(joined(3, false, 3, true) == DataType::integer(4, true));
  CHECK(joined(2, true, 5, true) == DataType::integer(5, true));
  CHECK(joined(5, true, 2, true) == DataType::integer(5, true));
  CHECK(joined(2, false, 5, false) == DataType::integer(5, false));
  CHECK(joined(2, true, 5, true, 0.5F) == DataType::scaled(5));
  CHECK(joined(5, true, 2, true, 0.5F) == DataType::scaled(5));
}

TEST_CASE("ranges of ScatterElements") {
  const auto scattered = [](const Attributes& attributes) {
    return of_two(
               "ScatterElements",
               [](RangeNet& net, const std::string& a, const std::string& b) {
                 return Inputs{a, net.constant("at", Tensor::ints({2, 3}, Ints{0, 1, 0, 1, 0, 1})), b};
               },
               attributes)
        .levels;
  };
  check_range(scattered({}), -4, 7);
  for (const char* reduction : {"none", "max", "min"})
    check_range(scattered({{"reduction", text(reduction)}}), -4, 7);
  for (const char* reduction : {"add", "mul"}) CHECK_FALSE(scattered({{"reduction", text(reduction)}}));
  // Updates of a constant: on their grid.
  check_range(of_two("ScatterElements",
                     [](RangeNet& net, const std::string&, const std::string& b) {
                       return Inputs{net.floats({2, 3}, {-1, 0, 0, 0, 0, 0}),
                                     net.constant("at", Tensor::ints({2, 3}, Ints(6))), b};
                     })
                  .levels,
              -2, 7);
}

TEST_CASE("ranges of Constant nodes") {
  const auto made = [](const Attribute& value, const char* name = "value") {
    return known_of([&](RangeNet& net) { return net.node("Constant", {}, {{name, value}}); });
  };
  const ValueType ints = made(Tensor::ints({3}, Ints{-5, 2, 9}));
  CHECK(ints.type == DataType::integer(64, true));
  REQUIRE(ints.levels);
  CHECK(ints.levels->low == -5);
  CHECK(ints.levels->high == 9);
  CHECK(made(Ints{3, 4}, "value_ints").levels->low == 3);
  CHECK_FALSE(made(Tensor::scalar(3.0F)).levels);
  CHECK_FALSE(made(Tensor::ints({0}, Ints{})).levels);
  CHECK(made(Tensor::scalar(3.0F)).type == DataType::float32());
}

TEST_CASE("ranges of ReduceMax and of what is empty") {
  check_range(of_one("ReduceMax", {2, 3}, {}), 2, 9);
  check_range(of_one("ReduceMin", {2, 3}, {}), 2, 9);
  check_range(of_one("GlobalMaxPool", {1, 2, 3, 3}, {}), 2, 9);
  CHECK_FALSE(of_one("ReduceMax", {0, 3}, {}));
}

}  // namespace
}  // namespace crumb::graph
