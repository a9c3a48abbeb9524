// Gains of norms in matrices: drawn networks compute the same before and after, within what float32's rounding explains, and
// the gains are gone; what cannot fold stays, bit for bit, and says why.
#include "graph/passes/fold_norms.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "graph/passes/passes.h"
#include "runtime/engine.h"
#include "tests/graph/passes/builder.h"
#include "tests/support/testing.h"

namespace crumb::graph {
namespace {

using Floats = std::vector<float>;

/// A norm of x [rows, width] and the products behind it, each of which is an output.
class DrawnNorm {
 public:
  explicit DrawnNorm(unsigned seed) : random_(seed), b_({kRows, 1}) {
    width_ = between(1, 9);
    x_ = draw(kRows * width_);
    b_.graph.values["x"] = float_value({kRows, width_});
    b_.graph.outputs = {};
    b_.graph.opsets[""] = 23;
    norm();
    const int products = between(1, 3);
    for (int i = 0; i < products; ++i) product(std::to_string(i));
    for (Node& node : b_.graph.nodes) node.version = 23;
  }

  const Graph& graph() const { return b_.graph; }
  bool has_bias() const { return !bias_.empty(); }
  bool all_biased() const { return all_biased_; }
  bool adds_one() const { return adds_one_; }

  std::vector<Floats> run(const Graph& graph) const {
    std::vector<Floats> made;
    const std::vector<Tensor> x{Tensor::floats({kRows, width_}, x_)};
    for (const Tensor& output : runtime::Engine(1).prepare(graph)->run(x)) made.push_back(output.to_floats());
    return made;
  }

  /// How far two float32 executions of a network and its folded form may be apart, for each element of each output. K terms
  /// add up with a relative error of K u of their sizes, whatever their order (Higham 2002, section 3.1); norms, gains, matrices,
  /// biases and factors are rounded once or twice more, in either form.
  std::vector<std::vector<double>> bounds() const {
    std::vector<std::vector<double>> all;
    for (const Product& product : products_) {
      std::vector<double> bound;
      for (std::int64_t row = 0; row < kRows; ++row) {
        const std::vector<double> sizes = sizes_of_norm(row);
        for (std::int64_t out = 0; out < product.outputs; ++out) {
          double sum = product.bias.empty() ? 0 : std::abs(product.beta * product.bias[at(out)]);
          for (std::int64_t i = 0; i < width_; ++i)
            sum += std::abs(product.alpha * sizes[at(i)] * product.weight[at(i * product.outputs + out)]);
          bound.push_back(2 * static_cast<double>(width_ + 10) * 0x1p-24 * sum + 1e-37);
        }
      }
      all.push_back(bound);
    }
    return all;
  }

 private:
  static constexpr std::int64_t kRows = 3;

  struct Product {
    std::int64_t outputs = 0;
    Floats weight;  ///< [width, outputs]
    Floats bias;    ///< or none
    double alpha = 1, beta = 1;
  };

  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool chance() { return between(0, 1) == 1; }
  Floats draw(std::int64_t count) {
    std::normal_distribution<float> normal(0, 2);
    Floats values(at(count));
    for (float& x : values) x = normal(random_);
    return values;
  }

  void norm() {
    const bool is_layer = chance();
    const std::vector<std::int64_t> shape =
        chance() ? std::vector<std::int64_t>{width_} : std::vector<std::int64_t>{1, width_};
    gain_ = draw(width_);
    adds_one_ = chance();
    if (adds_one_) {
      b_.constant("w", shape, gain_);
      b_.constant("one", {}, {1});
      for (float& gain : gain_) gain += 1;
      b_.node("Add", {"w", "one"}, {"g"});
    } else {
      b_.constant("g", shape, gain_);
    }
    std::vector<std::string> inputs{"x", "g"};
    if (is_layer && chance()) {
      bias_ = draw(width_);
      b_.constant("b", {width_}, bias_);
      inputs.emplace_back("b");
    }
    b_.node(is_layer ? "LayerNormalization" : "RMSNormalization", inputs, {"n"},
            {{"axis", std::int64_t{-1}}});
    is_layer_ = is_layer;
    if (chance()) {
      b_.node("Identity", {"n"}, {"same"});
      taken_ = "same";
    }
    if (chance()) {
      b_.graph.initializers["rows"] = Tensor::ints({2}, std::vector<std::int64_t>{-1, width_});
      b_.node("Reshape", {taken_, "rows"}, {"view"});
      taken_ = "view";
    }
    if (chance()) b_.node("Shape", {taken_}, {"looked_at"});
  }

