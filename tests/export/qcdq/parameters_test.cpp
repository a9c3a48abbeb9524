// Scales and zero points of QuantizeLinear as its page says them: one, one for each index of an axis, or one for each block
// along it; and whatever else an input's shape or a constant leaves open.
#include <doctest/doctest.h>

#include <numeric>
#include <random>

#include "export/qcdq/integer_range.h"
#include "export/qcdq/linear_parameters.h"
#include "graph/strided_index.h"
#include "tests/graph/node_builder.h"
#include "tests/support/samples.h"

namespace crumb::exporting {
namespace {

using crumb::testing::says;
using graph::ElementType;
using graph::Shape;
using graph::Tensor;
using Axes = std::vector<std::int64_t>;

/// A node of these scales 1, 2, 3, ... and zero points 0, 1, 2, ...; what is found of it.
Result<LinearParameters> read(const Axes& scales, std::map<std::string, graph::Attribute> attributes,
                              const std::optional<Shape>& data, bool is_constant = false) {
  graph::NodeBuilder net;
  if (is_constant) net.constant("x", Tensor::scalar(1.0F));
  std::vector<float> values(static_cast<std::size_t>(graph::count_elements(scales).take()));
  std::iota(values.begin(), values.end(), 1.0F);
  Axes zeros(values.size());
  std::iota(zeros.begin(), zeros.end(), 0);
  net.node("QuantizeLinear",
           {is_constant ? "x" : net.input("x", {1}), net.constant("s", Tensor::floats(scales, values)),
            net.constant("z", graph::Tensor::ints(ElementType::kInt8, scales, zeros))},
           std::move(attributes));
  return parameters_of(net.graph, net.graph.nodes[0], data);
}

TEST_CASE("parameters of QuantizeLinear: every element has the scale that ONNX gives it") {
  std::mt19937 engine(4);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine);
  };
  int blocked = 0, divided = 0, refused = 0;
  for (int round = 0; round < 3000; ++round) {
    Axes whole(static_cast<std::size_t>(draw(1, 3)));
    for (std::int64_t& size : whole) size = draw(1, 5);
    const auto rank = static_cast<std::int64_t>(whole.size());
    const std::int64_t axis = draw(0, static_cast<int>(rank) - 1), block = draw(0, 3);
    std::map<std::string, graph::Attribute> attributes;
    if (axis != 1 || draw(0, 1) == 0) attributes["axis"] = draw(0, 1) == 0 ? axis : axis - rank;
    if (block > 0) attributes["block_size"] = block;
    const auto along = static_cast<std::size_t>(axis);
    if (block == 2 && draw(0, 2) == 0) whole[along] = 4;
    Axes scales{whole[along]};
    if (block > 0) {
      scales = whole;
      scales[along] = (whole[along] + block - 1) / block;
    }
    const bool is_wrong = draw(0, 3) == 0;
    if (is_wrong) scales[static_cast<std::size_t>(draw(0, static_cast<int>(scales.size()) - 1))] += 1;
    CAPTURE(whole);
    CAPTURE(scales);
    CAPTURE(axis);
    CAPTURE(block);
    const auto found = read(scales, attributes, Shape(whole.begin(), whole.end()));
    const bool is_one = block == 0 && scales == Axes{1};
    REQUIRE(found.ok() == (!is_wrong || is_one));
    if (!found.ok()) {
      ++refused;
      continue;
    }
    blocked += block > 0;
    const BroadcastParameters made = broadcast(found.value(), Shape(whole.begin(), whole.end()));
    REQUIRE(made.zero.size() == made.scale.size());
    const GroupedParameters groups = in_groups(found.value(), whole);
    const bool is_divided = block > 1 && scales[along] > 1 && whole[along] % block == 0;
    divided += is_divided;
    CHECK(groups.shape.size() == whole.size() + (is_divided ? 1 : 0));
    if (is_divided) CHECK(groups.parameters.scale == found.value().scale);  // none for each element
    auto in_group = graph::StridedIndex::broadcast(groups.shape, groups.parameters.shape);
    REQUIRE(in_group);
    Axes place(whole.size(), 0);
    std::int64_t elements = 1;
    for (const std::int64_t size : whole) elements *= size;
    CHECK(graph::count_elements(groups.shape).take() == elements);
    for (std::int64_t i = 0; i < elements; ++i) {
      std::int64_t wanted = is_one ? 0 : place[along];
      if (block > 0) {
        wanted = 0;
        for (std::size_t k = 0; k < whole.size(); ++k)
          wanted = wanted * scales[k] + (k == along ? place[k] / block : place[k]);
      }
      // NumPy's rule for what broadcast() made.
      std::int64_t at = 0;
      REQUIRE(made.shape.size() <= whole.size());
      for (std::size_t k = 0; k < made.shape.size(); ++k) {
        const std::size_t from = whole.size() - made.shape.size() + k;
        REQUIRE((made.shape[k] == 1 || made.shape[k] == whole[from]));
        at = at * made.shape[k] + (made.shape[k] == 1 ? 0 : place[from]);
      }
      CHECK(made.scale.at(static_cast<std::size_t>(at)) == static_cast<float>(wanted + 1));
      CHECK(made.zero.at(static_cast<std::size_t>(at)) == static_cast<float>(wanted));
      CHECK(groups.parameters.scale.at(in_group->at()) == static_cast<float>(wanted + 1));
      CHECK(groups.parameters.zero.at(in_group->at()) == static_cast<float>(wanted));
      in_group->next();
      for (std::size_t k = whole.size(); k-- > 0 && ++place[k] == whole[k];) place[k] = 0;
    }
  }
  CHECK(blocked > 500);
  CHECK(divided > 100);
  CHECK(refused > 300);
}

