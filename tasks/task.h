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

/// Samples along axis 0.
struct TensorPair {
  at::Tensor inputs, targets;
};

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
  std::string metric;      ///< "accuracy"
  std::string stands_for;  ///< the paper whose table it is a miniature of; "" for a network from a file
  TensorPair train, test;
  std::shared_ptr<torch::nn::Module> module;  ///< takes raw inputs; its weights follow from the seed
  std::function<at::Tensor(const at::Tensor& inputs)> forward;
  std::function<graph::Graph()> graph;  ///< returns the present module as a graph; empty: it is captured
  std::function<at::Tensor(const at::Tensor& outputs, const at::Tensor& targets)> loss;
  /// Returns the score over all test samples at once.
  std::function<double(const at::Tensor& outputs, const at::Tensor& targets)> score;
  Pace float_pace, quantized_pace;
  /// The least and the greatest of its raw numbers, where they are whole, and fixed_point_input was
  /// requested.
  std::optional<std::pair<int, int>> whole_inputs;
  std::vector<Reference> references;  ///< scored as the network is, on the same samples
};

/// Returns the task's networks; the first is the default. Throws usage Error for an unknown task.
std::vector<std::string_view> networks_of(std::string_view task);

/// Throws usage Error for an unknown task or network, and Error that names file and folder where data are
/// missing.
Task make_task(std::string_view task, std::string_view network, const std::filesystem::path& data,
               std::uint64_t seed, bool fixed_point_input = false);

}  // namespace crumb::tasks
