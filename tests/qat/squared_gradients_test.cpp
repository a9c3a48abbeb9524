// Squared gradients beside closed forms and differences of the loss itself.
#include "qat/optimize/squared_gradients.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/graph/node_builder.h"

namespace {

using crumb::graph::Graph;
using crumb::graph::SampleLoss;
using crumb::graph::SquaredGradients;
using crumb::graph::Tensor;
using Numbers = std::vector<float>;

Numbers drawn(std::mt19937& random, std::size_t count) {
  std::normal_distribution<float> normal;
  Numbers values(count);
  for (float& value : values) value = normal(random);
  return values;
}

crumb::graph::Batches batches_of(const std::vector<std::vector<Tensor>>& samples) {
  return [samples](const auto& batch) {
    for (const std::vector<Tensor>& sample : samples) batch(sample);
  };
}

SquaredGradients found(const Graph& graph, const std::vector<std::vector<Tensor>>& samples,
                       const crumb::graph::GradientRequest& requested) {
  return crumb::qat::gradient_engine().squared_gradients(graph, batches_of(samples), requested);
}

/// logits = table[ids] head, of ids [1, tokens].
struct Bigrams {
  static constexpr std::size_t kWords = 7, kWidth = 4;
  std::map<std::string, Numbers> constants;

  explicit Bigrams(std::mt19937& random)
      : constants{{"table", drawn(random, kWords * kWidth)}, {"head", drawn(random, kWidth * kWords)}} {}

  Graph graph() const {
    crumb::graph::NodeBuilder build;
    build.graph.inputs = {"ids"};
    build.graph.values["ids"] = {.type = crumb::graph::ElementType::kInt64, .shape = {}};
    build.constant("table", Tensor::floats({kWords, kWidth}, constants.at("table")));
    build.constant("head", Tensor::floats({kWidth, kWords}, constants.at("head")));
    build.graph.outputs = {build.node("MatMul", {build.node("Gather", {"table", "ids"}), "head"})};
    return build.graph;
  }

  double logit(std::int64_t word, std::size_t next) const {
    double sum = 0;
    for (std::size_t i = 0; i < kWidth; ++i)
      sum += static_cast<double>(constants.at("table")[static_cast<std::size_t>(word) * kWidth + i]) *
             static_cast<double>(constants.at("head")[i * kWords + next]);
    return sum;
  }

  double loss(const std::vector<std::int64_t>& ids) const {
    double sum = 0;
    for (std::size_t t = 0; t + 1 < ids.size(); ++t) {
      double all = 0;
      for (std::size_t next = 0; next < kWords; ++next) all += std::exp(logit(ids[t], next));
      sum += std::log(all) - logit(ids[t], static_cast<std::size_t>(ids[t + 1]));
    }
    return sum;
  }
};

}  // namespace

TEST_CASE("squared gradients: of next tokens they are those of the loss' differences") {
  std::mt19937 random(51);
  for (int round = 0; round < 5; ++round) {
    Bigrams model(random);
    std::vector<std::vector<std::int64_t>> texts;
    std::vector<std::vector<Tensor>> samples;
    for (const std::size_t length : {9U, 2U, 1U, 14U}) {  // of one token nothing follows
      std::vector<std::int64_t> ids(length);
      for (std::int64_t& id : ids) id = static_cast<std::int64_t>(random() % Bigrams::kWords);
      samples.push_back({Tensor::ints({1, static_cast<std::int64_t>(length)}, ids)});
      texts.push_back(std::move(ids));
    }
    const SquaredGradients squares =
        found(model.graph(), samples, {.constants = {"table", "head"}, .loss = SampleLoss::kNextTokens});
    for (const auto& [name, made] : squares) {
      Numbers& numbers = model.constants.at(name);
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        const float before = numbers[i];
        constexpr float kStep = 0x1p-10F;
        double sum = 0, size = 0;
        for (const std::vector<std::int64_t>& ids : texts) {
          numbers[i] = before + kStep;
          const double step = static_cast<double>(numbers[i] - before), above = model.loss(ids);
          numbers[i] = before - kStep;
          const double down = static_cast<double>(before - numbers[i]),
                       gradient = (above - model.loss(ids)) / (step + down);
          numbers[i] = before;
          sum += gradient * gradient;
          size += std::fabs(gradient) * static_cast<double>(ids.size());
        }
        // A token's loss bends, along one number, by less than the cube of what moves its logits, 5 at most; steps are as good
        // as even. Sums of float32 gradients of some 1 a token.
        const double bound = 2 * size * (125.0 / 6 * 0x1p-20 + 0x1p-20) + 1e-7;
        CHECK(static_cast<double>(made[i]) == doctest::Approx(sum).epsilon(0).scale(1).epsilon(bound));
      }
    }
  }
}

