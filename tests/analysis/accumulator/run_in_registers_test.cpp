// Nodes in registers: which operands meet in which result, in which type results are, and what does not fit.
#include "analysis/accumulator/run_in_registers.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <random>

#include "formats/half.h"
#include "graph/operator_traits.h"
#include "tests/support/samples.h"

namespace crumb::analysis {
namespace {

using crumb::testing::says;
using graph::ElementType;
using graph::Node;
using graph::Tensor;
using Numbers = std::vector<std::int64_t>;

const SimulatedRegister kWide{40, OverflowMode::kCheck};

Node node_of(const std::string& op, std::map<std::string, graph::Attribute> attributes = {}) {
  return {.name = "it",
          .op = op,
          .version = 13,
          .inputs = {"x", "w"},
          .outputs = {"y"},
          .attributes = std::move(attributes)};
}

/// Rows of codes for an input of [-8, 7] whole numbers.
ProductLayer layer_of(const Node& node, Numbers weight_shape, std::size_t channels, Numbers codes) {
  ProductLayer layer{.name = node.name, .op = node.op, .rule = &graph::traits_of(node).products[0]};
  layer.weight_shape = std::move(weight_shape);
  layer.channels = channels;
  layer.length = channels == 0 ? 0 : codes.size() / channels;
  layer.codes = std::move(codes);
  layer.scale.assign(channels, 1);
  layer.input_range = IntegerRange{-8, 7};
  layer.input_scale = 1;
  return layer;
}

Numbers drawn(std::mt19937& engine, std::size_t count) {
  Numbers made(count);
  for (auto& one : made) one = std::uniform_int_distribution<std::int64_t>(-8, 7)(engine);
  return made;
}

Tensor floats(const Numbers& shape, const Numbers& values) {
  return Tensor::floats(shape, std::vector<float>(values.begin(), values.end()));
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

/// Of an Einsum, number by number: every combination of labels.
std::vector<float> contracted(const std::string& a, const std::string& b, const std::string& out,
                              std::map<char, std::int64_t> sizes, const Numbers& x, const Numbers& w) {
  const auto at = [&](const std::string& labels, const std::map<char, std::int64_t>& place) {
    std::int64_t index = 0;
    for (const char label : labels) index = index * sizes.at(label) + place.at(label);
    return static_cast<std::size_t>(index);
  };
  std::size_t count = 1, all = 1;
  for (const char label : out) count *= static_cast<std::size_t>(sizes.at(label));
  for (const auto& [label, size] : sizes) all *= static_cast<std::size_t>(size);
  std::vector<float> made(count, 0);
  for (std::size_t i = 0; i < all; ++i) {
    std::map<char, std::int64_t> place;
    std::size_t rest = i;
    for (const auto& [label, size] : sizes) {
      place[label] = static_cast<std::int64_t>(rest % static_cast<std::size_t>(size));
      rest /= static_cast<std::size_t>(size);
    }
    made[at(out, place)] += static_cast<float>(x[at(a, place)] * w[at(b, place)]);
  }
  return made;
}

}  // namespace

TEST_CASE("an Einsum in registers meets what its labels say") {
  struct Equation {
    std::string a, b, out, kept, summed;  ///< b is the weight; its labels that stay, and that are summed over
  };
  std::mt19937 engine(21);
  const std::map<char, std::int64_t> sizes{{'b', 2}, {'i', 3}, {'j', 4}, {'k', 5}};
  for (const Equation& e :
       {Equation{"ik", "kj", "ij", "j", "k"}, Equation{"ik", "kj", "ji", "j", "k"},
        Equation{"bik", "bkj", "bij", "bj", "k"}, Equation{"kib", "jkb", "jbi", "jb", "k"},
        Equation{"ijk", "jk", "i", "", "jk"}, Equation{"ijk", "kj", "i", "", "kj"},
        Equation{"k", "kj", "j", "j", "k"}, Equation{"bi", "bi", "b", "b", "i"}}) {
    const std::string equation = e.a + "," + e.b + "->" + e.out;
    CAPTURE(equation);
    std::map<char, std::int64_t> own;
    const auto shape_of = [&](const std::string& labels) {
      Numbers shape;
      for (const char label : labels) {
        shape.push_back(sizes.at(label));
        own[label] = sizes.at(label);
      }
      return shape;
    };
    const Numbers x_shape = shape_of(e.a), w_shape = shape_of(e.b), kept = shape_of(e.kept);
    std::size_t x_count = 1, w_count = 1, rows = 1;
    for (const auto size : x_shape) x_count *= static_cast<std::size_t>(size);
    for (const auto size : w_shape) w_count *= static_cast<std::size_t>(size);
    for (const auto size : kept) rows *= static_cast<std::size_t>(size);
    const Numbers x = drawn(engine, x_count), w = drawn(engine, w_count);
    // Rows of the weight: what stays, then what is summed over.
    std::vector<float> ordered = contracted(
        e.b, e.b, e.kept + e.summed,
        [&] {
          std::map<char, std::int64_t> of_weight;
          for (const char label : e.b) of_weight[label] = sizes.at(label);
          return of_weight;
        }(),
        w, Numbers(w.size(), 1));
    const Node node = node_of("Einsum", {{"equation", equation}});
    const ProductLayer layer = layer_of(node, w_shape, rows, Numbers(ordered.begin(), ordered.end()));
    SimulatedLayer simulated(layer, 0, kWide);
    const std::vector<Tensor> inputs{floats(x_shape, x), floats(w_shape, w)};
    const Tensor y = run_in_registers(simulated, node, inputs);
    CHECK(y.shape() == shape_of(e.out));
    CHECK(y.to_floats() == contracted(e.a, e.b, e.out, own, x, w));
  }
}

TEST_CASE("results in registers have the type of the inputs, rounded once for each operation") {
  Node node = node_of("Gemm", {{"alpha", 0.7F}, {"beta", 1.5F}});
  node.inputs.emplace_back("b");
  ProductLayer layer = layer_of(node, {3, 2}, 2, {1, -2, 3, 7, 5, -6});
  layer.scale = {0.3F, 0.1F};
  SimulatedLayer simulated(layer, 0, kWide);
  const float bias[] = {0.37F, -1.3F};
  const auto value = [&](auto rounded, std::size_t c, double sum) {
    const double product = rounded(rounded(sum * static_cast<double>(layer.scale[c])) * 0.7F);
    return rounded(product + rounded(rounded(bias[c]) * 1.5F));
  };
  const Numbers x{2, -3, 5};
  const double sums[] = {2 + 6 + 15, 14 - 15 - 30};
  const auto single = [](double v) { return static_cast<double>(static_cast<float>(v)); };
  const auto half = [](double v) {
    return static_cast<double>(f16_to_float(float_to_f16(static_cast<float>(v))));
  };
  const std::vector<Tensor> inputs{floats({1, 3}, x), Tensor(), Tensor::floats({2}, bias)};
  const std::vector<float> y = run_in_registers(simulated, node, inputs).to_floats();
  for (std::size_t c = 0; c < 2; ++c) CHECK(y[c] == static_cast<float>(value(single, c, sums[c])));
  const auto halves = [](const Numbers& shape, std::span<const float> values) {
    std::vector<std::byte> bytes;
    for (const float v : values) {
      const std::uint16_t bits = float_to_f16(v);
      bytes.push_back(static_cast<std::byte>(bits & 255));
      bytes.push_back(static_cast<std::byte>(bits >> 8));
    }
    return Tensor(ElementType::kFloat16, shape, bytes);
  };
  const std::vector<float> as_floats(x.begin(), x.end());
  const std::vector<Tensor> of_halves{halves({1, 3}, as_floats), Tensor(), halves({2}, bias)};
  const Tensor z = run_in_registers(simulated, node, of_halves);
  CHECK(z.type() == ElementType::kFloat16);
  for (std::size_t c = 0; c < 2; ++c) CHECK(static_cast<double>(z.to_floats()[c]) == value(half, c, sums[c]));
  const std::vector<double> doubles(x.begin(), x.end());
  const auto bytes = std::as_bytes(std::span(doubles));
  const Node plain = node_of("Gemm");
  const std::vector<Tensor> of_doubles{Tensor(ElementType::kDouble, {1, 3}, {bytes.begin(), bytes.end()})};
  const Tensor exact = run_in_registers(simulated, plain, of_doubles);
  CHECK(exact.type() == ElementType::kDouble);
  std::array<double, 2> found{};
  std::memcpy(found.data(), exact.bytes().data(), sizeof found);
  for (std::size_t c = 0; c < 2; ++c) CHECK(found[c] == sums[c] * layer.scale[c]);
}

TEST_CASE("integers in registers lose their zero points, and wrap around as their type does") {
  Node node = node_of("MatMulInteger");
  node.inputs = {"x", "w", "x_zero", "w_zero"};
  ProductLayer layer = layer_of(node, {2, 2}, 2, {1, 2, 3, 4});
  layer.input_range = IntegerRange{-200, 200};
  SimulatedLayer simulated(layer, 0, kWide);
  const auto bytes = [](const Numbers& shape, const std::vector<std::uint8_t>& values) {
    const auto from = std::as_bytes(std::span(values));
    return Tensor(ElementType::kUint8, shape, {from.begin(), from.end()});
  };
  // A zero point for each row.
  const std::vector<Tensor> inputs{bytes({2, 2}, {10, 12, 7, 0}), Tensor(), bytes({2}, {9, 5}), Tensor()};
  const Tensor y = run_in_registers(simulated, node, inputs);
  CHECK(y.type() == ElementType::kInt32);
  CHECK(y.to_ints() == Numbers{1 + 6, 3 + 12, 2 - 10, 6 - 20});
  layer.input_range = IntegerRange{0, 3};
  SimulatedLayer narrow(layer, 0, kWide);
  CHECK(says(refusal([&] { run_in_registers(narrow, node, inputs); }), {"layer 'it'", "expected 0 to 3"}));
}

TEST_CASE("what does not fit a node in registers is said") {
  const Node node = node_of("MatMul");
  SimulatedLayer layer(layer_of(node, {3, 2}, 2, {1, 2, 3, 4, 5, 6}), 0, kWide);
  const auto refused = [&](const Node& of, const std::vector<Tensor>& inputs) {
    return refusal([&] { run_in_registers(layer, of, inputs); });
  };
  CHECK(says(refused(node, {}), {"node 'it' (MatMul)", "input 0 is missing"}));
  CHECK(says(refused(node, {floats({1, 2}, {1, 2})}), {"node 'it' (MatMul)", "2 inputs", "3 terms"}));
  CHECK(says(refused(node, {floats({}, {1})}), {"node 'it' (MatMul)", "without axes"}));
  const std::vector<Tensor> small{Tensor(ElementType::kFloat8E4M3fn, {1, 3}, std::vector<std::byte>(3))};
  CHECK(says(refused(node, small), {"node 'it' (MatMul)", "float8e4m3fn"}));
  Node gemm = node_of("Gemm");
  gemm.inputs.emplace_back("b");
  SimulatedLayer biased(layer_of(gemm, {3, 2}, 2, {1, 2, 3, 4, 5, 6}), 0, kWide);
  const std::vector<Tensor> three{floats({1, 3}, {1, 2, 3}), Tensor(), floats({3}, {1, 2, 3})};
  CHECK(says(refusal([&] { run_in_registers(biased, gemm, three); }), {"[3]", "[1, 2]"}));
  SimulatedLayer five(layer_of(node, {3, 2}, 2, {1, 2, 3, 4, 5, 6}), 0, {5, OverflowMode::kCheck});
  CHECK(says(refusal([&] {
               run_in_registers(five, node, std::vector{floats({1, 3}, {1, 2, 3})});
             }),
             {"layer 'it' (MatMul), output channel 1", "a sum reaches 32"}));
}

TEST_CASE("convolutions in registers: channels and groups that do not fit, and results of no channels") {
  const auto refused = [](const Numbers& kernel, std::int64_t groups, const Numbers& image) {
    const Node node = node_of("Conv", {{"group", groups}});
    const std::int64_t codes = kernel[0] * kernel[1] * kernel[2];
    ProductLayer layer = layer_of(node, kernel, static_cast<std::size_t>(kernel[0]),
                                  Numbers(static_cast<std::size_t>(codes), 1));
    layer.kind = ProductLayer::Kind::kConvolution;
    layer.length = static_cast<std::size_t>(kernel[1] * kernel[2]);
    layer.groups = std::max<std::int64_t>(1, groups);
    SimulatedLayer simulated(layer, 0, kWide);
    std::int64_t elements = 1;
    for (const std::int64_t size : image) elements *= size;
    const std::vector<Tensor> inputs{floats(image, Numbers(static_cast<std::size_t>(elements), 2)),
                                     floats(kernel, Numbers(static_cast<std::size_t>(codes), 1))};
    return refusal([&] {
      const Tensor y = run_in_registers(simulated, node, inputs);
      CHECK(y.shape() == Numbers{image[0], kernel[0], image[2] - kernel[2] + 1});
      for (const float one : y.to_floats()) CHECK(one == static_cast<float>(2 * kernel[1] * kernel[2]));
    });
  };
  CHECK(refused({4, 2, 3}, 1, {2, 2, 5}) == "");
  CHECK(refused({4, 2, 3}, 2, {2, 4, 5}) == "");
  CHECK(refused({4, 2, 3}, 4, {1, 8, 5}) == "");
  CHECK(refused({4, 2, 3}, 0, {1, 2, 5}) == "");  // none is one
  CHECK(says(refused({3, 2, 3}, 2, {1, 4, 5}), {"3 channels are no 2 equal groups"}));
  CHECK(says(refused({4, 2, 3}, 2, {1, 2, 5}), {"the input has 2 channels, expected 4"}));
  CHECK(says(refused({4, 2, 3}, 1, {1, 2, 5, 5}), {"cannot convolve shape [1, 2, 5, 5] by a kernel of [3]"}));
  CHECK(says(refused({4, 2, 3}, 1, {1, 2}), {"cannot convolve shape [1, 2]"}));
  CHECK(refused({0, 2, 3}, 1, {1, 2, 5}) == "");
  CHECK(refused({4, 2, 3}, 1, {0, 2, 5}) == "");
}

TEST_CASE("bits in registers are 0 and 1, of any type, and nothing near them") {
  for (const float number : {0.0F, 1.0F, 0.5F, -1.0F, 2.0F, 0x1p60F, std::nanf("")}) {
    for (const bool in_weight : {false, true}) {
      CAPTURE(number);
      const Node node{.name = "it",
                      .op = "XnorPopcountMatMul",
                      .domain = std::string(graph::kQonnxDomain),
                      .version = 1,
                      .inputs = {"x", "w"},
                      .outputs = {"y"}};
      ProductLayer layer = layer_of(node, {2, 1}, 1, {1, 1});
      layer.input_range = IntegerRange{0, 1};
      SimulatedLayer simulated(layer, 0, kWide);
      const Tensor plain = floats({1, 2}, {1, 0}),
                   other = Tensor::floats({1, 2}, std::vector<float>{1, number});
      const auto column = [](const Tensor& row) { return row.reshaped({2, 1}); };
      const std::vector<Tensor> inputs{in_weight ? plain : other, column(in_weight ? other : plain)};
      const bool is_bit = number == 0 || number == 1;
      const std::string said = refusal([&] {
        const Tensor y = run_in_registers(simulated, node, inputs);
        CHECK(y.to_floats() == std::vector<float>{number == 0 ? 2.0F : 1.0F});
      });
      CHECK(said.empty() == is_bit);
      if (!is_bit) CHECK(says(said, {"takes bits, 0 and 1, found other numbers"}));
    }
  }
}

TEST_CASE("the Add behind a bias in the registers passes the sum on, in its own shape") {
  Node add = node_of("Add");
  const Tensor sum = Tensor::floats({2, 1}, std::vector<float>{3, 4});
  const Tensor bias = Tensor::floats({3}, std::vector<float>{7, 8, 9});
  CHECK(pass_on_sum(add, "x", std::vector{sum, bias}) ==
        Tensor::floats({2, 3}, std::vector<float>{3, 3, 3, 4, 4, 4}));
  CHECK(pass_on_sum(add, "w", std::vector{bias, sum}) ==
        Tensor::floats({2, 3}, std::vector<float>{3, 3, 3, 4, 4, 4}));
  CHECK(pass_on_sum(add, "x", std::vector{sum, Tensor::scalar(1.0F)}) == sum);
}

}  // namespace crumb::analysis
