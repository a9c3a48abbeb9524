// Values that are NaN or infinite and come to quantizers: all are counted, at the first quantizer, and NaN stays where nothing
// integer follows.
#include "graph/not_finite.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/error.h"
#include "runtime/engine.h"

namespace crumb::runtime {
namespace {

using graph::Graph;
using graph::Tensor;

/// x [rows, 6] -> quantizer "q" -> Relu, or a Transpose and then that.
Graph network(const char* op, bool moves) {
  Graph made;
  made.opsets = {{"", 13}, {std::string(graph::kQonnxDomain), 1}};
  made.inputs = {"x"};
  made.outputs = {"y"};
  made.values["x"] = {
      graph::ElementType::kFloat, graph::Shape{graph::Dim("n"), graph::Dim(std::int64_t{6})}, {}};
  made.initializers["s"] = Tensor::scalar(0.25F);
  made.initializers["z"] = Tensor::scalar(0.0F);
  made.initializers["b"] = Tensor::scalar(4.0F);
  const bool bipolar = std::string(op) == "BipolarQuant";
  made.nodes = {
      {.name = "q",
       .op = op,
       .domain = std::string(graph::kQonnxDomain),
       .version = 1,
       .inputs = bipolar ? std::vector<std::string>{"x", "s"} : std::vector<std::string>{"x", "s", "z", "b"},
       .outputs = {"q_out"},
       .attributes = {{"signed", std::int64_t{1}}}}};
  if (moves)
    made.nodes.push_back({.name = "m",
                          .op = "Transpose",
                          .domain = "",
                          .version = 13,
                          .inputs = {"q_out"},
                          .outputs = {"m_out"}});
  made.nodes.push_back({.name = "r",
                        .op = "Relu",
                        .domain = "",
                        .version = 13,
                        .inputs = {moves ? "m_out" : "q_out"},
                        .outputs = {"y"}});
  return made;
}

TEST_CASE(
    "values that are not finite and come to a quantizer are counted, and NaN stays where floats follow") {
  std::mt19937_64 random(8);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kBad[] = {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity};
  for (const char* op : {"Quant", "BipolarQuant"}) {
    for (const bool moves : {false, true}) {
      const auto executable = Engine(2).prepare(network(op, moves));
      for (int round = 0; round < 60; ++round) {
        const std::size_t rows = 1 + random() % (round % 10 == 0 ? 9000 : 20);
        std::vector<float> x(rows * 6);
        std::uint64_t bad = 0;
        for (float& v : x) {
          v = static_cast<float>(static_cast<int>(random() % 41) - 20) / 8;
          if (random() % 16 != 0 || round % 3 == 0) continue;
          v = kBad[random() % 3];
          ++bad;
        }
        const Tensor input = Tensor::floats({static_cast<std::int64_t>(rows), 6}, x);
        graph::NotFiniteWatch watch;
        std::vector<Tensor> made;
        {
          const graph::NotFiniteScope scope(&watch);
          made = executable->run({input});
        }
        const auto found = watch.first();
        REQUIRE((found ? found->count : 0) == bad);
        if (found) CHECK(found->node == "q");
        const std::vector<float> y = made.at(0).to_floats();
        for (std::size_t i = 0; i < x.size(); ++i) {
          const float value = y[moves ? i % 6 * rows + i / 6 : i];
          if (std::string(op) == "Quant") REQUIRE(std::isnan(value) == std::isnan(x[i]));
          if (std::isinf(x[i])) REQUIRE(std::isfinite(value));
        }
        graph::NotFiniteWatch strict(true);
        const graph::NotFiniteScope scope(&strict);
        if (bad > 0) {
          CHECK_THROWS_AS((void)executable->run({input}), Error);
        } else {
          CHECK_NOTHROW((void)executable->run({input}));
        }
      }
    }
  }
}

}  // namespace
}  // namespace crumb::runtime
