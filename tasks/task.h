// What crumb train learns: data, a float network, a loss, a number that says how well, and how long it takes.
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

/// What solves a task without being trained, and how well.
struct Reference {
  std::string name;  ///< "bicubic"
  double score = 0;
};

/// How one phase of training goes.
struct Pace {
  int epochs = 0;
  std::int64_t batch = 32;
  double rate = 1e-3;  ///< AdamW's, at the start of a cosine
  double decay = 1e-4;
};

struct Task {
  std::string network;     ///< "mlp"
  std::string metric;      ///< "accuracy"
  std::string stands_for;  ///< whose table it is a miniature of; "" of a network from a file
  TensorPair train, test;
  std::shared_ptr<torch::nn::Module> module;  ///< takes raw inputs; its weights follow from the seed
  std::function<at::Tensor(const at::Tensor& inputs)> forward;
  std::function<graph::Graph()> graph;  ///< the module of now as a graph; empty: it is captured
  std::function<at::Tensor(const at::Tensor& outputs, const at::Tensor& targets)> loss;
  /// Of all test samples at once.
  std::function<double(const at::Tensor& outputs, const at::Tensor& targets)> score;
  Pace float_pace, quantized_pace;
  /// The least and the greatest of its raw numbers, where they are whole, and fixed_point_input was asked for.
  std::optional<std::pair<int, int>> whole_inputs;
  std::vector<Reference> references;  ///< scored as the network is, on the same samples
};

/// The first is the one that is taken where no name is given. Throws usage Error for a task that is none.
std::vector<std::string_view> networks_of(std::string_view task);

/// Throws usage Error where there is no such task or network, Error that names file and folder where data are missing.
Task make_task(std::string_view task, std::string_view network, const std::filesystem::path& data,
               std::uint64_t seed, bool fixed_point_input = false);

}  // namespace crumb::tasks
