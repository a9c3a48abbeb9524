#include "bench/graph_job.h"

#include <torch/types.h>

#include "bench/torch/networks.h"
#include "libtorch/engine.h"
#include "libtorch/execute/typed_tensor.h"

namespace crumb::bench {
namespace {

class CrumbJob : public GraphJob {
 public:
  CrumbJob(const graph::Graph& graph, std::vector<graph::Tensor> inputs)
      : network_(libtorch::engine().prepare(graph)), inputs_(std::move(inputs)) {}
  graph::Tensor run() override { return network_->run(inputs_).at(0); }

 private:
  std::unique_ptr<graph::Executable> network_;
  std::vector<graph::Tensor> inputs_;
};

class TorchGraphJob : public GraphJob {
 public:
  TorchGraphJob(Network network, std::vector<graph::Tensor> inputs)
      : network_(std::move(network)), inputs_(std::move(inputs)) {}
  graph::Tensor run() override {
    const c10::InferenceMode guard;
    const at::Tensor y = network_(libtorch::to_typed(inputs_.at(0)).tensor);
    return libtorch::to_constant(libtorch::typed(y));
  }

 private:
  Network network_;
  std::vector<graph::Tensor> inputs_;
};

}  // namespace

void set_graph_threads(int threads) { at::set_num_threads(threads); }

std::unique_ptr<GraphJob> make_graph_job(const graph::Graph& graph, std::vector<graph::Tensor> inputs) {
  return std::make_unique<CrumbJob>(graph, std::move(inputs));
}

std::unique_ptr<GraphJob> make_torch_graph_job(const graph::Graph& graph, std::vector<graph::Tensor> inputs,
                                               bool quantizers) {
  const c10::InferenceMode guard;
  Network network = write_network(graph, quantizers);
  if (!network) return nullptr;
  return std::make_unique<TorchGraphJob>(std::move(network), std::move(inputs));
}

}  // namespace crumb::bench
