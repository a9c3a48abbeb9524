// Whole networks: the same outputs for every batch, the same named parameters, the same training.
#include "tests/libtorch/capture/check_capture.h"
//
#include <torch/optim/sgd.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "formats/npy/npy.h"
#include "graph/onnx/write.h"
#include "tests/libtorch/capture/networks.h"
#include "tests/support/testing.h"

using namespace crumb;           // NOLINT: a test
using namespace crumb::testing;  // NOLINT

namespace {

Tensors words(std::int64_t batch) { return {torch::randint(20, {batch, 7})}; }

std::set<std::string> names_of(const torch::OrderedDict<std::string, at::Tensor>& tensors) {
  std::set<std::string> names;
  for (const auto& one : tensors) names.insert(one.key());
  return names;
}

/// The same parameters, and after three steps of SGD on the same data still the same.
template <class Module>
void check_training(Module& module, const Inputs& inputs) {
  const graph::Graph graph = libtorch::capture(module, inputs(4));
  libtorch::GraphModule network(graph);
  CHECK(names_of(network.named_parameters()) == names_of(module.named_parameters()));
  module.eval();
  torch::optim::SGD first(module.parameters(), 0.05), second(network.parameters(), 0.05);
  for (int step = 0; step < 3; ++step) {
    const Tensors x = inputs(6);
    const Tensors expected = libtorch::detail::call_forward(module, x), found = run_graph(network, x);
    check_same(found, expected, 1e-4);
    first.zero_grad();
    second.zero_grad();
    expected[0].square().mean().backward();
    found[0].square().mean().backward();
    first.step();
    second.step();
  }
  const auto trained = network.named_parameters();
  for (const auto& one : module.named_parameters()) {
    CAPTURE(one.key());
    REQUIRE(trained.contains(one.key()));
    CHECK(largest(trained[one.key()] - one.value()) <= 1e-4 * largest(one.value()));
  }
}

struct Written {
  std::string name;
  std::shared_ptr<torch::nn::Module> module;
  Inputs inputs;
  Forward forward;
};

template <class Module>
Written written(const char* name, std::shared_ptr<Module> module, Inputs inputs) {
  return {name, module, std::move(inputs),
          [raw = module.get()](const Tensors& x) { return libtorch::detail::call_forward(*raw, x); }};
}

std::vector<Written> networks() {
  return {written("mlp", mlp().ptr(), normal({6})),
          written("cnn", std::make_shared<Cnn>(), normal({3, 12, 12})),
          written("bilstm", std::make_shared<BiLstm>(), words),
          written("gru", torch::nn::GRU(torch::nn::GRUOptions(4, 6).batch_first(true).num_layers(2)).ptr(),
                  normal({5, 4})),
          written("encoder", std::make_shared<Encoder>(), normal({5, 8}))};
}

void write(const std::filesystem::path& path, const at::Tensor& tensor) {
  const at::Tensor whole = tensor.contiguous();
  const std::vector<std::uint64_t> shape(whole.sizes().begin(), whole.sizes().end());
  write_npy(path, whole.is_floating_point() ? DType::kF32 : DType::kI64, shape,
            {static_cast<const std::byte*>(whole.data_ptr()), whole.nbytes()});
}

}  // namespace

TEST_CASE("captured networks give what the modules give, for every batch") {
  torch::manual_seed(3);
  for (const Written& one : networks()) {
    CAPTURE(one.name);
    const graph::Graph graph = check_capture(*one.module, one.inputs, one.forward);
    REQUIRE(graph.find("input"));
    CHECK(graph.find("input")->shape->front().symbol == "batch");
    for (const std::string& output : graph.outputs) {
      REQUIRE(graph.shape_of(output));
      CHECK(graph::text_of(*graph.shape_of(output)).find("batch") != std::string::npos);
    }
  }
}

TEST_CASE("captured parameters keep their names and train as the module's do") {
  torch::manual_seed(4);
  auto sequential = mlp();
  check_training(*sequential, normal({6}));
  Cnn cnn;
  check_training(cnn, normal({3, 12, 12}));
  BiLstm lstm;
  check_training(lstm, words);
  Encoder encoder;
  check_training(encoder, normal({5, 8}));
  torch::nn::GRU gru(torch::nn::GRUOptions(4, 3).bidirectional(true).batch_first(true));
  check_training(*gru, normal({5, 4}));
}

TEST_CASE("capture leaves the module as it was: modes, buffers, gradients") {
  Cnn cnn;
  cnn.train();
  cnn.layer1->bn1->eval();
  const at::Tensor before = cnn.layer2->bn1->running_mean.clone();
  const CaptureOptions options{.batch_statistics = true};
  const graph::Graph graph = libtorch::capture(cnn, {torch::randn({4, 3, 12, 12})}, options);
  CHECK(cnn.is_training());
  CHECK(!cnn.layer1->bn1->is_training());
  CHECK(cnn.layer2->bn1->is_training());
  CHECK(before.equal(cnn.layer2->bn1->running_mean));
  CHECK(cnn.layer2->bn1->num_batches_tracked.item<std::int64_t>() ==
        Cnn().layer2->bn1->num_batches_tracked.item<std::int64_t>());
  std::map<std::string, std::int64_t> modes;
  for (const graph::Node& node : graph.nodes) {
    CHECK(node.op != "Dropout");
    if (node.op == "BatchNormalization") modes[node.name] = node.int_or("training_mode", 0);
  }
  CHECK(modes.at("layer1.bn1/BatchNormalization") == 0);
  CHECK(modes.at("layer2.bn1/BatchNormalization") == 1);

  // The statistics of the batch itself are what the module uses, too.
  libtorch::GraphModule network(graph);
  const at::Tensor x = torch::randn({6, 3, 12, 12});
  torch::manual_seed(1);
  const at::Tensor hidden = cnn.layer2->forward(torch::max_pool2d(cnn.layer1->forward(x), 2));
  const at::Tensor expected = cnn.fc(torch::adaptive_avg_pool2d(hidden, {1, 1}).flatten(1));
  check_same(run_graph(network, {x}), {expected});
}

TEST_CASE("captured networks, written with inputs and outputs for onnxruntime") {
  const char* target = std::getenv("CRUMB_CAPTURE_DIR");
  if (!target) return skip("CRUMB_CAPTURE_DIR is not set: test_capture_exports.py sets it");
  torch::manual_seed(5);
  const torch::NoGradGuard no_gradients;
  for (const Written& one : networks()) {
    const std::filesystem::path folder = std::filesystem::path(target) / one.name;
    std::filesystem::create_directories(folder);
    const Tensors x = one.inputs(5);
    graph::write_onnx(libtorch::capture(*one.module, one.inputs(2), one.forward), folder / "model.onnx");
    one.module->eval();
    const Tensors y = one.forward(x);
    for (std::size_t i = 0; i < x.size(); ++i) write(folder / ("input" + std::to_string(i) + ".npy"), x[i]);
    for (std::size_t i = 0; i < y.size(); ++i) write(folder / ("output" + std::to_string(i) + ".npy"), y[i]);
  }
}
