// Widths that are learned: gradients, the budget, which layers get the bits, what is saved and frozen.
#include "qat/weights/learned_bits.h"

#include <doctest/doctest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>
#include <torch/serialize.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <numbers>
#include <sstream>

#include "analysis/cost/cost.h"
#include "graph/facts/bind_shapes.h"
#include "graph/qonnx/quantized_constants.h"
#include "libtorch/capture/capture.h"
#include "libtorch/execute/graph_module.h"
#include "qat/attach.h"
#include "qat/network.h"
#include "tasks/networks.h"
#include "tests/qat/networks.h"
#include "tests/support/enclosure.h"

namespace {

using crumb::QuantizedTensor;
using crumb::QuantSpec;
using crumb::Recipe;
using crumb::graph::Graph;
using crumb::qat::BitsQuantizer;
using crumb::qat::LayerWidth;
using crumb::qat::Network;
using crumb::testing::captured;
using crumb::testing::outputs_of;
using crumb::testing::recipe_of;
using crumb::testing::small_mlp;
using crumb::testing::small_points;

/// Small networks on one thread: with more they mostly wait for each other.
struct OneThread {
  OneThread() { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before); }
  int before = at::get_num_threads();
};

/// Steps [from, to) of `all`.
void train_learned(Network& network, torch::optim::Optimizer& optimizer, int from, int to, int all) {
  torch::manual_seed(77);
  const auto [x, y] = small_points();
  network.train();
  for (int step = from; step < to; ++step) {
    network.advance(static_cast<double>(step) / all);
    const at::Tensor loss = torch::nn::functional::cross_entropy(network.forward(x), y) + network.penalty();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
}

void train_learned(Network& network, int steps) {
  torch::optim::AdamW optimizer(network.parameter_groups({.learning_rate = 5e-3}));
  train_learned(network, optimizer, 0, steps, steps);
}

const QuantizedTensor& codes_of(const Graph& frozen, const std::string& name) {
  return *frozen.quantized.at(name).tensor;
}

/// LSQ with a learned width in LibTorch's own operators, straight through every rounding.
at::Tensor composed(const at::Tensor& w, const at::Tensor& clip, const at::Tensor& bits, bool full,
                    double factor) {
  const auto rounded = [](const at::Tensor& x) { return x + (x.round() - x).detach(); };
  const auto scaled = [](const at::Tensor& x, double f) { return x * f + (x - x * f).detach(); };
  const at::Tensor n = rounded(bits), half = at::exp2(n - 1);
  // The width moves the grid within a clip that stands still, the scale what is beyond.
  const at::Tensor most = full ? half : half - 1;
  const at::Tensor c = scaled(clip.abs(), factor).view({-1, 1});
  const at::Tensor s = c / most, v = w / s, low = -most, high = half - 1;
  const at::Tensor inside = rounded(v) * s;
  return at::where(v.round() > high, high * s, at::where(v.round() < low, low * s, inside));
}

TEST_CASE("learned bits: values and gradients are those of LibTorch's own operators") {
  for (const char* text : {"int4:channel", "int4:tensor", "int3:channel:range=full", "int8:channel"}) {
    for (const double real : {2.2, 3.4, 4.6, 7.9}) {
      CAPTURE(text);
      CAPTURE(real);
      torch::manual_seed(11);
      const QuantSpec spec = QuantSpec::parse(text);
      BitsQuantizer quantizer(spec, 2, 8);
      at::Tensor latent = torch::randn({6, 40});
      quantizer.start(latent);
      const torch::OrderedDict<std::string, at::Tensor> own = quantizer.named_parameters();
      {
        const torch::NoGradGuard no_gradients;
        own["bits"].fill_(real);
        own["clip"].mul_(0.6);  // some values lie beyond
      }
      CHECK(quantizer.width() == std::lround(real));
      const at::Tensor w = latent.clone().requires_grad_(), g = torch::randn({6, 40});
      const at::Tensor made = quantizer.quantized(w);
      (made * g).sum().backward();

      const at::Tensor w2 = latent.to(at::kDouble).requires_grad_();
      const at::Tensor clip = own["clip"].detach().to(at::kDouble).requires_grad_();
      const at::Tensor bits = at::full({1}, real, at::kDouble).requires_grad_();
      const QuantSpec now = crumb::with_bits(spec, quantizer.width());
      const double values = 240.0 / static_cast<double>(clip.numel());
      const double factor = 1 / std::sqrt(values * now.number->largest_value(now.range));
      const at::Tensor again = composed(w2, clip, bits, now.range == crumb::Range::kFull, factor);
      (again * g).sum().backward();
      CHECK(at::allclose(made.detach().to(at::kDouble), again.detach(), 1e-5, 1e-5));
      CHECK(at::allclose(w.grad().to(at::kDouble), w2.grad(), 1e-5, 1e-5));
      CHECK(at::allclose(own["clip"].grad().to(at::kDouble), clip.grad(), 1e-3, 1e-4));
      // Values between the clip and the next step of the grid read as the clip: they do not move.
      const at::Tensor s = (clip.detach() / now.number->largest_value(now.range)).view({-1, 1});
      const double high = now.number->greatest_code(now.range), low = now.number->least_code(now.range);
      const at::Tensor between = (latent > s * high)
                                     .logical_and(latent / s <= high + 0.5)
                                     .logical_or((latent < s * low).logical_and(latent / s >= low - 0.5));
      const double power = std::exp2(quantizer.width() - 1);
      const double k = -std::numbers::ln2 * power / now.number->largest_value(now.range);
      double expected = bits.grad().item<double>();
      const at::Tensor moved = at::where(between, (made.detach() - latent) * k * g, 0.0);
      expected -= moved.sum().item<double>();
      if (now.range == crumb::Range::kFull) {
        expected +=
            at::where(between.logical_and(latent > 0), s * std::numbers::ln2 * g, 0.0).sum().item<double>();
      }
      CHECK(own["bits"].grad().item<double>() == doctest::Approx(expected).epsilon(1e-3));
    }
  }
}

TEST_CASE("learned bits: with the codes held the gradient to the width is the finite difference") {
  torch::manual_seed(12);
  const at::Tensor w = torch::randn({1, 400}).to(at::kDouble), g = torch::randn({1, 400}).to(at::kDouble);
  for (int n : {2, 3, 5, 8}) {
    BitsQuantizer quantizer(QuantSpec::parse("int8:tensor"), 2, 8);
    at::Tensor latent = w.to(at::kFloat);
    quantizer.start(latent);
    const auto own = quantizer.named_parameters();
    {
      const torch::NoGradGuard no_gradients;
      own["bits"].fill_(n);
      own["clip"].fill_(1.5);
    }
    const at::Tensor made = quantizer.quantized(latent.clone().requires_grad_());
    (made * g.to(at::kFloat)).sum().backward();
    // y(n) = w + s(n) r with the rounding error r = q - w / s held; clipped values are +-alpha for every n.
    const auto scale = [](double bits) { return 1.5 / (std::exp2(bits - 1) - 1); };
    const at::Tensor inside = w.abs() <= 1.5, error = (w / scale(n)).round() - w / scale(n);
    const auto loss = [&](double bits) {
      const at::Tensor y = at::where(inside, w + scale(bits) * error, w.sign() * 1.5);
      return (y * g).sum().item<double>();
    };
    const double h = 1e-5, expected = (loss(n + h) - loss(n - h)) / (2 * h);
    CHECK(own["bits"].grad().item<double>() == doctest::Approx(expected).epsilon(1e-3));
    // The same loss against the clip: LSQ's rule times its factor, clipped values by finite differences.
    const double factor = 1 / std::sqrt(400.0 * (std::exp2(n - 1) - 1));
    const double slope =
        (at::where(inside, error / (std::exp2(n - 1) - 1), w.sign()) * g).sum().item<double>();
    const at::Tensor near = w.abs() > 1.5;
    const at::Tensor band = near.logical_and((w.abs() / scale(n)).round() <= std::exp2(n - 1) - 1);
    const double moved =
        (at::where(band, error / (std::exp2(n - 1) - 1) - w.sign(), 0.0) * g).sum().item<double>();
    CHECK(own["clip"].grad().item<double>() == doctest::Approx((slope + moved) * factor).epsilon(1e-3));
  }
}

TEST_CASE("learned bits: codes have the learned width, and a fixed width keeps the clip") {
  torch::manual_seed(13);
  at::Tensor latent = torch::randn({5, 30});
  for (const char* text :
       {"int4:channel", "int4:tensor", "int6:channel:range=full", "int4:channel:scale=e8m0"}) {
    CAPTURE(text);
    BitsQuantizer quantizer(QuantSpec::parse(text), 2, 8);
    quantizer.start(latent);
    const at::Tensor clip = quantizer.named_parameters()["clip"].detach().clone();
    for (int width = 2; width <= 8; ++width) {
      quantizer.fix(width);
      CHECK(quantizer.width() == width);
      CHECK(quantizer.is_fixed());
      const QuantizedTensor frozen = quantizer.freeze(latent);
      CHECK(frozen.encoding.number->bits == width);
      std::vector<float> values(150);
      crumb::dequantize(frozen.view(), values);
      const at::Tensor made = quantizer.quantized(latent).detach().contiguous();
      CHECK(at::equal(made.view({-1}), at::from_blob(values.data(), {150})));
      CHECK(at::equal(quantizer.named_parameters()["clip"].detach(), clip));
      const double least = width == 2 ? 1 : 2;
      if (std::string(text).find("e8m0") == std::string::npos)
        CHECK(made.abs().max().item<double>() <= clip.max().item<double>() * (1 + 1e-5) * least);
    }
  }
}

/// Of the codes of what is frozen, packed.
double bytes_of(const Graph& frozen) {
  double bytes = 0;
  for (const auto& [name, constant] : frozen.quantized)
    bytes += static_cast<double>(constant.tensor->layout.codes_bytes);
  return bytes;
}

double mean_bits(const Graph& frozen) {
  double bits = 0, weights = 0;
  for (const auto& [name, constant] : frozen.quantized) {
    double count = 1;
    for (const std::uint64_t size : constant.tensor->shape) count *= static_cast<double>(size);
    weights += count;
    bits += count * constant.tensor->encoding.number->bits;
  }
  return bits / weights;
}

TEST_CASE("learned bits: the budget is kept, and what computes is what is frozen") {
  const OneThread one;
  const std::string base = "weights: int4:channel\nactivations: uint4:tensor\n";
  for (const std::string budget :
       {"3.5bpw", "2.9bpw:most=5", "6bpw:least=3", "450B", "30kbops", "0.05Mbops:least=3"}) {
    for (const char* more : {"", "prune: 0.5\n", "prune: \"0.5:layer:rewind\"\n", "biases: int32\n",
                             "rules: [{match: {name: fc1}, weights: e2m1}]\n"}) {
      CAPTURE(budget);
      CAPTURE(std::string(more));
      torch::manual_seed(3);
      const auto [x, y] = small_points();
      const auto net = small_mlp();
      Network network(captured(*net, x), recipe_of(base + more + "learned_bits: \"" + budget + "\"\n"));
      CHECK_THROWS_WITH_AS(network.advance(0), doctest::Contains("calibrate"), crumb::Error);
      network.calibrate({{x}});
      CHECK_THROWS_WITH_AS(network.freeze(), doctest::Contains("advance"), crumb::Error);
      CHECK(network.parameter_groups({}).size() == 4);
      train_learned(network, 60);
      network.eval();
      const torch::NoGradGuard no_gradients;
      const at::Tensor expected = network.forward(x);
      const Graph frozen = network.freeze();
      const auto report = network.learned_widths().value();
      CHECK(report.is_fixed);
      CHECK(report.used <= report.limit);
      REQUIRE(report.layers.size() == 3);
      const auto goal = crumb::parse_learned_bits(budget).value();
      for (const LayerWidth& layer : report.layers) {
        const QuantizedTensor& codes = codes_of(frozen, layer.name);
        CHECK(codes.encoding.number->bits == layer.bits);
        if (!layer.learned) continue;
        CHECK(codes.encoding.number->name == "int" + std::to_string(layer.bits));
        CHECK(layer.bits >= goal.least);
        CHECK(layer.bits <= goal.most);
      }
      CHECK(report.layers[0].learned.has_value() == (std::string(more).find("rules") == std::string::npos));
      if (goal.bits_per_weight > 0) CHECK(mean_bits(frozen) <= goal.bits_per_weight);
      if (goal.bytes > 0) CHECK(bytes_of(frozen) <= static_cast<double>(goal.bytes));
      if (goal.bops > 0) {
        const auto cost = crumb::analysis::cost_of(
            crumb::graph::bind_shapes(crumb::graph::lower_or_fold_quantized(frozen), {}));
        CHECK(cost.dense.bops_qap <= report.used + 1e-6);
        CHECK(cost.dense.bops_qap <= static_cast<double>(goal.bops));
      }
      const at::Tensor found = outputs_of(frozen, x);
      CHECK(crumb::testing::not_computed_by(frozen, {x}, {expected}) == "");
      CHECK(crumb::testing::not_computed_by(frozen, {x}, {found}) == "");
    }
  }
}

TEST_CASE("learned bits: what is counted is what crumb cost counts") {
  torch::manual_seed(4);
  const auto [x, y] = small_points();
  const auto net = small_mlp();
  Network network(captured(*net, x), recipe_of("weights: int6:channel\nactivations: uint4:tensor\n"
                                               "learned_bits: \"1Gbops:least=6:most=6\"\n"));
  network.calibrate({{x}});
  network.advance(1);
  const auto cost = crumb::analysis::cost_of(
      crumb::graph::bind_shapes(crumb::graph::lower_or_fold_quantized(network.freeze()), {}));
  CHECK(network.learned_widths()->used == doctest::Approx(cost.dense.bops_qap).epsilon(1e-12));
}

TEST_CASE("learned bits: bits that cost nothing are taken") {
  // Rows of one weight take a byte each, whatever their width.
  torch::nn::Sequential net(torch::nn::Linear(1, 8), torch::nn::ReLU(), torch::nn::Linear(8, 1));
  const OneThread one;
  for (const auto& [budget, wide] : {std::pair("16B", 8), std::pair("10B", 2)}) {
    auto hooks = crumb::qat::attach(
        *net, recipe_of("weights: int4:channel\nlearned_bits: " + std::string(budget) + "\n"));
    hooks.advance(1);
    const auto report = hooks.learned_widths().value();
    CHECK(report.used == (wide == 8 ? 16 : 10));
    CHECK(report.layers[0].bits == 8);
    CHECK(report.layers[1].bits == wide);
  }
}

TEST_CASE("learned bits: the layer that needs more gets more") {
  const OneThread one;
  // y = first(x) + second(x): targets that the first layer has to hit exactly, and of the second a small multiple.
  struct Sum : torch::nn::Module {
    Sum() {
      fine = register_module("fine", torch::nn::Linear(torch::nn::LinearOptions(16, 16).bias(false)));
      coarse = register_module("coarse", torch::nn::Linear(torch::nn::LinearOptions(16, 16).bias(false)));
    }
    at::Tensor forward(const at::Tensor& x) { return fine->forward(x) + coarse->forward(x) * weight; }
    torch::nn::Linear fine{nullptr}, coarse{nullptr};
    double weight = 0.03;
  };
  torch::manual_seed(5);
  for (const char* budget : {"5bpw:least=2", "6.5bpw"}) {
    Sum net;
    {
      const torch::NoGradGuard no_gradients;
      net.fine->weight.normal_();
      net.coarse->weight.normal_();
    }
    const at::Tensor x = torch::randn({256, 16}), y = net.forward(x).detach();
    Network network(
        crumb::libtorch::capture(
            net, {x},
            [&](const crumb::libtorch::Tensors& in) { return crumb::libtorch::Tensors{net.forward(in[0])}; }),
        recipe_of("weights: int5:channel:search=mse\nlearned_bits: \"" + std::string(budget) + "\"\n"));
    network.calibrate({{x}});
    torch::optim::AdamW optimizer(network.parameter_groups({.learning_rate = 1e-3}));
    for (int step = 0; step < 300; ++step) {
      network.advance(step / 300.0);
      const at::Tensor loss = (network.forward(x) - y).square().mean() + network.penalty();
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
    }
    const auto layers = network.learned_widths()->layers;
    REQUIRE(layers.size() == 2);
    int fine = 0, coarse = 0;
    for (const LayerWidth& layer : layers) (layer.name.starts_with("fine") ? fine : coarse) = layer.bits;
    CHECK_MESSAGE(fine >= coarse + 2, budget, ": ", fine, " and ", coarse);
  }
}

TEST_CASE("learned bits: widths and the multiplier are saved") {
  const OneThread one;
  for (const int cut : {13, 40}) {
    torch::manual_seed(6);
    const auto [x, y] = small_points();
    const Recipe recipe =
        recipe_of("weights: int4:channel\nactivations: uint4:tensor\nlearned_bits: 3.2bpw\n");
    const auto net = small_mlp(), other = small_mlp();
    auto network = std::make_shared<Network>(captured(*net, x), recipe);
    network->calibrate({{x}});
    torch::optim::AdamW optimizer(network->parameter_groups({.learning_rate = 5e-3}));
    train_learned(*network, optimizer, 0, cut, 60);
    std::stringstream file, steps;
    torch::save(network, file);
    torch::save(optimizer, steps);
    auto again = std::make_shared<Network>(captured(*other, x), recipe);
    torch::load(again, file);
    torch::optim::AdamW resumed(again->parameter_groups({.learning_rate = 5e-3}));
    torch::load(resumed, steps);
    train_learned(*network, optimizer, cut, 60, 60);
    train_learned(*again, resumed, cut, 60, 60);
    CHECK(at::equal(again->forward(x), network->forward(x)));
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(again->learned_widths()->layers[i].bits == network->learned_widths()->layers[i].bits);
      CHECK(again->learned_widths()->layers[i].learned == network->learned_widths()->layers[i].learned);
    }
  }
}

