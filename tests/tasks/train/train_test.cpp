// The parts of a training run: the schedule, resuming, registers that wrap around, the first and the last layer.
#include <doctest/doctest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include "analysis/accumulator/layers.h"
#include "base/files/interrupt.h"
#include "formats/npy/npy.h"
#include "graph/packed/crumb_graph.h"
#include "graph/quantize/plan.h"
#include "libtorch/capture/capture.h"
#include "libtorch/execute/graph_module.h"
#include "tasks/networks.h"
#include "tasks/task.h"
#include "tasks/train/ends.h"
#include "tasks/train/fit.h"
#include "tasks/train/trainer.h"
#include "tasks/train/wraparound.h"
#include "tests/support/samples.h"
#include "tests/support/testing.h"

namespace crumb::tasks {
namespace {

using crumb::testing::says;

/// 60 digits whose class shows in their pixels.
void write_small_digits(const std::filesystem::path& folder) {
  std::string text;
  for (int row = 0; row < 60; ++row) {
    const int label = (row + row / 5) % 10;  // each among both parts
    for (int pixel = 0; pixel < 64; ++pixel) {
      text += std::to_string(pixel % 10 == label ? 16 - row % 3 : (row + pixel) % 4) + ",";
    }
    text += std::to_string(label) + "\n";
  }
  std::ofstream(folder / "digits.csv.gz") << text;
}

TrainRequest small_request(const std::filesystem::path& folder) {
  TrainRequest request{.task = "digits", .network = "", .data = folder};
  request.recipe = parse_recipe("weights: int4\nactivations: uint4\naccumulator: 10\n", "r");
  request.epochs = 3;
  request.float_epochs = 3;
  return request;
}

/// Everything that a run ends in.
std::string bytes_of(const TrainOutcome& outcome, const std::filesystem::path& folder) {
  const auto path = folder / "out.crumb";
  graph::write_crumb_graph(outcome.quantized, path);
  std::ifstream in(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  for (const auto& [name, tensor] : outcome.float_weights) {
    bytes += name;
    bytes.append(reinterpret_cast<const char*>(tensor.bytes().data()), tensor.bytes().size());
  }
  for (const EpochLine& line : outcome.log) {
    bytes += line.phase + std::to_string(line.epoch) + " " + std::to_string(line.loss) + " " +
             std::to_string(line.metric) + "\n";
  }
  return bytes + std::to_string(outcome.float_metric) + " " + std::to_string(outcome.longer_metric.value()) +
         " " + std::to_string(outcome.quantized_metric);
}

struct Stop {};

/// Runs until step `steps`, and gives the state that was kept there.
std::string state_after(const TrainRequest& request, int steps) {
  TrainHooks hooks;
  std::string kept;
  int step = 0;
  hooks.wants_state = [&] { return ++step == steps; };
  hooks.keep = [&](const std::string& state) {
    kept = state;
    throw Stop();
  };
  try {
    (void)trainer().train(request, hooks);
  } catch (const Stop&) {
  }
  return kept;
}

}  // namespace

TEST_CASE("train: the cosine falls from one to nothing") {
  CHECK(cosine(0, 100) == 1);
  CHECK(cosine(50, 100) == doctest::Approx(0.5));
  CHECK(cosine(100, 100) == doctest::Approx(0));
  for (int i = 1; i <= 100; ++i) CHECK(cosine(i, 100) < cosine(i - 1, 100));
}

TEST_CASE("train: a run is the same again, and the same when it was cut off anywhere") {
  const crumb::testing::TempDir folder;
  write_small_digits(folder.path());
  const TrainRequest request = small_request(folder.path());
  const TrainOutcome whole = trainer().train(request, {});
  const std::string wanted = bytes_of(whole, folder.path());
  CHECK(whole.log.size() == 9);
  CHECK(whole.float_metric > 0.2);
  CHECK(bytes_of(trainer().train(request, {}), folder.path()) == wanted);
  // Two steps an epoch, three epochs of every kind.
  for (const int cut : {1, 2, 5, 6, 7, 8, 11, 12, 13, 14, 17, 18}) {
    CAPTURE(cut);
    TrainHooks hooks;
    hooks.state = state_after(request, cut);
    REQUIRE_FALSE(hooks.state.empty());
    CHECK(bytes_of(trainer().train(request, hooks), folder.path()) == wanted);
  }
  TrainRequest other = request;
  other.seed = 1;
  CHECK(bytes_of(trainer().train(other, {}), folder.path()) != wanted);
}

TEST_CASE("train: a run that prunes is the same when it was cut off, and prunes all that was asked for") {
  const crumb::testing::TempDir folder;
  write_small_digits(folder.path());
  for (const char* goal : {"0.7", "0.7:layer:steps=4:rewind"}) {
    CAPTURE(std::string(goal));
    TrainRequest request = small_request(folder.path());
    request.recipe.prune = parse_prune(goal);
    const TrainOutcome whole = trainer().train(request, {});
    const std::string wanted = bytes_of(whole, folder.path());
    CHECK(*whole.pruned == doctest::Approx(0.7).epsilon(1e-3));
    for (const int cut : {5, 9, 12, 13, 14, 15, 17}) {
      CAPTURE(cut);
      TrainHooks hooks;
      hooks.state = state_after(request, cut);
      REQUIRE_FALSE(hooks.state.empty());
      CHECK(bytes_of(trainer().train(request, hooks), folder.path()) == wanted);
    }
    request.epochs = 0;  // all at once, then
    CHECK(*trainer().train(request, {}).pruned == doctest::Approx(0.7).epsilon(1e-3));
  }
  CHECK_FALSE(trainer().train(small_request(folder.path()), {}).pruned);
}

TEST_CASE("train: the float network is trained on as long as the quantized one, which knows nothing of it") {
  const crumb::testing::TempDir folder;
  write_small_digits(folder.path());
  TrainRequest request = small_request(folder.path());
  request.recipe = parse_recipe("weights: keep\nactivations: keep", "r");
  request.float_epochs = 1;
  request.epochs = 6;
  const TrainOutcome plain = trainer().train(request, {});
  REQUIRE(plain.log.size() == 13);
  // A network that keeps its floats goes the same way: the same samples, rates and decay, up to the order of sums.
  for (std::size_t epoch = 1; epoch <= 6; ++epoch) {
    const EpochLine &longer = plain.log[epoch], &quantized = plain.log[epoch + 6];
    CHECK(longer.phase == kLongerPhase);
    CHECK(quantized.phase == kQuantizedPhase);
    CHECK(longer.loss == doctest::Approx(quantized.loss).epsilon(1e-3));
  }
  CHECK(plain.log[6].loss < plain.log[1].loss);
  CHECK(plain.longer_metric == plain.log[6].metric);
  CHECK(plain.float_metric == plain.log[0].metric);

  request.epochs = 0;
  const TrainOutcome none = trainer().train(request, {});
  CHECK(none.longer_metric == none.float_metric);

  // Runs of one process that train their float networks once have the same as those that train their own.
  const TrainRequest quantizing = small_request(folder.path());
  const std::string wanted = bytes_of(trainer().train(quantizing, {}), folder.path());
  for (int again = 0; again < 2; ++again) {
    TrainHooks hooks;
    hooks.shares_float = true;
    CHECK(bytes_of(trainer().train(quantizing, hooks), folder.path()) == wanted);
  }
}

TEST_CASE("train: pictures are compared with interpolations, by the network's own score") {
  const crumb::testing::TempDir folder;
  // A ramp: bilinear and bicubic interpolation give it back but at the edges, repeated pixels do not.
  std::vector<std::byte> pixels;
  for (int y = 0; y < 96; ++y) {
    for (int x = 0; x < 96; ++x) {
      for (int channel = 0; channel < 3; ++channel) pixels.push_back(static_cast<std::byte>(x + y));
    }
  }
  for (const char* name : {"china.npy", "flower.npy"}) {
    write_npy(folder.path() / name, DType::kU8, std::vector<std::uint64_t>{96, 96, 3}, pixels);
  }
  const Task task = make_task("sr", "", folder.path(), 0);
  REQUIRE(task.references.size() == 3);
  CHECK(task.references[0].name == "nearest");
  CHECK(task.references[1].name == "bilinear");
  CHECK(task.references[2].name == "bicubic");
  // Of nine pixels that have the middle one's value the errors are dx + dy, each of -1, 0, 1: 12 / 9 in the mean square.
  CHECK(task.references[0].score == doctest::Approx(10 * std::log10(255.0 * 255.0 * 9 / 12)).epsilon(1e-4));
  for (const std::size_t i : {1U, 2U}) CHECK(task.references[i].score > task.references[0].score + 6);
  CHECK(task.train.count() == 8);
}

TEST_CASE("train: a state of another request, and bytes that are none, are refused") {
  const crumb::testing::TempDir folder;
  write_small_digits(folder.path());
  const TrainRequest request = small_request(folder.path());
  TrainHooks hooks;
  hooks.state = state_after(request, 2);
  TrainRequest other = request;
  other.epochs = 4;
  const auto refusal = [&](const TrainRequest& wanted) {
    try {
      (void)trainer().train(wanted, hooks);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(says(refusal(other), {"epochs", "'3'", "'4'", "--restart"}));
  for (const std::size_t size : {std::size_t{10}, hooks.state.size() / 2, hooks.state.size() - 1}) {
    const std::string whole = hooks.state;
    hooks.state.resize(size);
    CHECK(says(refusal(request), {"cannot be read"}));
    hooks.state = whole;
  }
}

TEST_CASE("train: tasks, networks and data that are not there") {
  const crumb::testing::TempDir folder;
  const auto refusal = [&](const char* task, const char* network) {
    try {
      (void)make_task(task, network, folder.path(), 0);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(says(refusal("digit", ""), {"'digit'", "'digits'"}));
  CHECK(says(refusal("digits", "cn"), {"'cn'", "'cnn'"}));
  CHECK(says(refusal("digits", ""), {"digits.csv.gz", folder.path().c_str(), "--data-dir"}));
  CHECK(says(refusal("sr", ""), {"china.npy"}));
  CHECK(refusal("jets", "").empty());
}

TEST_CASE("train: initial weights follow from the seed alone") {
  const auto weights = [](std::uint64_t seed) {
    const Task task = make_task("jets", "", "", seed);
    std::vector<at::Tensor> all;
    for (const at::Tensor& parameter : task.module->parameters()) all.push_back(parameter.detach().flatten());
    return at::cat(all);
  };
  torch::manual_seed(5);
  const at::Tensor first = weights(0);
  torch::manual_seed(6);
  CHECK(at::equal(weights(0), first));
  CHECK_FALSE(at::equal(weights(1), first));
}

TEST_CASE("train: the first and the last layer have eight bits, unless a rule names them") {
  torch::nn::Sequential net = mlp(Normalise(0, 1), {6, 5, 4, 3});
  const graph::Graph graph = libtorch::capture(*net, {at::zeros({5, 6})});
  const Recipe recipe = with_eight_bit_ends(parse_recipe("weights: int4\nactivations: uint4", "r"), graph);
  REQUIRE(recipe.rules.size() == 2);
  CHECK(recipe.rules[0].match.name == std::vector<std::string>{"fc1.weight"});
  CHECK(to_string(recipe.rules[0].weights) == "int8:channel");
  CHECK(to_string(*recipe.rules[0].activations) == "int8:tensor");
  CHECK(recipe.rules[1].match.name == std::vector<std::string>{"fc3.weight"});
  CHECK(to_string(*recipe.rules[1].activations) == "uint8:tensor");
  CHECK(parse_recipe(to_yaml(recipe), "r") == recipe);
  CHECK(with_eight_bit_ends(parse_recipe("weights: keep", "r"), graph).rules.empty());
  const Recipe own = with_eight_bit_ends(
      parse_recipe("weights: int4\nrules:\n  - {match: {name: fc1}, weights: int2}", "r"), graph);
  REQUIRE(own.rules.size() == 2);
  CHECK(own.rules[1].match.name == std::vector<std::string>{"fc3.weight"});
  CHECK_FALSE(own.rules[1].activations);

  const auto with = [&](const std::string& rule) {
    return with_eight_bit_ends(
               parse_recipe("weights: int4:tensor:scale=e8m0\nactivations: uint4:tensor:scale=e8m0\n"
                            "rules:\n  - {match: {name: " +
                                rule + "}\n",
                            "r"),
               graph)
        .rules;
  };
  // A name of the weight, of its layer or of its node; what the rule does not say stays eight bits, in the recipe's form.
  for (const char* name : {"fc1.weight", "fc1", "fc1/Gemm"}) {
    CAPTURE(name);
    std::vector<Rule> rules = with(std::string(name) + "}, weights: int2");
    REQUIRE(rules.size() == 3);
    CHECK(rules[1].leaves_weights);
    CHECK(to_string(*rules[1].activations) == "int8:tensor:scale=e8m0");
    CHECK(to_string(rules[2].weights) == "int8:tensor:scale=e8m0");
    CHECK(to_string(*rules[2].activations) == "uint8:tensor:scale=e8m0");
    rules = with(std::string(name) + "}, activations: int6");
    REQUIRE(rules.size() == 3);
    CHECK(to_string(rules[1].weights) == "int8:tensor:scale=e8m0");
    CHECK_FALSE(rules[1].activations);
    CHECK(with(std::string(name) + "}, skip: true").size() == 2);
    CHECK(with(std::string(name) + "}, accumulator: 12:a2q").size() == 2);
  }
}

TEST_CASE("train: the first layer can take what is not quantized") {
  torch::nn::Sequential net = mlp(Normalise(1, 2), {6, 5, 4, 3});
  const graph::Graph graph = libtorch::capture(*net, {at::zeros({5, 6})});
  const Recipe recipe = with_float_input(parse_recipe("weights: int4\nactivations: uint4", "r"), graph);
  const graph::QuantPlan plan = graph::plan_quantizers(graph::prepare(graph, recipe), recipe);
  CHECK(plan.edges.size() == 2);
  CHECK(std::ranges::count_if(plan.constants, [](const auto& one) { return one.spec.has_value(); }) == 3);
  CHECK(parse_recipe(to_yaml(recipe), "r") == recipe);
  CHECK(with_float_input(parse_recipe("weights: int4", "r"), graph).rules.empty());
}

TEST_CASE("train: without the longer float network the quantized one is the same, also when it was cut off") {
  const crumb::testing::TempDir folder;
  write_small_digits(folder.path());
  TrainRequest request = small_request(folder.path());
  const auto codes = [&](const TrainOutcome& outcome) {
    graph::write_crumb_graph(outcome.quantized, folder.path() / "codes.crumb");
    std::ifstream in(folder.path() / "codes.crumb", std::ios::binary);
    return std::string((std::istreambuf_iterator<char>(in)), {});
  };
  const std::string wanted = codes(trainer().train(request, {}));
  request.float_longer = false;
  const TrainOutcome whole = trainer().train(request, {});
  CHECK_FALSE(whole.longer_metric.has_value());
  CHECK(whole.log.size() == 6);
  CHECK(codes(whole) == wanted);
  for (const int cut : {3, 6, 7, 9}) {  // of twelve steps
    TrainHooks hooks;
    hooks.state = state_after(request, cut);
    REQUIRE_FALSE(hooks.state.empty());
    CHECK(codes(trainer().train(request, hooks)) == wanted);
  }
}

TEST_CASE("train: registers that are wide enough change nothing, narrow ones wrap around") {
  const crumb::testing::TempDir folder;
  write_small_digits(folder.path());
  for (const char* network : {"mlp", "cnn"}) {
    CAPTURE(network);
    TrainRequest request = small_request(folder.path());
    request.network = network;
    request.recipe.accumulator.reset();
    request.wrap_bits = {32, 3};
    const TrainOutcome outcome = trainer().train(request, {});
    REQUIRE(outcome.wrapped.size() == 2);
    CHECK(outcome.wrapped[0].metric == outcome.quantized_metric);

    // Bit by bit.
    const Task task = make_task("digits", network, folder.path(), 0);
    const WrappingNetwork wrapping(outcome.quantized);
    const libtorch::GraphModule module(outcome.quantized);
    const torch::NoGradGuard no_gradients;
    const at::Tensor inputs = task.test.inputs.at(0);
    const at::Tensor plain = module.run({libtorch::typed(inputs.clone())}).at(0).tensor;
    CHECK(at::equal(wrapping.run({inputs}, 32).at(0), plain));
    CHECK_FALSE(at::equal(wrapping.run({inputs}, 3).at(0), plain));
  }
}

TEST_CASE("train: wrapping is that of a register which adds up term by term") {
  const crumb::testing::TempDir folder;
  write_small_digits(folder.path());
  TrainRequest request = small_request(folder.path());
  request.recipe.accumulator.reset();
  const graph::Graph frozen = trainer().train(request, {}).quantized;
  const analysis::ProductLayers products(frozen);
  const libtorch::GraphModule module(frozen);
  const torch::NoGradGuard no_gradients;
  const at::Tensor inputs = make_task("digits", "mlp", folder.path(), 0).test.inputs.at(0).narrow(0, 0, 3);
  constexpr int kBits = 7;
  const auto wrap = [](std::int64_t sum) {
    return ((sum + (1 << (kBits - 1))) & ((1 << kBits) - 1)) - (1 << (kBits - 1));
  };
  std::map<std::string, at::Tensor> values;
  const auto watch = [&](const std::string& value, libtorch::TypedTensor made) {
    for (std::size_t i = 1; i + 1 < products.size(); ++i) {
      if (products.node(i).outputs[0] != value) continue;
      const analysis::ProductLayer layer = products.layer(i);
      const at::Tensor x = values.at(layer.input);
      for (std::int64_t n = 0; n < x.size(0); ++n) {
        for (std::size_t c = 0; c < layer.channels; ++c) {
          std::int64_t exact = 0, narrow = 0;
          for (std::size_t k = 0; k < layer.length; ++k) {
            const double units =
                x[n][static_cast<std::int64_t>(k)].item<double>() / (*layer.input_scale * layer.input_unit);
            const std::int64_t term = layer.codes[c * layer.length + k] * std::llround(units);
            exact += term;
            narrow = wrap(narrow + term);
          }
          const double change = static_cast<double>(narrow - exact) * layer.scale[c] * layer.unit *
                                *layer.input_scale * layer.input_unit;
          made.tensor[n][static_cast<std::int64_t>(c)] += change;
        }
      }
    }
    values[value] = made.tensor;
    return made;
  };
  const at::Tensor wanted = module.run({libtorch::typed(inputs.clone())}, watch).at(0).tensor;
  const at::Tensor found = WrappingNetwork(frozen).run({inputs}, kBits).at(0);
  CHECK(at::allclose(found, wanted, 1e-4, 1e-4));
  CHECK_FALSE(at::allclose(module.run({libtorch::typed(inputs.clone())}).at(0).tensor, wanted, 1e-4, 1e-4));
}

TEST_CASE("train: a person who asks to stop is heard, and what was reached is kept") {
  const crumb::testing::TempDir folder;
  write_small_digits(folder.path());
  const TrainRequest request = small_request(folder.path());
  TrainHooks hooks;
  std::string kept;
  hooks.keep = [&](const std::string& state) { kept = state; };
  int steps = 0;
  hooks.progress = [&](const TrainProgress&) { interrupt_requested() = ++steps == 4; };
  CHECK_THROWS_AS((void)trainer().train(request, hooks), Interrupted);
  interrupt_requested() = false;
  REQUIRE_FALSE(kept.empty());
  TrainHooks again;
  again.state = kept;
  CHECK(bytes_of(trainer().train(request, again), folder.path()) ==
        bytes_of(trainer().train(request, {}), folder.path()));
}

}  // namespace crumb::tasks
