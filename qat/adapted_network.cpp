#include "qat/adapted_network.h"

#include <ATen/ATen.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "base/error.h"
#include "base/files/text.h"
#include "graph/buffers.h"
#include "quant/recipe/name_pattern.h"

namespace crumb::qat {
namespace {

using graph::Graph;

/// Returns the graph with everything but the adapter's matrices as buffers; the adapter's matrices are
/// float32.
Graph trainable(Graph graph, const std::string& name) {
  const Adapter adapter = graph::adapter_of(graph, name);
  graph = graph::add_adapter(graph::drop_adapter(std::move(graph), name), adapter, name);
  std::set<std::string> trained;
  for (const LowRankUpdate& update : adapter.updates)
    for (const char* part : {".lora_A", ".lora_B"}) trained.insert(update.module + "." + name + part);
  for (const auto& [constant, tensor] : graph.initializers)
    if (!trained.contains(constant)) graph::add_buffer(graph, constant);
  return graph;
}

/// Returns the transpose [columns, rows] of a matrix [rows, columns].
at::Tensor transpose_of(const std::vector<float>& values, std::size_t rows, std::size_t columns) {
  return at::tensor(values).view({static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)}).t();
}

std::vector<float> from_transpose(const at::Tensor& matrix) {
  const at::Tensor rows = matrix.detach().to(at::kCPU).t().contiguous();
  return {rows.const_data_ptr<float>(), rows.const_data_ptr<float>() + rows.numel()};
}

}  // namespace

Adapter fresh_adapter(const Graph& graph, const AdapterOptions& options) {
  if (options.rank == 0) throw usage_error("an adapter's rank is at least 1");
  const auto rank = static_cast<double>(options.rank);
  const double alpha = options.alpha > 0 ? options.alpha : rank;
  std::vector<NamePattern> patterns(options.targets.begin(), options.targets.end());
  std::vector<bool> matched(patterns.size(), false);
  Adapter adapter;
  std::set<std::string> seen;
  const std::vector<graph::LinearProduct> products = graph::linear_products(graph);
  const auto is_coded = [&](const graph::LinearProduct& product) {
    return graph.quantized.contains(product.weight);
  };
  const bool all = std::ranges::none_of(products, is_coded);
  for (const graph::LinearProduct& product : products) {
    if (!(all || is_coded(product)) || !seen.insert(product.module).second) continue;
    bool is_target = false;
    for (std::size_t i = 0; i < patterns.size(); ++i) {
      if (!patterns[i].matches(product.weight) && !patterns[i].matches(product.module)) continue;
      matched[i] = is_target = true;
    }
    if (!is_target) continue;
    if (options.rank > std::min(product.in, product.out))
      throw usage_error("an adapter of rank " + std::to_string(options.rank) + " is no smaller than " +
                        quote_text(product.weight) + ", which is " + std::to_string(product.out) + " x " +
                        std::to_string(product.in));
    adapter.updates.push_back(
        {.module = product.module,
         .rank = options.rank,
         .in = product.in,
         .out = product.out,
         .down = {},
         .up = std::vector<float>(product.out * options.rank, 0.0F),
         .scale = static_cast<float>(alpha / (options.rslora ? std::sqrt(rank) : rank))});
  }
  for (std::size_t i = 0; i < patterns.size(); ++i)
    if (!matched[i])
      throw usage_error("the network multiplies by no matrix that matches the target " +
                        quote_text(options.targets[i]));
  std::ranges::sort(adapter.updates, {}, &LowRankUpdate::module);
  std::mt19937_64 random(options.seed);
  for (LowRankUpdate& update : adapter.updates) {
    const float most = 1 / std::sqrt(static_cast<float>(update.in));
    for (std::size_t i = 0; i < update.rank * update.in; ++i) {
      const float share = static_cast<float>(random() >> 40) * 0x1p-24F;
      update.down.push_back((2 * share - 1) * most);
    }
  }
  return adapter;
}

AdaptedNetwork::AdaptedNetwork(Graph graph, std::string name)
    : torch::nn::Module("adapted"), name_(std::move(name)) {
  const Adapter adapter = graph::adapter_of(graph, name_);
  module_ = std::make_shared<libtorch::GraphModule>(
      trainable(graph, name_), libtorch::GraphModuleOptions{.codes = libtorch::Codes::kKept});
  graph_ = std::move(graph);
  for (const LowRankUpdate& update : adapter.updates) {
    const std::string stem = update.module + "." + name_;
    const Matrices matrices{update.module, module_->constant(stem + ".lora_A"),
                            module_->constant(stem + ".lora_B")};
    matrices_.push_back(matrices);
    std::string key = stem;  // a parameter's name has no dots
    std::ranges::replace(key, '.', '/');
    register_parameter(key + "/lora_A", matrices.down);
    register_parameter(key + "/lora_B", matrices.up);
  }
}

void AdaptedNetwork::to(torch::Device device, bool non_blocking) {
  torch::nn::Module::to(device, non_blocking);
  module_->to(device, non_blocking);  // no child module: what is frozen is not stored with what learns
}

std::vector<at::Tensor> AdaptedNetwork::forward(const std::vector<at::Tensor>& inputs) const {
  return libtorch::tensors_of(module_->run(libtorch::typed_all(inputs)));
}

Adapter AdaptedNetwork::adapter() const {
  Adapter adapter = graph::adapter_of(graph_, name_);
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    adapter.updates[i].down = from_transpose(matrices_[i].down);
    adapter.updates[i].up = from_transpose(matrices_[i].up);
  }
  return adapter;
}

void AdaptedNetwork::set(const Adapter& adapter) {
  if (adapter.updates.size() != matrices_.size())
    throw Error("the adapter is for " + std::to_string(adapter.updates.size()) + " layers, expected " +
                std::to_string(matrices_.size()));
  const torch::NoGradGuard no_gradients;
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    const LowRankUpdate& update = adapter.updates[i];
    const at::Tensor down = transpose_of(update.down, update.rank, update.in),
                     up = transpose_of(update.up, update.out, update.rank);
    if (update.module != matrices_[i].module || down.sizes() != matrices_[i].down.sizes() ||
        up.sizes() != matrices_[i].up.sizes())
      throw Error("the adapter of layer " + quote_text(update.module) + " is none of layer " +
                  quote_text(matrices_[i].module) + ", or of another shape");
    matrices_[i].down.copy_(down);
    matrices_[i].up.copy_(up);
  }
}

Graph AdaptedNetwork::freeze(graph::AdapterType type) const {
  return graph::add_adapter(graph::drop_adapter(graph_, name_), adapter(), name_, type);
}

AdaptedNetwork add_adapters(Graph graph, const AdapterOptions& options) {
  const Adapter adapter = fresh_adapter(graph, options);
  return {graph::add_adapter(std::move(graph), adapter, options.name), options.name};
}

}  // namespace crumb::qat