TEST_CASE("learned bits: hooks keep a size too, and refuse what they cannot count") {
  const OneThread one;
  torch::manual_seed(7);
  const auto [x, y] = small_points();
  torch::nn::Sequential net(torch::nn::Linear(8, 30), torch::nn::ReLU(), torch::nn::Linear(30, 3));
  auto hooks = crumb::qat::attach(*net, recipe_of("weights: int4:channel\nlearned_bits: 3bpw\n"));
  torch::optim::AdamW optimizer(hooks.parameter_groups({.learning_rate = 5e-3}));
  for (int step = 0; step < 40; ++step) {
    hooks.advance(step / 40.0);
    const auto scope = hooks.step();
    const at::Tensor loss = torch::nn::functional::cross_entropy(net->forward(x), y) + hooks.penalty();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step == 3)
      CHECK_THROWS_WITH_AS(crumb::qat::freeze(hooks, *net, {x}), doctest::Contains("advance"), crumb::Error);
  }
  CHECK(hooks.learned_widths()->used <= 3);
  const Graph frozen = crumb::qat::freeze(hooks, *net, {x});
  CHECK(mean_bits(frozen) <= 3);
  CHECK_THROWS_WITH_AS(crumb::qat::attach(*net, recipe_of("weights: int4:channel\nlearned_bits: 9kbops\n")),
                       doctest::Contains("qat::Network"), crumb::Error);
}

