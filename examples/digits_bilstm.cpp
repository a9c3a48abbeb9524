// A bidirectional LSTM that reads handwritten digits row by row, with 4 bits for weights, gates and hidden states (as
// FINN-L, arXiv:1807.04093). The network's class knows nothing of quantizers: it is captured, its LSTM becomes cells, and
// everything inside of them is quantized as the recipe says.
//
//   digits_bilstm DIGITS.csv.gz OUT.onnx OUT.crumb
#include <torch/torch.h>

#include <exception>
#include <iostream>

#include "export/write.h"
#include "graph/packed/crumb_graph.h"
#include "libtorch/capture/capture.h"
#include "qat/network.h"
#include "tasks/digits.h"

namespace {

struct Reader : torch::nn::Module {
  torch::nn::LSTM lstm{nullptr};
  torch::nn::Linear fc{nullptr};

  Reader() {
    lstm = register_module(
        "lstm", torch::nn::LSTM(torch::nn::LSTMOptions(8, 32).bidirectional(true).batch_first(true)));
    fc = register_module("fc", torch::nn::Linear(8 * 64, 10));
  }
  at::Tensor forward(const at::Tensor& pixels) {
    return fc(std::get<0>(lstm->forward(pixels / 16)).flatten(1));
  }
};

constexpr const char* kRecipe = R"(
version: 1
weights: int4:channel
activations: uint4:tensor
rules:
  - {match: {name: "fc"}, weights: int8:channel}
)";

struct Set {
  at::Tensor x, y;
  explicit Set(const crumb::tasks::Samples& samples)
      : x(torch::tensor(samples.inputs).view({samples.size(), 8, 8})), y(torch::tensor(samples.labels)) {}
};

template <class Forward, class Step>
void epochs(int count, const Set& set, torch::optim::Optimizer& optimizer, const Forward& forward,
            const Step& extra) {
  for (int epoch = 0; epoch < count; ++epoch) {
    for (const at::Tensor& batch : torch::randperm(set.x.size(0)).split(32)) {
      const at::Tensor loss = torch::nn::functional::cross_entropy(forward(set.x.index_select(0, batch)),
                                                                   set.y.index_select(0, batch)) +
                              extra();
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
    }
  }
}

template <class Forward>
double accuracy(const Set& set, const Forward& forward) {
  const torch::NoGradGuard no_gradients;
  return (forward(set.x).argmax(1) == set.y).to(at::kDouble).mean().template item<double>();
}

void run(const char* digits, const char* onnx, const char* packed) {
  torch::manual_seed(0);
  const crumb::tasks::Split data = crumb::tasks::read_digits(digits).take(digits);
  const Set train(data.train), test(data.test);

  // As ever: the float network.
  auto model = std::make_shared<Reader>();
  torch::optim::AdamW adam(model->parameters(), 2e-3);
  const auto forward = [&](const at::Tensor& x) { return model->forward(x); };
  epochs(8, train, adam, forward, [] { return torch::zeros({}); });
  std::cout << "float accuracy " << accuracy(test, forward) << "\n";

  // Captured, quantized, trained on.
  const at::Tensor example = train.x.slice(0, 0, 8);
  crumb::qat::Network network(crumb::libtorch::capture(*model, {example}),
                              crumb::parse_recipe(kRecipe, "recipe"));
  network.calibrate({{train.x.slice(0, 0, 512)}});
  torch::optim::AdamW optimizer(network.parameter_groups({.learning_rate = 1e-3, .weight_decay = 1e-4}));
  const auto quantized = [&](const at::Tensor& x) { return network.forward(x); };
  network.train();
  epochs(8, train, optimizer, quantized, [&] { return network.penalty(); });
  network.eval();
  std::cout << "accuracy " << accuracy(test, quantized) << "\n";

  const auto graph = network.freeze();
  crumb::exporting::write(graph, crumb::exporting::Form::kQonnx, onnx, {});
  crumb::graph::write_crumb_graph(graph, packed, {});
  std::cout << onnx << " and " << packed << " hold the codes that were trained\n";
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    std::cerr << "usage: digits_bilstm DIGITS.csv.gz OUT.onnx OUT.crumb\n";
    return 2;
  }
  try {
    run(arguments[1], arguments[2], arguments[3]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