TEST_CASE("parameters of QuantizeLinear: shapes that are open or not known, and axes that are none") {
  const Shape open{2, graph::Dim("n")}, known{2, 3}, other{2, 4};
  CHECK(read({3}, {}, open).ok());
  CHECK(read({3}, {}, known).ok());
  CHECK_FALSE(read({3}, {}, other).ok());
  CHECK_FALSE(read({3}, {}, {}).ok());
  CHECK(read({1}, {}, {}).ok());
  CHECK(read({}, {}, {}).ok());
  CHECK(read({2}, {{"axis", std::int64_t{-2}}}, open).ok());
  for (const std::int64_t axis : {-3, 2, 3}) CHECK_FALSE(read({2}, {{"axis", axis}}, known).ok());
  CHECK_FALSE(read({2, 3}, {}, known).ok());
  const std::map<std::string, graph::Attribute> blocks{{"block_size", std::int64_t{3}}};
  CHECK(read({2, 1}, blocks, known).ok());
  CHECK_FALSE(read({2, 1}, blocks, open).ok());
  CHECK_FALSE(read({2, 1}, blocks, {}).ok());
  CHECK_FALSE(read({2}, blocks, known).ok());
  CHECK_FALSE(read({2, 1}, {{"block_size", std::int64_t{-1}}}, known).ok());
}

TEST_CASE(
    "parameters of QuantizeLinear: scales of blocks that QONNX would need one by one, up to 2^24 of them") {
  const auto found = [](std::int64_t rows, std::int64_t columns, std::int64_t block, bool is_constant) {
    return read({rows, (columns + block - 1) / block}, {{"block_size", block}}, Shape{rows, columns},
                is_constant)
        .ok();
  };
  constexpr std::int64_t kMany = 1 << 22;
  for (const bool is_constant : {false, true}) {
    CHECK(found(2, 2 * kMany, kMany, is_constant));  // 2^24
    CHECK(found(3, 2 * kMany, kMany, is_constant) ==
          is_constant);  // more: of a constant that is there anyway
    CHECK(found(2, 2 * kMany + 1, kMany, is_constant) == is_constant);
    CHECK(found(3, 2 * kMany, 2 * kMany, is_constant));  // one block: a scale for each row
  }
  CHECK_FALSE(
      read({1, 2}, {{"block_size", std::int64_t{1} << 62}}, Shape{4, std::int64_t{1} << 62}, true).ok());
  const auto scales = [](const Axes& shape) {
    graph::ConstantValue made{.shape = shape, .values = {}};
    for (std::int64_t i = 0; i < graph::count_elements(shape).take(); ++i)
      made.values.push_back(static_cast<double>(i + 1));
    return made;
  };
  const graph::ConstantValue zero{.shape = {}, .values = {0}};
  CHECK(linear_parameters(scales({2, 2, 1, 1}), zero, Shape{2, 2, 16, 3}, 21).ok());
  CHECK_FALSE(linear_parameters(scales({2, 2, 1, 1}), zero, Shape{2, 2, 2 * kMany, 3}, 21).ok());
  CHECK(linear_parameters(scales({2, 2, 1, 1}), zero, Shape{2, 2, 1, 2 * kMany}, 21).ok());
}