TEST_CASE("learned bits: what cannot be is refused, and says why") {
  torch::manual_seed(8);
  const auto [x, y] = small_points();
  const auto net = small_mlp();
  const Graph graph = captured(*net, x);
  const auto refused = [&](const std::string& yaml, const char* words) {
    CAPTURE(yaml);
    CHECK_THROWS_WITH_AS(Network(graph, recipe_of(yaml + "activations: uint4:tensor\n")),
                         doctest::Contains(words), crumb::Error);
  };
  refused("weights: int4:channel\nlearned_bits: 1.5bpw\n", "takes 2bpw");
  refused("weights: int4:channel\nlearned_bits: 100B\n", "takes 235B");
  refused("weights: int4:channel\nlearned_bits: 100bops\n", "bops");
  refused("weights: int4:channel\nlearned_bits: \"3bpw:least=4\"\n", "with 4 bits");
  refused(
      "weights: int4:channel\nlearned_bits: 3.8bpw\nrules: [{match: {name: [fc1, fc2]}, weights: int8}]\n",
      "given");
  refused("weights: e2m1:channel\nlearned_bits: 3bpw\n", "int4:channel");
  refused("weights: int4:channel\nscales: statistics\nlearned_bits: 3bpw\n", "no weight");
  refused("weights: int4:channel\nrules: [{match: {name: fc2}, learned_bits: true}]\n", "no budget");
  // A rule that gives weights fixes their width, unless it says otherwise.
  Network network(graph, recipe_of("weights: int4:channel\nlearned_bits: 5bpw\nrules:\n"
                                   "  - {match: {name: fc1}, weights: int8:tensor}\n"
                                   "  - {match: {name: fc2}, weights: int6:tensor, learned_bits: true}\n"
                                   "  - {match: {name: fc3}, learned_bits: false}\n"));
  const auto layers = network.learned_widths()->layers;
  CHECK_FALSE(layers[0].learned);
  CHECK(layers[0].bits == 8);
  CHECK(layers[1].learned == 6);
  CHECK_FALSE(layers[2].learned);
  CHECK(layers[2].bits == 4);
}

}  // namespace
