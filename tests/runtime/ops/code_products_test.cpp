// Products of codes that are both computed: exact sums, whatever the shapes, the types and the threads.
#include <doctest/doctest.h>

#include <cstring>
#include <random>

#include "runtime/lower/domain.h"
#include "runtime/lower/lower.h"
#include "runtime/model.h"
#include "tests/support/capture_copy.h"

using crumb::graph::ElementType;
using crumb::graph::Graph;
using crumb::graph::Node;
using crumb::graph::Tensor;
using crumb::runtime::Array;
using crumb::runtime::Computes;
using crumb::runtime::Ints;
using crumb::runtime::Model;

namespace {

using Random = std::mt19937_64;

std::int64_t number(Random& random, std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution(least, most)(random);
}

/// Codes, and what they stand for less their zero point.
struct Matrix {
  Array codes;
  std::int64_t zero = 0, least = 0, most = 255;

  std::int64_t at(std::size_t i) const {
    const std::byte byte = codes.data()[i];
    return (codes.type() == ElementType::kInt8 ? std::to_integer<std::int8_t>(byte)
                                               : std::to_integer<std::uint8_t>(byte)) -
           zero;
  }
};

Matrix drawn(Random& random, const Ints& shape, bool is_other) {
  const bool is_signed = random() % 2 == 0;
  Matrix made;
  made.least = is_signed ? number(random, -128, -1) : 0;
  made.most = is_signed ? number(random, 0, 127) : number(random, 1, 255);
  made.zero = number(random, made.least, made.most);
  if (is_other && !is_signed) made.zero = std::max(made.zero, made.most - 127);
  if (is_other && !is_signed) made.zero = std::min(made.zero, std::int64_t{128});
  if (is_other && is_signed) made.zero = 0;
  made.codes = Array(is_signed ? ElementType::kInt8 : ElementType::kUint8, shape);
  for (std::size_t i = 0; i < made.codes.size(); ++i)
    made.codes.writable_data()[i] = static_cast<std::byte>(number(random, made.least, made.most));
  return made;
}

Graph product_of(const Matrix& a, const Matrix& b, double factor) {
  Graph graph;
  graph.inputs = {"a", "b"};
  graph.outputs = {"y"};
  Array of_factor(ElementType::kDouble, {1});
  of_factor.writable<double>()[0] = factor;
  graph.initializers["factor"] = of_factor.tensor();
  graph.nodes = {
      {.name = "product",
       .op = "Products",
       .domain = std::string(crumb::runtime::kRuntimeDomain),
       .inputs = {"a", "b", "factor"},
       .outputs = {"y"},
       .attributes = {{"zero", a.zero}, {"least", a.least}, {"most", a.most}, {"other_zero", b.zero}}}};
  return graph;
}

void check_product(Random& random, const Ints& outer_a, const Ints& outer_b, std::int64_t rows,
                   std::int64_t terms, std::int64_t columns) {
  Ints a_shape = outer_a, b_shape = outer_b;
  a_shape.insert(a_shape.end(), {rows, terms});
  b_shape.insert(b_shape.end(), {terms, columns});
  const Matrix a = drawn(random, a_shape, false), b = drawn(random, b_shape, true);
  const double factor = 0.01 + static_cast<double>(random() % 100) / 777;
  const Model model(product_of(a, b, factor), Computes::kFloats);
  for (const int threads : {1, 3}) {
    const Array made = model.run({a.codes, b.codes}, {.threads = threads})[0];
    const auto y = made.values<float>();
    const auto m = static_cast<std::size_t>(rows), k = static_cast<std::size_t>(terms),
               n = static_cast<std::size_t>(columns);
    const std::size_t pairs = y.size() / std::max<std::size_t>(m * n, 1);
    for (std::size_t p = 0; p < pairs; ++p) {
      const std::size_t x = a.codes.size() == m * k ? 0 : p, w = b.codes.size() == k * n ? 0 : p;
      for (std::size_t i = 0; i < m * n; ++i) {
        std::int64_t sum = 0;
        for (std::size_t t = 0; t < k; ++t)
          sum += a.at(x * m * k + i / n * k + t) * b.at(w * k * n + t * n + i % n);
        REQUIRE(y[p * m * n + i] == static_cast<float>(static_cast<double>(sum) * factor));
      }
    }
  }
}

}  // namespace

TEST_CASE("code products: exact sums of drawn shapes, types and zero points") {
  Random random(9);
  for (int round = 0; round < 400; ++round) {
    CAPTURE_COPY(round);
    const Ints outer = random() % 3 == 0 ? Ints() : Ints{number(random, 1, 3), number(random, 1, 2)};
    const bool one_a = random() % 4 == 0, one_b = !one_a && random() % 4 == 0;
    check_product(random, one_a ? Ints{1} : outer, one_b ? Ints() : outer, number(random, 0, 40),
                  number(random, 0, 70), number(random, 0, 90));
  }
}

TEST_CASE("code products: sums that 32 bits do not hold") {
  Random random(10);
  for (const std::int64_t terms : {32000, 33000, 70000}) check_product(random, {}, {}, 2, terms, 3);
}

TEST_CASE("code products: a MatMul of two quantized values is one; of others it stays as it is") {
  for (const bool fits : {true, false}) {
    Graph graph;
    graph.inputs = {"a", "b"};
    graph.outputs = {"y"};
    graph.opsets = {{"", 17}, {std::string(crumb::graph::kQonnxDomain), 1}};
    for (const char* name : {"a", "b"})
      graph.values[name] = {ElementType::kFloat, crumb::graph::Shape{2, 5, 5}, {}};
    for (const char* name : {"qa", "qb"})
      graph.values[name] = {ElementType::kFloat, crumb::graph::Shape{2, 5, 5}, {}};
    graph.initializers["scale"] = Tensor::scalar(0.125F);
    graph.initializers["zero"] = Tensor::scalar(0.0F);
    graph.initializers["bits"] = Tensor::scalar(8.0F);
    const auto quant = [&](const std::string& from, const std::string& to, bool is_signed) {
      graph.nodes.push_back(
          {.name = "quant_" + from,
           .op = "Quant",
           .domain = std::string(crumb::graph::kQonnxDomain),
           .inputs = {from, "scale", "zero", "bits"},
           .outputs = {to},
           .attributes = {{"signed", std::int64_t{is_signed}}, {"narrow", std::int64_t{0}}}});
    };
    quant("a", "qa", false);
    quant("b", "qb", fits);  // 255 is no byte with a sign
    graph.nodes.push_back(
        {.name = "product", .op = "MatMul", .version = 13, .inputs = {"qa", "qb"}, .outputs = {"y"}});
    const auto lowered = crumb::runtime::lower(graph);
    CHECK(lowered.integers == (fits ? std::vector<std::string>{"product"} : std::vector<std::string>{}));
    Array a(ElementType::kFloat, {2, 5, 5}), b = a;
    Random random(11);
    for (Array* one : {&a, &b}) {
      *one = Array(ElementType::kFloat, {2, 5, 5});
      for (float& v : one->writable<float>()) v = static_cast<float>(number(random, -100, 200)) / 10;
    }
    // Multiples of 1/64 below 2^18: float32 holds every partial sum, so both are exact.
    const auto expected = Model(graph, Computes::kFloats).run({a, b}, {}),
               found = Model(graph).run({a, b}, {});
    CHECK(std::memcmp(expected[0].data(), found[0].data(), found[0].bytes()) == 0);
  }
}
