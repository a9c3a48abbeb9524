#include "tasks/language/adapter_start.h"

#include <ATen/ATen.h>
#include <torch/utils.h>

#include <cmath>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "libtorch/execute/graph_module.h"
#include "tasks/language/part_inputs.h"

namespace crumb::tasks {
namespace {

using graph::Graph;
using Moments = std::map<std::string, at::Tensor>;  ///< float64 [in, in], by the layer's matrix

constexpr double kDamping = 1e-6;  ///< of the mean second moment: inputs that never vary have a root, too

at::Tensor value_of(const Graph& graph, const std::string& constant) {
  if (const auto coded = graph.quantized.find(constant); coded != graph.quantized.end())
    return libtorch::to_typed(coded->second.value()).tensor;
  const graph::Tensor* tensor = graph.constant(constant);
  if (!tensor) throw Error("the float network has no matrix " + quote_text(constant));
  return libtorch::to_typed(*tensor).tensor;
}

/// R^1/2 and R^-1/2 of a symmetric matrix, whose roots are damped.
std::pair<at::Tensor, at::Tensor> roots_of(const at::Tensor& moments) {
  const auto [values, vectors] = at::linalg_eigh(moments);
  const double least = kDamping * std::max(values.mean().item<double>(), 1e-30);
  const at::Tensor damped = values.clamp_min(least);
  return {at::matmul(vectors * damped.pow(0.5), vectors.t()),
          at::matmul(vectors * damped.pow(-0.5), vectors.t())};
}

/// U [in, rank], V [rank, out] with U V the nearest to the matrix, both with the roots of its largest singular values.
std::pair<at::Tensor, at::Tensor> nearest(const at::Tensor& matrix, std::int64_t rank) {
  const bool is_wide = matrix.size(0) <= matrix.size(1);
  const at::Tensor gram = is_wide ? at::matmul(matrix, matrix.t()) : at::matmul(matrix.t(), matrix);
  const auto [values, vectors] = at::linalg_eigh(gram);  // ascending
  const std::int64_t size = values.size(0);
  const at::Tensor first = vectors.narrow(1, size - rank, rank).flip(1);
  const at::Tensor roots = values.narrow(0, size - rank, rank).flip(0).clamp_min(0).pow(0.25);
  const at::Tensor inverse = at::where(roots > 0, roots.reciprocal(), 0.0);
  if (is_wide) return {first * roots, at::matmul((first * inverse).t(), matrix)};
  return {at::matmul(matrix, first * inverse), (first * roots).t()};
}

/// Of what the products of a part take, summed over samples.
void add_moments(const Graph& part, const std::vector<at::Tensor>& inputs,
                 const libtorch::GraphModule& module, Moments& moments, at::Tensor& output) {
  std::map<std::string, std::vector<std::string>> matrices;  // by the value that meets them
  for (const graph::LinearProduct& product : graph::linear_products(part))
    if (moments.contains(product.weight))
      matrices[part.nodes[product.node].inputs[0]].push_back(product.weight);
  const auto outputs =
      module.run(libtorch::typed_all(inputs), [&](const std::string& value, libtorch::TypedTensor made) {
        const auto found = matrices.find(value);
        if (found == matrices.end()) return made;
        const at::Tensor rows = made.tensor.flatten(0, -2).to(at::kDouble);
        const at::Tensor sum = at::matmul(rows.t(), rows);
        for (const std::string& matrix : found->second) {
          at::Tensor& all = moments.at(matrix);
          all = all.defined() ? all + sum : sum;
        }
        return made;
      });
  output = outputs.at(0).tensor;
}

void begin_at_error(const LanguageRequest& request, const at::Tensor& moments, LowRankUpdate& update) {
  const std::string matrix = update.module + ".weight";
  const at::Tensor meant = value_of(request.network, matrix), kept = value_of(request.recovery->base, matrix);
  if (meant.sizes() != kept.sizes())
    throw Error("the float network's matrix " + quote_text(matrix) + " has shape " + c10::str(meant.sizes()) +
                ", the quantized one's " + c10::str(kept.sizes()));
  const at::Tensor error = meant.to(at::kDouble) - kept.to(at::kDouble);
  const auto rank = static_cast<std::int64_t>(update.rank);
  const auto [root, inverse] = moments.defined() ? roots_of(moments) : std::pair<at::Tensor, at::Tensor>();
  auto [down, up] = nearest(root.defined() ? at::matmul(root, error) : error, rank);
  if (inverse.defined()) down = at::matmul(inverse, down);
  const auto floats = [](const at::Tensor& values) {
    const at::Tensor rows = values.to(at::kFloat).t().contiguous();
    return std::vector<float>(rows.const_data_ptr<float>(), rows.const_data_ptr<float>() + rows.numel());
  };
  update.down = floats(down);
  update.up = floats(up / static_cast<double>(update.scale));
}

}  // namespace

Adapter started_adapter(const LanguageRequest& request, Adapter fresh,
                        const std::vector<std::vector<at::Tensor>>& samples) {
  const AdapterStart start = request.recovery->start;
  if (!begins_elsewhere(start)) return fresh;
  const torch::NoGradGuard no_gradients;
  std::map<std::string, LowRankUpdate*> updates;
  for (LowRankUpdate& update : fresh.updates) updates[update.module + ".weight"] = &update;
  if (start == AdapterStart::kSvd) {
    for (auto& [matrix, update] : updates) {
      check_interrupt();
      begin_at_error(request, {}, *update);
    }
    return fresh;
  }
  // Layer by layer: the moments of all of them together would take more memory than the network.
  const PartInputs inputs(request.recovery->base, samples);
  std::vector<at::Tensor> states(samples.size());
  for (const Graph& part : inputs.layers()) {
    check_interrupt();
    const libtorch::GraphModule module(part, {.codes = libtorch::Codes::kKept});
    Moments moments;
    for (const graph::LinearProduct& product : graph::linear_products(part))
      if (updates.contains(product.weight)) moments[product.weight];
    for (std::size_t i = 0; i < samples.size(); ++i)
      add_moments(part, inputs.of(part, i, states[i]), module, moments, states[i]);
    for (const auto& [matrix, sum] : moments) begin_at_error(request, sum, *updates.at(matrix));
  }
  return fresh;
}

}  // namespace crumb::tasks
