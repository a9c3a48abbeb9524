// A multi-layer perceptron on handwritten digits that rounding to two bits spoiled, and a low-rank adapter that wins back what
// was lost: the codes are frozen, and the user's own loop trains what stands beside them.
//
//   digits_recovered DIGITS.csv.gz OUT.onnx OUT.crumb
#include <torch/torch.h>

#include <exception>
#include <iostream>

#include "export/write.h"
#include "graph/packed/crumb_graph.h"
#include "graph/quantize/apply.h"
#include "libtorch/capture/capture.h"
#include "qat/adapted_network.h"
#include "qat/distillation.h"
#include "tasks/digits.h"

namespace {

struct Mlp : torch::nn::Module {
  torch::nn::Linear fc1{nullptr}, fc2{nullptr}, fc3{nullptr};

  Mlp() {
    fc1 = register_module("fc1", torch::nn::Linear(64, 96));
    fc2 = register_module("fc2", torch::nn::Linear(96, 96));
    fc3 = register_module("fc3", torch::nn::Linear(96, 10));
  }
  at::Tensor forward(const at::Tensor& pixels) {
    return fc3(torch::relu(fc2(torch::relu(fc1(pixels / 16)))));
  }
};

struct Set {
  at::Tensor x, y;
  explicit Set(const crumb::tasks::Samples& samples)
      : x(torch::tensor(samples.inputs).view({samples.size(), 64})), y(torch::tensor(samples.labels)) {}
};

template <class Forward>
double accuracy(const Set& set, const Forward& forward) {
  const torch::NoGradGuard no_gradients;
  return (forward(set.x).argmax(1) == set.y).to(at::kDouble).mean().template item<double>();
}

template <class Loss>
void epochs(int count, const Set& set, torch::optim::Optimizer& optimizer, const Loss& loss_of) {
  for (int epoch = 0; epoch < count; ++epoch) {
    for (const at::Tensor& batch : torch::randperm(set.x.size(0)).split(32)) {
      const at::Tensor loss = loss_of(set.x.index_select(0, batch), set.y.index_select(0, batch));
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
    }
  }
}

void run(const char* digits, const char* onnx, const char* packed) {
  torch::manual_seed(0);
  const crumb::tasks::Split data = crumb::tasks::read_digits(digits).take(digits);
  const Set train(data.train), test(data.test);

  // As ever: the float network.
  Mlp model;
  torch::optim::AdamW adam(model.parameters(), 2e-3);
  epochs(15, train, adam, [&](const at::Tensor& x, const at::Tensor& y) {
    return torch::nn::functional::cross_entropy(model.forward(x), y);
  });
  const auto in_float = [&](const at::Tensor& x) { return model.forward(x); };
  std::cout << "in floats " << accuracy(test, in_float) << "\n";

  // Two bits, rounded.
  const auto recipe = crumb::parse_recipe("version: 1\nweights: int2h:tensor\n", "recipe");
  crumb::graph::Graph graph = crumb::graph::prepare(
      crumb::libtorch::capture(
          model, {test.x.slice(0, 0, 8)},
          [&](const crumb::libtorch::Tensors& in) { return crumb::libtorch::Tensors{model.forward(in[0])}; }),
      recipe);
  graph = crumb::graph::apply(graph, crumb::graph::plan_quantizers(graph, recipe));

  // An adapter of rank 4 beside every matrix learns what the float network predicts.
  crumb::qat::AdaptedNetwork network = crumb::qat::add_adapters(graph, {.rank = 4});
  const auto adapted = [&](const at::Tensor& x) { return network.forward({x}).at(0); };
  std::cout << "rounded to two bits " << accuracy(test, adapted) << "\n";
  torch::optim::AdamW optimizer(network.parameters(), torch::optim::AdamWOptions(3e-3).weight_decay(0));
  epochs(10, train, optimizer, [&](const at::Tensor& x, const at::Tensor&) {
    return crumb::qat::distillation_loss(adapted(x), model.forward(x).detach());
  });
  std::cout << "accuracy " << accuracy(test, adapted) << "\n";

  graph = network.freeze();  // the same codes
  crumb::exporting::write(graph, crumb::exporting::Form::kQonnx, onnx, {});
  crumb::graph::write_crumb_graph(graph, packed, {});
  std::cout << onnx << " and " << packed << " hold the codes and the adapter beside them\n";
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    std::cerr << "usage: digits_recovered DIGITS.csv.gz OUT.onnx OUT.crumb\n";
    return 2;
  }
  try {
    run(arguments[1], arguments[2], arguments[3]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
