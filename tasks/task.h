// What crumb train learns: data, a float network, a loss, a score, and the training's length.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace crumb::tasks {

/// Samples along axis 0 of every tensor.
struct SampleTensors {
  std::vector<at::Tensor> inputs;   ///< in the network's order
  std::vector<at::Tensor> targets;  ///< for each of Task::outputs

  std::int64_t count() const { return inputs.at(0).size(0); }
};

/// An output that learns.
struct TaskOutput {
  std::string name;       ///< "" where the network has no other
  std::size_t index = 0;  ///< among what the network gives
  std::int64_t axis = 0;  ///< of samples, as the network gives it
  std::string metric;     ///< "accuracy"
  double weight = 1;      ///< factor of its loss in the sum
  bool is_held = false;   ///< to what the float network gives
  std::function<at::Tensor(const at::Tensor& made, const at::Tensor& targets)> loss;
  /// Returns the score over all test samples at once.
  std::function<double(const at::Tensor& made, const at::Tensor& targets)> score;
};

/// Takes a network's inputs and returns all that it gives.
using NetworkFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

/// A method that solves a task without training, and its score.
struct Reference {
  std::string name;  ///< "bicubic"
  double score = 0;
};

/// The settings of one phase of training.
struct Pace {
  int epochs = 0;
  std::int64_t batch = 32;
  double rate = 1e-3;  ///< AdamW's, at the start of a cosine
  double decay = 1e-4;
};

struct Task {
  std::string network;     ///< "mlp"
  std::string stands_for;  ///< the paper whose table it is a miniature of; "" for a network from a file
  SampleTensors train, test;
  std::shared_ptr<torch::nn::Module> module;  ///< takes raw inputs; its weights follow from the seed
  NetworkFunction forward;
  std::function<graph::Graph()> graph;   ///< returns the present module as a graph; empty: it is captured
  std::vector<std::int64_t> input_axes;  ///< of samples, as the network takes its inputs; empty: 0
  std::vector<TaskOutput> outputs;       ///< at least one; the first one's score is the run's
  Pace float_pace, quantized_pace;
  /// The least and the greatest of its raw numbers, where they are whole, and fixed_point_input was
  /// requested.
  std::optional<std::pair<int, int>> whole_inputs;
  std::vector<Reference> references;  ///< scored as the network is, on the same samples
};

/// Returns inputs with samples along axis 0 as the network takes them.
std::vector<at::Tensor> network_inputs(const Task& task, const std::vector<at::Tensor>& inputs);

/// Runs a network that is like the task's on inputs with samples along axis 0; returns the outputs that
/// learn, in the order of Task::outputs, with samples along axis 0.
std::vector<at::Tensor> run_network(const Task& task, const NetworkFunction& network,
                                    const std::vector<at::Tensor>& inputs);

/// Returns the sum of the outputs' losses, each times its weight. `made`: what run_network() returned.
at::Tensor loss_of(const Task& task, const std::vector<at::Tensor>& made,
                   const std::vector<at::Tensor>& targets);

/// Returns the score of each output that learns.
std::vector<double> scores_of(const Task& task, const std::vector<at::Tensor>& made,
                              const std::vector<at::Tensor>& targets);

/// Returns the task's networks; the first is the default. Throws usage Error for an unknown task.
std::vector<std::string_view> networks_of(std::string_view task);

/// Throws usage Error for an unknown task or network, and Error that names file and folder where data are
/// missing.
Task make_task(std::string_view task, std::string_view network, const std::filesystem::path& data,
               std::uint64_t seed, bool fixed_point_input = false);

}  // namespace crumb::tasks