TEST_CASE(
    "squared gradients: by signs they are, of a layer, squares of inputs, and of two what is expected of "
    "draws") {
  std::mt19937 random(52);
  constexpr std::int64_t kIn = 5, kInside = 6, kOut = 4, kSamples = 6;
  const Numbers first = drawn(random, kIn * kInside), second = drawn(random, kInside * kOut);
  crumb::graph::NodeBuilder build;
  build.input("x", {1, kIn});
  build.constant("first", Tensor::floats({kIn, kInside}, first));
  build.constant("second", Tensor::floats({kInside, kOut}, second));
  const std::string inside = build.node("MatMul", {"x", "first"});
  build.graph.outputs = {build.node("MatMul", {inside, "second"})};
  std::vector<std::vector<Tensor>> samples;
  std::vector<double> of_inputs(kIn), of_inside(kInside);
  for (std::int64_t sample = 0; sample < kSamples; ++sample) {
    const Numbers x = drawn(random, kIn);
    samples.push_back({Tensor::floats({1, kIn}, x)});
    for (std::size_t i = 0; i < kIn; ++i) of_inputs[i] += std::pow(static_cast<double>(x[i]), 2);
    for (std::size_t k = 0; k < kInside; ++k) {
      double made = 0;
      for (std::size_t i = 0; i < kIn; ++i)
        made += static_cast<double>(x[i]) * static_cast<double>(first[i * kInside + k]);
      of_inside[k] += made * made;
    }
  }
  constexpr std::size_t kDraws = 4000;
  const SquaredGradients made =
      found(build.graph, samples, {.constants = {"first", "second"}, .draws = kDraws});
  for (std::size_t k = 0; k < kInside; ++k) {
    for (std::size_t o = 0; o < kOut; ++o)
      // As many float32 additions.
      CHECK(made.at("second")[k * kOut + o] ==
            doctest::Approx(of_inside[k]).epsilon(0x1p-24 * kSamples * kDraws));
    double squares = 0;
    for (std::size_t o = 0; o < kOut; ++o) squares += std::pow(static_cast<double>(second[k * kOut + o]), 2);
    // The square of a sum with drawn signs has a variance of at most twice its squared mean: five deviations of so many.
    for (std::size_t i = 0; i < kIn; ++i)
      CHECK(made.at("first")[i * kInside + k] ==
            doctest::Approx(of_inputs[i] * squares).epsilon(5 * std::sqrt(2.0 / kDraws)));
  }
}

TEST_CASE(
    "squared gradients: a matrix that two layers share has the gradient of both, and inf is an error that "
    "names it") {
  crumb::graph::NodeBuilder build;
  build.input("x", {1, 1});
  build.constant("w", Tensor::floats({1, 1}, Numbers{3.0F}));
  build.graph.outputs = {build.node("MatMul", {build.node("MatMul", {"x", "w"}), "w"})};
  const auto squares = [&](float x) {
    return found(build.graph, {{Tensor::floats({1, 1}, Numbers{x})}}, {.constants = {"w"}});
  };
  CHECK(squares(2.0F).at("w").at(0) == 144.0F);  // y = x w^2
  CHECK_THROWS_WITH_AS((void)squares(std::numeric_limits<float>::max()),
                       "gradients by 'w' are inf or NaN on the samples", crumb::Error);
}

TEST_CASE("squared gradients: a device finds what the CPU finds") {
  std::mt19937 random(54);
  const Bigrams model(random);
  const std::vector<std::vector<Tensor>> samples = {
      {Tensor::ints({1, 5}, std::vector<std::int64_t>{3, 1, 4, 1, 5})}};
  for (const SampleLoss loss : {SampleLoss::kNextTokens, SampleLoss::kSigns}) {
    const auto squares = [&](const std::string& device) {
      return found(model.graph(), samples,
                   {.constants = {"table", "head"}, .loss = loss, .draws = 2, .device = device});
    };
    CHECK(squares("hpu") == squares("cpu"));  // tests/support/far_device.cpp: the CPU's own sums
  }
}

TEST_CASE("squared gradients: next tokens want a sequence and its logits") {
  std::mt19937 random(53);
  const Bigrams model(random);
  CHECK_THROWS_AS(
      (void)found(model.graph(), {{Tensor::ints({2, 3}, std::vector<std::int64_t>{1, 2, 3, 4, 5, 6})}},
                  {.constants = {"head"}, .loss = SampleLoss::kNextTokens}),
      crumb::Error);
}