TEST_CASE("parameters of QuantizeLinear: numbers that QONNX's quantizers do not have") {
  struct Case {
    Tensor scale;
    std::optional<Tensor> zero;
    const char* why;  // "" for none
  };
  const auto floats = [](std::vector<float> values) {
    const auto count = static_cast<std::int64_t>(values.size());
    return Tensor::floats({count}, values);
  };
  const auto whole = [](Axes values) {
    const auto count = static_cast<std::int64_t>(values.size());
    return graph::Tensor::ints(ElementType::kInt32, {count}, values);
  };
  for (const Case& it : std::vector<Case>{
           {floats({1, 2}), {}, ""},
           {floats({1, 2}), whole({1, 2}), ""},
           {floats({1, 2}), whole({5}), ""},  // one for all
           {floats({1, 2}), whole({1, 2, 3}), "has 2 scales and 3 zero points"},
           {floats({1}), whole({1, 2}), "has 1 scales and 2 zero points"},
           {floats({}), whole({}), "has 0 scales"},
           {floats({1, 2}), whole({1 << 24, -(1 << 24)}), ""},
           {floats({1, 2}), whole({0, (1 << 24) + 1}), "beyond 2^24"},
           {floats({1, 2}), whole({0, -(1 << 24) - 1}), "beyond 2^24"},
           {floats({1, 0}), {}, "a scale that is 0 or no number"},
           {floats({1, HUGE_VALF}), {}, "a scale that is 0 or no number"},
           {floats({1, -2}), {}, ""},
           {whole({1, 2}), {}, "has a scale of type int32"},
           {floats({1, 2}), floats({0, 0}), ""},  // of no integer type: zeros of an 8-bit float, say
           {floats({1, 2}), floats({0, 1}), "has a zero point of type float that is not 0"}}) {
    graph::NodeBuilder net;
    std::vector<std::string> inputs{net.input("x", {2}), net.constant("s", it.scale)};
    if (it.zero) inputs.push_back(net.constant("z", *it.zero));
    net.node("QuantizeLinear", inputs, {{"axis", std::int64_t{0}}});
    const auto found = parameters_of(net.graph, net.graph.nodes[0], Shape{2});
    CHECK(found.ok() == (*it.why == '\0'));
    if (!found.ok()) CHECK(says(found.failure().message, {it.why}));
    if (found.ok()) CHECK(found.value().zero.size() == found.value().scale.size());
  }
}

TEST_CASE("integer ranges: of every width, sign and narrowness, and back") {
  for (int bits = 1; bits <= 32; ++bits) {
    for (const bool is_signed : {false, true}) {
      for (const bool narrow : {false, true}) {
        if (bits == 1 && (is_signed || narrow)) continue;
        const auto two = [](int power) { return std::int64_t{1} << power; };
        const IntegerBounds wanted = is_signed
                                         ? IntegerBounds{-two(bits - 1) + (narrow ? 1 : 0), two(bits - 1) - 1}
                                         : IntegerBounds{0, two(bits) - (narrow ? 2 : 1)};
        CAPTURE(bits);
        CHECK(IntegerRange{bits, is_signed, narrow}.bounds() == wanted);
        const auto back = range_of(wanted);
        REQUIRE(back);
        CHECK(back->bounds() == wanted);
        CHECK(back->bits <= bits);
        for (const IntegerBounds& other :
             {IntegerBounds{wanted.low - 2, wanted.high}, {wanted.low, wanted.high + 3}}) {
          const auto found = range_of(other);
          if (found) CHECK(found->bounds() == other);
        }
      }
    }
  }
  CHECK(IntegerRange{1, true, false}.bounds() == IntegerBounds{-1, 1});
  CHECK_FALSE(range_of({0, 0}));
  CHECK_FALSE(range_of({-3, 7}));
  CHECK_FALSE(range_of({0, std::int64_t{1} << 32}));
  CHECK_FALSE(range_of({-(std::int64_t{1} << 32), (std::int64_t{1} << 32) - 1}));
  CHECK(bounds_of(ElementType::kInt8) == IntegerBounds{-128, 127});
  CHECK(bounds_of(ElementType::kUint8) == IntegerBounds{0, 255});
  CHECK(bounds_of(ElementType::kInt2) == IntegerBounds{-2, 1});
  CHECK(bounds_of(ElementType::kUint4) == IntegerBounds{0, 15});
  CHECK(bounds_of(ElementType::kInt32) == IntegerBounds{INT32_MIN, INT32_MAX});
  CHECK(bounds_of(ElementType::kUint32) == IntegerBounds{0, UINT32_MAX});
  CHECK(bounds_of(ElementType::kInt64) == IntegerBounds{INT64_MIN, INT64_MAX});
}

TEST_CASE("integers: each type's tensors hold them as they are") {
  std::mt19937 engine(2);
  for (const ElementType type :
       {ElementType::kInt2, ElementType::kUint2, ElementType::kInt4, ElementType::kUint4, ElementType::kInt8,
        ElementType::kUint8, ElementType::kInt16, ElementType::kUint16, ElementType::kInt32,
        ElementType::kUint32}) {
    const IntegerBounds bounds = bounds_of(type);
    for (const std::size_t count : {0u, 1u, 2u, 3u, 5u, 9u}) {
      Axes values(count);
      for (std::int64_t& one : values)
        one = std::uniform_int_distribution<std::int64_t>(bounds.low, bounds.high)(engine);
      if (count > 1) values[0] = bounds.low, values[1] = bounds.high;
      const Tensor made = graph::Tensor::ints(type, {static_cast<std::int64_t>(count)}, values);
      CHECK(made.type() == type);
      CHECK(made.to_ints() == values);
    }
  }
}

}  // namespace
}  // namespace crumb::exporting
