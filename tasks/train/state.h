// What a run stores so that another run can go on from it.
//
// Bytes of a LibTorch archive: "about" (JSON: the request, phase, position, log, the float networks' scores),
// the modules and the optimizer of the phase; in the phase "float longer" also "start": the float network's
// tensors before that phase.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tasks/train/fit.h"
#include "tasks/train/trainer.h"

namespace crumb::tasks {

struct RunState {
  std::string request;  ///< request_json(), and a checksum of the data
  std::string phase = std::string(kFloatPhase);
  Position position;
  /// Of each output that learns; empty: not measured yet, or left out.
  std::vector<double> float_metrics, longer_metrics;
  std::vector<EpochLine> log;
};

/// `network`: the last phase's, or null. `start`: the second phase's, or empty.
std::string pack_state(const RunState& state, torch::nn::Module& float_module, torch::nn::Module* network,
                       const std::vector<at::Tensor>& start, torch::optim::Optimizer& optimizer);

class PackedState {
 public:
  /// Throws Error where the bytes are no state.
  explicit PackedState(const std::string& bytes);

  const RunState& state() const { return state_; }

  /// Throws usage Error, which names the field, where the state is another request's.
  void check(const nlohmann::ordered_json& request) const;

  void load_float(torch::nn::Module& module);
  void load_network(torch::nn::Module& network);
  void load_optimizer(torch::optim::Optimizer& optimizer);
  std::vector<at::Tensor> start();

 private:
  torch::serialize::InputArchive part(const std::string& name);

  torch::serialize::InputArchive archive_;
  RunState state_;
};

}  // namespace crumb::tasks
