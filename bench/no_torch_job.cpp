// Without LibTorch there is nothing to compare with.
#include "bench/graph_job.h"
#include "bench/ptq_job.h"
#include "bench/qat_job.h"
#include "bench/torch_job.h"

namespace crumb::bench {

bool has_torch() { return false; }

std::unique_ptr<TorchJob> make_torch_job(const QuantSpec&, const std::vector<float>&, uint64_t, uint64_t) {
  return nullptr;
}

void set_graph_threads(int) {}

std::unique_ptr<GraphJob> make_graph_job(const graph::Graph&, std::vector<graph::Tensor>) { return nullptr; }

std::unique_ptr<GraphJob> make_torch_graph_job(const graph::Graph&, std::vector<graph::Tensor>, bool) {
  return nullptr;
}

std::vector<float> gptq_in_torch(const PtqWork&, int) { return {}; }

double product_in_torch(std::size_t, std::size_t, std::size_t, int) { return 0; }

std::vector<TrainingStep> make_training_steps(const std::string&, const std::string&) { return {}; }

std::vector<std::string> qat_networks() { return {}; }

std::vector<OperatorCase> make_operator_cases(const std::string&) { return {}; }

}  // namespace crumb::bench
