// Shapes of windows (convolutions, pools, Im2Col of qonnx's domains): of any sizes, also those whose sums and products
// pass 64 bits.
#include <doctest/doctest.h>

#include <limits>
#include <random>

#include "graph/onnx/infer_shapes.h"
#include "graph/onnx/read.h"
#include "graph/onnx/write.h"
#include "tests/graph/node_builder.h"
#include "tests/support/testing.h"

namespace crumb::graph {
namespace {

using Ints = std::vector<std::int64_t>;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

std::optional<Shape> inferred(NodeBuilder& built, const std::string& output) {
  built.graph.outputs = {output};
  built.graph.values[output] = {};
  return infer_shapes(built.graph).shape_of(output);
}

std::optional<Shape> pooled(const Ints& x, const std::map<std::string, Attribute>& attributes) {
  NodeBuilder built;
  built.graph.opsets[std::string(kChannelsLastDomain)] = 1;
  return inferred(built, built.node("MaxPool", {built.input("x", x)}, attributes, kChannelsLastDomain));
}

/// Windows that begin at multiples of the stride, `before` places before the data, and end in them or in the padding;
/// with `up`, those that begin there.
std::int64_t counted(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t dilation,
                     std::int64_t before, std::int64_t after, bool up) {
  std::int64_t windows = 0;
  const std::int64_t last = size + before + after - 1, reach = dilation * (kernel - 1);
  if (last < reach) return 0;
  while (windows * stride + reach <= last) ++windows;
  // The next one is not full: ceil_mode takes it where it begins in the data or before them.
  return up && (windows - 1) * stride + reach < last && windows * stride < size + before ? windows + 1
                                                                                         : windows;
}

TEST_CASE("windows of small sizes are those that counting finds") {
  std::mt19937 random(1);
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (int round = 0; round < 3000; ++round) {
    const std::int64_t size = draw(1, 12), kernel = draw(1, 4), stride = draw(1, 4), dilation = draw(1, 3);
    const std::int64_t before = draw(0, kernel - 1), after = draw(0, kernel - 1);
    const bool up = round % 2 == 0;
    const auto found = pooled({1, size, 5}, {{"kernel_shape", Ints{kernel}},
                                             {"strides", Ints{stride}},
                                             {"dilations", Ints{dilation}},
                                             {"pads", Ints{before, after}},
                                             {"ceil_mode", std::int64_t{up}}});
    INFO("size ", size, " kernel ", kernel, " stride ", stride, " dilation ", dilation, " pads ", before, " ",
         after, up ? " up" : "");
    CHECK(found == Shape{1, counted(size, kernel, stride, dilation, before, after, up), 5});
  }
}

TEST_CASE("windows of any sizes: a natural number, or nothing known") {
  std::mt19937_64 random(2);
  const Ints hostile = {0,
                        1,
                        -1,
                        2,
                        3,
                        kMost,
                        kMost - 1,
                        kMost / 2,
                        kLeast,
                        kLeast + 1,
                        kLeast / 2,
                        std::int64_t{1} << 31,
                        std::int64_t{1} << 32,
                        1LL << 53,
                        1LL << 62};
  const auto any = [&] {
    return random() % 3 ? hostile[random() % hostile.size()] : 1 + static_cast<std::int64_t>(random() % 9);
  };
  const auto size = [&] { return any() & kMost; };
  int known = 0;
  for (int round = 0; round < 4000; ++round) {
    NodeBuilder built;
    built.graph.opsets[std::string(kChannelsLastDomain)] = 1;
    const std::string x = built.input("x", {1, size(), size(), size()});
    std::string y;
    switch (round % 4) {
      case 0:
        y = built.node("MaxPool", {x},
                       {{"kernel_shape", Ints{any(), any()}},
                        {"strides", Ints{any(), any()}},
                        {"dilations", Ints{any(), any()}},
                        {"pads", Ints{any(), any(), any(), any()}},
                        {"auto_pad", std::string(round % 3 ? "NOTSET" : "SAME_UPPER")},
                        {"ceil_mode", std::int64_t{round % 8 == 0}}},
                       kChannelsLastDomain);
        break;
      case 1:
        y = built.node("Conv", {x, built.input("w", {size(), size(), size(), size()})},
                       {{"strides", Ints{any(), any()}}, {"pads", Ints{any(), any(), any(), any()}}},
                       kChannelsLastDomain);
        break;
      case 2:
        y = built.node("Im2Col", {x},
                       {{"kernel_size", Ints{any(), any()}},
                        {"stride", Ints{any(), any()}},
                        {"pad_amount", Ints{any(), any(), any(), any()}}},
                       kQonnxDomain);
        break;
      default: y = built.node("QuantAvgPool2d", {x}, {{"kernel", any()}, {"stride", any()}}, kQonnxDomain);
    }
    const auto shape = inferred(built, y);
    if (!shape) continue;
    known += 1;
    for (const Dim& dim : *shape) CHECK(dim.known());
  }
  CHECK(known > 200);
}

TEST_CASE("windows at the ends of 64 bits") {
  const auto count = [](std::int64_t size, Ints kernel, Ints strides, Ints pads) {
    return pooled(
        {1, size, 5},
        {{"kernel_shape", std::move(kernel)}, {"strides", std::move(strides)}, {"pads", std::move(pads)}});
  };
  CHECK(count(kMost, {1}, {1}, {0, 0}) == Shape{1, kMost, 5});
  CHECK(count(kMost, {1}, {4}, {kMost, kMost}) ==
        Shape{1, std::int64_t{3} << 61, 5});  // (3 * (2^63 - 1) - 1) / 4 + 1
  CHECK(!count(kMost, {1}, {2}, {kMost, kMost}));
  CHECK(!count(kMost, {1}, {1}, {1, 0}));
  CHECK(count(8, {kMost}, {1}, {0, 0}) == Shape{1, 0, 5});
  CHECK(count(8, {1}, {1}, {kLeast, kLeast}) == Shape{1, 0, 5});
}

TEST_CASE("versions of operator sets that the ONNX library would cut to 32 bits are refused") {
  NodeBuilder built;
  const std::string y = built.node(
      "BipolarQuant", {built.input("x", {2}), built.constant("s", Tensor::scalar(1.0F))}, {}, kQonnxDomain);
  built.graph.outputs = {y};
  built.graph.values[y] = {};
  for (const std::int64_t version :
       {std::int64_t{1} << 32 | 1, std::int64_t{1} << 31, kMost, kLeast, std::int64_t{-1}}) {
    built.graph.opsets[std::string(kQonnxDomain)] = version;
    const std::string file = onnx_bytes(built.graph);
    const auto read = parse_onnx(std::as_bytes(std::span(file)), {});
    REQUIRE(!read.ok());
    CHECK(read.failure().message.find(std::to_string(version)) != std::string::npos);
  }
  built.graph.opsets[std::string(kQonnxDomain)] = 1;
  const std::string file = onnx_bytes(built.graph);
  CHECK(parse_onnx(std::as_bytes(std::span(file)), {}).ok());
}

TEST_CASE("shapes of vectors as long as numbers go: nothing is laid out for each element") {
  for (const char* op : {"Add", "Sub", "Mul", "Concat", "Gather", "Slice", "Cast", "Squeeze", "Unsqueeze"}) {
    for (const std::int64_t size : {std::int64_t{1024}, std::int64_t{1025}, std::int64_t{1} << 51, kMost}) {
      const std::string name = op;
      CAPTURE(name);
      CAPTURE(size);
      NodeBuilder built;
      std::vector<std::string> inputs{built.input("x", {size})};
      const auto number = [&](const char* called) {
        return built.constant(called, Tensor::ints({1}, Ints{0}));
      };
      std::map<std::string, Attribute> attributes;
      if (name == "Add" || name == "Sub" || name == "Mul" || name == "Concat") inputs.push_back("x");
      if (name == "Gather" || name == "Unsqueeze") inputs.push_back(number("at"));
      if (name == "Slice") inputs = {"x", number("from"), number("to")};
      if (name == "Concat") attributes["axis"] = std::int64_t{0};
      if (name == "Cast") attributes["to"] = std::int64_t{7};
      const auto shape = inferred(built, built.node(op, inputs, attributes));
      if (name == "Add" || name == "Cast") CHECK(shape == Shape{Dim(size)});
    }
  }
}

}  // namespace
}  // namespace crumb::graph
