// The jobs of crumb-bench qat: whole training steps, in float and with hooks, and fake quantization by Crumb's operators
// and by LibTorch's. Free of LibTorch's headers; bench/torch/qat_job.cpp has them, where LibTorch was found.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace crumb::bench {

/// A step: forward, loss, backward, AdamW.
struct TrainingStep {
  std::string hooks;  ///< "float" of the first one
  std::function<void()> run;
};

/// A network trained in float (first), then the same with hooks of every kind: attached to its class (W4A4, then the
/// same with A2Q+) and captured (W4A4). weights: the spec of weights. network: one of qat_networks().
std::vector<TrainingStep> make_training_steps(const std::string& network, const std::string& weights);
std::vector<std::string> qat_networks();

/// Forward and backward of one operator on one tensor; both give seconds.
class OperatorJob {
 public:
  virtual ~OperatorJob() = default;
  virtual double forward() = 0;
  virtual double backward() = 0;  ///< of the last forward()
};

/// One of Crumb's operators, and the same in LibTorch.
struct OperatorCase {
  struct Peer {
    std::string name;
    std::unique_ptr<OperatorJob> job;
  };

  std::string name, shape;
  std::int64_t values = 0;
  std::unique_ptr<OperatorJob> fused;
  std::vector<Peer> peers;
};

std::vector<OperatorCase> make_operator_cases(const std::string& weights);

}  // namespace crumb::bench