  void product(const std::string& number) {
    Product made{.outputs = between(1, 6)};
    std::string weight = "W" + number;
    made.weight = draw(width_ * made.outputs);
    const std::string y = "y" + number;
    if (chance()) {
      const bool transposed = chance(), has_bias = chance();
      is_plain_ = false;
      made.alpha = chance() ? 1 : 0.5F;
      made.beta = chance() ? 1 : -1.5F;
      Floats laid(made.weight.size());
      for (std::size_t i = 0; i < laid.size(); ++i)
        laid[transposed ? i % at(made.outputs) * at(width_) + i / at(made.outputs) : i] = made.weight[i];
      b_.constant(weight, transposed ? std::vector{made.outputs, width_} : std::vector{width_, made.outputs},
                  laid);
      std::vector<std::string> inputs{taken_, weight};
      if (has_bias) inputs.push_back(bias(made, number));
      b_.node("Gemm", inputs, {y},
              {{"transB", std::int64_t{transposed}},
               {"alpha", static_cast<float>(made.alpha)},
               {"beta", static_cast<float>(made.beta)}});
    } else if (is_plain_ && chance()) {
      made = products_.back();  // the matrix of the one before, which takes it along the same axis
      made.bias.clear();
      made.beta = 1;
      weight = last_;
      b_.node("MatMul", {taken_, weight}, {y});
      all_biased_ = false;
    } else {
      b_.constant(weight, {width_, made.outputs}, made.weight);
      if (chance()) {
        b_.node("MatMul", {taken_, weight}, {y});
        all_biased_ = false;
      } else {
        b_.node("MatMul", {taken_, weight}, {"p" + number});
        b_.node("Add", {"p" + number, bias(made, number)}, {y});
      }
      is_plain_ = true;
    }
    last_ = weight;
    b_.graph.outputs.push_back(y);
    products_.push_back(made);
  }

  /// A bias of one number, or one for each output.
  std::string bias(Product& product, const std::string& number) {
    const bool single = chance();
    const Floats values = draw(single ? 1 : product.outputs);
    product.bias.assign(at(product.outputs), 0);
    for (std::size_t i = 0; i < product.bias.size(); ++i) product.bias[i] = values[single ? 0 : i];
    const auto count = static_cast<std::int64_t>(values.size());
    b_.constant("c" + number,
                single && chance() ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{count}, values);
    return "c" + number;
  }

  /// Sizes of what the norm gives, its bias added as a size.
  std::vector<double> sizes_of_norm(std::int64_t row) const {
    double mean = 0, square = 0;
    const auto x = [&](std::int64_t i) { return static_cast<double>(x_[at(row * width_ + i)]); };
    for (std::int64_t i = 0; i < width_ && is_layer_; ++i) mean += x(i) / static_cast<double>(width_);
    for (std::int64_t i = 0; i < width_; ++i)
      square += (x(i) - mean) * (x(i) - mean) / static_cast<double>(width_);
    std::vector<double> sizes;
    for (std::int64_t i = 0; i < width_; ++i) {
      sizes.push_back(std::abs((x(i) - mean) / std::sqrt(square + 1e-5) * gain_[at(i)]));
      if (has_bias()) sizes.back() += std::abs(bias_[at(i)]);
    }
    return sizes;
  }

