// A multi-layer perceptron on handwritten digits whose hidden layers never need more than 12 bits to add up: an ordinary
// LibTorch script and the lines marked with "crumb".
//
//   digits_mlp_a2q_plus DIGITS.csv.gz OUT.onnx OUT.crumb
#include <torch/torch.h>

#include <exception>
#include <iostream>
#include <optional>

#include "export/write.h"
#include "graph/packed/crumb_graph.h"
#include "qat/attach.h"
#include "qat/quant_activation.h"
#include "tasks/digits.h"

namespace {

struct Mlp : torch::nn::Module {
  torch::nn::Linear fc1{nullptr}, fc2{nullptr}, fc3{nullptr}, fc4{nullptr};
  crumb::qat::QuantActivation in{nullptr}, act1{nullptr}, act2{nullptr}, act3{nullptr};  // crumb

  Mlp() {
    fc1 = register_module("fc1", torch::nn::Linear(64, 128));
    fc2 = register_module("fc2", torch::nn::Linear(128, 64));
    fc3 = register_module("fc3", torch::nn::Linear(64, 64));
    fc4 = register_module("fc4", torch::nn::Linear(64, 10));
    in = register_module("in", crumb::qat::QuantActivation("uint8:tensor"));      // crumb
    act1 = register_module("act1", crumb::qat::QuantActivation("uint4:tensor"));  // crumb
    act2 = register_module("act2", crumb::qat::QuantActivation("uint4:tensor"));  // crumb
    act3 = register_module("act3", crumb::qat::QuantActivation("uint8:tensor"));  // crumb
  }

  at::Tensor forward(const at::Tensor& pixels) {
    at::Tensor x = act1(torch::relu(fc1(in(pixels) / 16)));
    x = act2(torch::relu(fc2(x)));
    return fc4(act3(torch::relu(fc3(x))));
  }
};

constexpr const char* kRecipe = R"(
version: 1
weights: int4:channel
activations: uint4:tensor        # what the constrained layers take in
accumulator: 12:a2q_plus         # the first and the last layer stay free
rules:
  - {match: {name: ["fc1", "fc4"]}, weights: int8:channel}
)";

struct Set {
  at::Tensor x, y;
  explicit Set(const crumb::tasks::Samples& samples)
      : x(torch::tensor(samples.inputs).view({samples.size(), 64})), y(torch::tensor(samples.labels)) {}
};

double accuracy(Mlp& model, const Set& set) {
  const torch::NoGradGuard no_gradients;
  model.eval();
  return (model.forward(set.x).argmax(1) == set.y).to(at::kDouble).mean().item<double>();
}

template <class Penalty>
void run_epoch(Mlp& model, const Set& set, torch::optim::Optimizer& optimizer, const Penalty& penalty,
               crumb::qat::Hooks* qat = nullptr) {
  model.train();
  for (const at::Tensor& batch : torch::randperm(set.x.size(0)).split(32)) {
    std::optional<crumb::qat::Step> step;  // crumb: while it lives, the weights read as quantized
    if (qat) step.emplace(qat->step());    // crumb
    const at::Tensor loss = torch::nn::functional::cross_entropy(model.forward(set.x.index_select(0, batch)),
                                                                 set.y.index_select(0, batch)) +
                            penalty();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
}

void run(const char* digits, const char* onnx, const char* packed) {
  torch::manual_seed(0);
  const crumb::tasks::Split data = crumb::tasks::read_digits(digits).take(digits);
  const Set train(data.train), test(data.test);
  auto model = std::make_shared<Mlp>();

  // As ever: the float weights.
  torch::optim::AdamW adam(model->parameters(), 2e-3);
  for (int epoch = 0; epoch < 15; ++epoch) run_epoch(*model, train, adam, [] { return torch::zeros({}); });

  auto qat = crumb::qat::attach(*model, crumb::parse_recipe(kRecipe, "recipe"));  // crumb
  torch::optim::AdamW optimizer(
      qat.parameter_groups({.learning_rate = 1e-3, .weight_decay = 1e-4}));  // crumb
  for (int epoch = 0; epoch < 15; ++epoch) {
    run_epoch(
        *model, train, optimizer, [&] { return qat.penalty(); }, &qat);
  }
  const auto step = qat.step();
  std::cout << "accuracy " << accuracy(*model, test) << "\n";

  const auto graph = crumb::qat::freeze(qat, *model, {test.x.slice(0, 0, 8)});  // crumb
  crumb::exporting::write(graph, crumb::exporting::Form::kQonnx, onnx, {});     // crumb
  crumb::graph::write_crumb_graph(graph, packed, {});                           // crumb
  std::cout << onnx << " and " << packed << " hold the codes that were trained\n";
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    std::cerr << "usage: digits_mlp_a2q_plus DIGITS.csv.gz OUT.onnx OUT.crumb\n";
    return 2;
  }
  try {
    run(arguments[1], arguments[2], arguments[3]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
