// A convolution and what follows it, computed together, have the bits of the two nodes one by one.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "runtime/model.h"
#include "tests/graph/node_builder.h"

namespace crumb::runtime {
namespace {

using graph::NodeBuilder;

/// x -> Conv -> follower, and rarely another node that takes the convolution's output too.
class DrawnPair {
 public:
  explicit DrawnPair(std::mt19937_64& engine) : engine_(engine) {
    builder_.graph.opsets[""] = 17;
    if (below(6) == 0) type_ = graph::ElementType::kFloat16;
    const std::int64_t groups = 1 + below(2), channels = groups * (1 + below(3));
    const std::int64_t axes = 1 + below(2), kernel = 1 + below(3);
    outputs_ = groups * (1 + below(9));
    std::vector<std::int64_t> shape{1 + below(2), channels}, weight{outputs_, channels / groups};
    for (std::int64_t i = 0; i < axes; ++i) {
      shape.push_back(kernel + below(30));
      weight.push_back(kernel);
    }
    rank_ = axes + 2;
    std::vector<std::string> inputs{operand("x", shape), operand("w", weight)};
    if (below(2) == 0) inputs.push_back(operand("b", {outputs_}));
    const std::string made = add("Conv", inputs, {{"group", groups}});
    builder_.graph.outputs = {add_follower(made)};
    if (below(8) == 0) builder_.graph.outputs.push_back(below(2) == 0 ? made : add("Neg", {made}, {}));
  }

  std::vector<Array> run(Computes how, int threads) const {
    return Model(builder_.graph, how).run(inputs_, {.threads = threads});
  }
  std::size_t steps() const { return Model(builder_.graph).steps(); }

 private:
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(n));
  }

  /// Few numbers, so that sums are zeros of both signs; rarely infinities and NaN.
  float drawn() {
    const std::int64_t kind = below(300);
    if (kind == 0) return std::numeric_limits<float>::infinity();
    if (kind == 1) return std::numeric_limits<float>::quiet_NaN();
    if (kind < 40) return kind % 2 == 0 ? 0.0F : -0.0F;
    return std::ldexp(static_cast<float>(below(9) - 4), static_cast<int>(below(3)) - 1);
  }

  /// An input of the graph.
  std::string operand(const std::string& name, const std::vector<std::int64_t>& shape) {
    builder_.input(name, shape);
    builder_.graph.values[name].type = type_;
    Array& made = inputs_.emplace_back(type_, shape);
    for (float& v : made.writable<float>()) v = drawn();
    made.round();
    return name;
  }

  std::string add(const std::string& op, const std::vector<std::string>& inputs,
                  const std::map<std::string, graph::Attribute>& attributes) {
    const std::string made = builder_.node(op, inputs, attributes);
    builder_.graph.nodes.back().version = 17;
    return made;
  }

  std::string add_follower(const std::string& x) {
    switch (below(4)) {
      case 0: return add("Relu", {x}, {});
      case 1: return add("LeakyRelu", {x}, {{"alpha", drawn()}});
      case 2: {
        std::vector<std::string> inputs{x, below(3) == 0 ? "" : operand("low", {})};
        if (below(3) > 0) inputs.push_back(operand("high", {}));
        return add("Clip", inputs, {});
      }
      default: return add("PRelu", {x, operand("slope", slope_shape())}, {});
    }
  }

  /// One number, or one for each channel.
  std::vector<std::int64_t> slope_shape() {
    if (below(4) == 0) return {1};
    std::vector<std::int64_t> shape(static_cast<std::size_t>(rank_) - 1, 1);
    shape[0] = outputs_;
    if (below(3) == 0) shape.insert(shape.begin(), 1);
    return shape;
  }

  std::mt19937_64& engine_;
  NodeBuilder builder_;
  std::int64_t outputs_ = 0, rank_ = 0;
  graph::ElementType type_ = graph::ElementType::kFloat;
  std::vector<Array> inputs_;
};

}  // namespace

TEST_CASE("a convolution and its follower: computed together they have the bits of one after the other") {
  std::mt19937_64 engine(17);
  std::size_t single = 0;
  for (int round = 0; round < 2500; ++round) {
    CAPTURE(round);
    const DrawnPair drawn(engine);
    single += drawn.steps() == 1 ? 1 : 0;
    const std::vector<Array> found = drawn.run(Computes::kIntegers, 1 + round % 2),
                             expected = drawn.run(Computes::kFloats, 1);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      REQUIRE(found[i].shape() == expected[i].shape());
      REQUIRE(found[i].type() == expected[i].type());
      const auto a = found[i].values<float>(), b = expected[i].values<float>();
      bool is_same = true;
      for (std::size_t e = 0; e < a.size(); ++e)
        is_same = is_same && (std::isnan(b[e])
                                  ? std::isnan(a[e])
                                  : std::bit_cast<std::uint32_t>(a[e]) == std::bit_cast<std::uint32_t>(b[e]));
      CHECK(is_same);
    }
  }
  CHECK(single > 1500);
}

}  // namespace crumb::runtime