  std::mt19937 random_;
  Builder b_;
  std::int64_t width_ = 1;
  Floats x_, gain_, bias_;
  bool is_layer_ = false, adds_one_ = false, all_biased_ = true;
  bool is_plain_ = false;  ///< whether the last product is a MatMul
  std::string taken_ = "n", last_;
  std::vector<Product> products_;
};

bool is_all(const Graph& graph, const std::string& name, float value) {
  const Tensor* constant = graph.constant(name);
  return constant && std::ranges::all_of(constant->to_floats(), [&](float x) { return x == value; });
}

TEST_CASE(
    "drawn norms fold: outputs keep within rounding, gains are ones, biases go where all products have one") {
  int moved = 0, divided = 0;
  const unsigned seeds = testing::slow() ? 3000 : 600;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    const DrawnNorm drawn(seed);
    std::vector<PassRemark> remarks;
    const Graph folded = fold_norms(drawn.graph(), &remarks);
    REQUIRE(remarks.size() == 1);
    REQUIRE(remarks[0].stays == "");
    CHECK(is_all(folded, drawn.adds_one() ? "w" : "g", drawn.adds_one() ? 0.0F : 1.0F));
    if (drawn.has_bias()) {
      CHECK(is_all(folded, "b", 0) == drawn.all_biased());
      ++(drawn.all_biased() ? moved : divided);
    }
    for (const std::string& changed : remarks[0].changed)
      CHECK_FALSE(*folded.constant(changed) == *drawn.graph().constant(changed));
    const auto before = drawn.run(drawn.graph()), after = drawn.run(folded);
    const auto bounds = drawn.bounds();
    REQUIRE(before.size() == bounds.size());
    for (std::size_t i = 0; i < bounds.size(); ++i) {
      REQUIRE(before[i].size() == bounds[i].size());
      for (std::size_t j = 0; j < bounds[i].size(); ++j) {
        const double apart = std::abs(static_cast<double>(before[i][j]) - after[i][j]);
        if (!(apart <= bounds[i][j]))
          FAIL_CHECK("output " << i << ", number " << j << ": " << before[i][j] << " " << after[i][j]);
      }
    }
    remarks.clear();
    const Graph again = fold_norms(folded, &remarks);
    CHECK(again.initializers == folded.initializers);
    CHECK(remarks[0].stays == "its gain is ones");
  }
  CHECK(moved > static_cast<int>(seeds) / 30);
  CHECK(divided > static_cast<int>(seeds) / 30);
}

/// RMSNormalization of x [2, 4] by g, and y = norm(x) W.
Builder plain_norm() {
  Builder b({2, 4});
  b.graph.opsets[""] = 23;
  b.counting("g", {4});
  b.counting("W", {4, 3});
  b.node("RMSNormalization", {"x", "g"}, {"n"});
  b.node("MatMul", {"n", "W"}, {"y"});
  return b;
}

/// What is said of the only norm, of which nothing may change.
std::string why_it_stays(Graph graph) {
  for (Node& node : graph.nodes) node.version = 23;
  std::vector<PassRemark> remarks;
  const Graph made = fold_norms(graph, &remarks);
  REQUIRE(remarks.size() == 1);
  CHECK(remarks[0].changed.empty());
  for (const auto& constant : made.initializers)
    CHECK(graph.initializers.at(constant.first) == constant.second);
  CHECK(made.nodes.size() == graph.nodes.size());
  return remarks[0].stays;
}

TEST_CASE("a norm that cannot fold stays and says why") {
  const auto stays = [](const auto& change) {
    Builder b = plain_norm();
    change(b);
    return why_it_stays(b.graph);
  };
  CHECK(stays([](Builder& b) { b.graph.outputs = {"y", "n"}; }) == "its output is the graph's");
  CHECK(stays([](Builder& b) {
          b.node("Relu", {"n"}, {"z"});
          b.graph.outputs = {"y", "z"};
        }) == "its output is taken by Relu, which is no product with a matrix");
  CHECK(stays([](Builder& b) {
          b.constant("ids", {}, {0});
          b.node("Gather", {"W", "ids"}, {"z"});
          b.graph.outputs = {"y", "z"};
        }) == "its matrix 'W' is taken by Gather, too");
  CHECK(stays([](Builder& b) {  // another product, of something else
          b.node("MatMul", {"x", "W"}, {"z"});
          b.graph.outputs = {"y", "z"};
        }) == "its matrix 'W' is taken by MatMul, too");
  CHECK(stays([](Builder& b) {
          b.graph.outputs = {"y", "W"};
        }) == "its matrix 'W' is an output of the graph");
  CHECK(stays([](Builder& b) {
          b.graph.nodes[1].inputs = {"n", "n"};
        }).starts_with("its output is taken by MatMul"));
  CHECK(stays([](Builder& b) {
          b.graph.nodes[1] = {.name = "q",
                              .op = "Gemm",
                              .inputs = {"n", "W"},
                              .outputs = {"y"},
                              .attributes = {{"transA", std::int64_t{1}}}};
        }).starts_with("its output is taken by Gemm"));
  CHECK(stays([](Builder& b) {
          b.node("Relu", {"W"}, {"V"});
          b.graph.nodes[1].inputs = {"n", "V"};
          std::swap(b.graph.nodes[1], b.graph.nodes[2]);
        }) == "what MatMul multiplies it by is no float32 constant");
  CHECK(stays([](Builder& b) { b.counting("g", {1}); }) ==
        "its gain has 1 numbers, and the matrix of MatMul takes 4");
  CHECK(stays([](Builder& b) {
          b.node("Relu", {"g"}, {"h"});
          b.graph.nodes[0].inputs = {"x", "h"};
          std::rotate(b.graph.nodes.begin(), b.graph.nodes.end() - 1, b.graph.nodes.end());
        }).starts_with("its gain is no float32 constant"));
  CHECK(stays([](Builder& b) {
          b.graph.initializers["to"] = Tensor::ints({2}, std::vector<std::int64_t>{4, 2});
          b.node("Reshape", {"n", "to"}, {"r"});
          b.counting("W", {2, 3});
          b.graph.nodes[1].inputs = {"r", "W"};
          std::swap(b.graph.nodes[1], b.graph.nodes[2]);
        }) == "its output is taken by Reshape, which is no product with a matrix");
  CHECK(stays([](Builder& b) { b.constant("g", {4}, {1, 1, 1, 1}); }) == "its gain is ones");
  CHECK(stays([](Builder& b) { b.constant("g", {4}, {1, INFINITY, 1, 1}); }) == "its gain is not finite");
  CHECK(stays([](Builder& b) {
          b.constant("g", {4}, {1e-38F, 1, 1, 1e38F});
        }) == "float32 does not hold 'W' times its gain");
  CHECK(stays([](Builder& b) {  // no bias behind, and none before where the gain is 0
          b.constant("g", {4}, {1, 0, 2, 3});
          b.counting("b", {4});
          b.graph.nodes[0] = {
              .name = "n", .op = "LayerNormalization", .inputs = {"x", "g", "b"}, .outputs = {"n"}};
        }) == "its bias can neither go into one behind a matrix nor be divided by its gain");
  CHECK(stays([](Builder& b) {
          b.node("Relu", {"g"}, {"b"});
          b.node("LayerNormalization", {"x", "g", "b"}, {"n"});
          b.node("MatMul", {"n", "W"}, {"y"});
          b.graph.nodes.erase(b.graph.nodes.begin(), b.graph.nodes.begin() + 2);
        }).starts_with("its bias is no float32 constant"));
}

TEST_CASE("a gain that others take stays theirs, and its norm gets ones of its own") {
  Builder b = plain_norm();
  b.node("Mul", {"x", "g"}, {"z"});
  b.graph.outputs = {"y", "z"};
  for (Node& node : b.graph.nodes) node.version = 23;
  const Graph made = fold_norms(b.graph);
  CHECK(*made.constant("g") == *b.graph.constant("g"));
  CHECK(is_all(made, made.nodes[0].inputs[1], 1));
  CHECK(made.constant("W")->to_floats() == Floats{1, 2, 3, 8, 10, 12, 21, 24, 27, 40, 44, 48});
}

}  // namespace
}  // namespace crumb::graph
