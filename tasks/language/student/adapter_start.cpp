#include "tasks/language/student/adapter_start.h"

#include <ATen/ATen.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "libtorch/execute/graph_module.h"
#include "tasks/language/student/part_values.h"

namespace crumb::tasks {
namespace {

using graph::Graph;
using Moments = std::map<std::string, at::Tensor>;  ///< float64 [in, in], by the layer's matrix

constexpr std::int64_t kMostRanks = 8;  ///< the most that a layer's rank by errors is, as a multiple of the
                                        ///< even rank
constexpr double kDamping = 1e-6;  ///< times the mean second moment: inputs that never vary have a root, too

at::Tensor value_of(const Graph& graph, const std::string& constant) {
  if (const auto coded = graph.quantized.find(constant); coded != graph.quantized.end())
    return libtorch::to_typed(coded->second.value()).tensor;
  const graph::Tensor* tensor = graph.constant(constant);
  if (!tensor) throw Error("the float network has no matrix " + quote_text(constant));
  return libtorch::to_typed(*tensor).tensor;
}

/// Returns R^1/2 and R^-1/2 of a symmetric matrix, whose roots are damped.
std::pair<at::Tensor, at::Tensor> roots_of(const at::Tensor& moments) {
  const auto [values, vectors] = at::linalg_eigh(moments);
  const double least = kDamping * std::max(values.mean().item<double>(), 1e-30);
  const at::Tensor damped = values.clamp_min(least);
  return {at::matmul(vectors * damped.pow(0.5), vectors.t()),
          at::matmul(vectors * damped.pow(-0.5), vectors.t())};
}

/// U [in, rank] and V [rank, out], whose product is the nearest to the matrix; both hold the roots of its
/// largest singular values. Also these values squared, the largest first. The first r columns of U and rows
/// of V are the nearest of rank r.
struct Nearest {
  at::Tensor down, up, squares;
};

Nearest nearest(const at::Tensor& matrix, std::int64_t rank) {
  const bool is_wide = matrix.size(0) <= matrix.size(1);
  const at::Tensor gram = is_wide ? at::matmul(matrix, matrix.t()) : at::matmul(matrix.t(), matrix);
  const auto [values, vectors] = at::linalg_eigh(gram);  // ascending
  const std::int64_t size = values.size(0);
  const at::Tensor first = vectors.narrow(1, size - rank, rank).flip(1);
  const at::Tensor squares = values.narrow(0, size - rank, rank).flip(0).clamp_min(0),
                   roots = squares.pow(0.25);
  const at::Tensor inverse = at::where(roots > 0, roots.reciprocal(), 0.0);
  if (is_wide) return {first * roots, at::matmul((first * inverse).t(), matrix), squares};
  return {at::matmul(matrix, first * inverse), (first * roots).t(), squares};
}

/// Adds up the second moments of the inputs of a part's products over samples; returns the part's outputs.
std::vector<at::Tensor> add_moments(const Graph& part, const std::vector<at::Tensor>& inputs,
                                    const libtorch::GraphModule& module, Moments& moments) {
  std::map<std::string, std::vector<std::string>> matrices;  // by the value that they multiply
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
  return libtorch::tensors_of(outputs);
}

/// The directions of a layer's error, the largest first, and how much each would win, relative to the layer's
/// output.
struct ErrorDirections {
  at::Tensor down, up;  ///< [in, most], [most, out]
  std::vector<double> gains;
};

ErrorDirections directions_of(const LanguageRequest& request, const at::Tensor& moments,
                              const LowRankUpdate& update, std::int64_t most) {
  const std::string matrix = update.module + ".weight";
  const at::Tensor meant = value_of(request.network, matrix).to(at::kDouble),
                   kept = value_of(request.recovery->base, matrix).to(at::kDouble);
  if (meant.sizes() != kept.sizes())
    throw Error("the float network's matrix " + quote_text(matrix) + " has shape " + c10::str(meant.sizes()) +
                ", the quantized one's " + c10::str(kept.sizes()));
  const auto [root, inverse] = moments.defined() ? roots_of(moments) : std::pair<at::Tensor, at::Tensor>();
  const auto seen = [&](const at::Tensor& x) { return root.defined() ? at::matmul(root, x) : x; };
  Nearest found = nearest(seen(meant - kept), std::min({most, meant.size(0), meant.size(1)}));
  if (inverse.defined()) found.down = at::matmul(inverse, found.down);
  const double all = std::max(seen(meant).pow(2).sum().item<double>(), 1e-300);
  ErrorDirections directions{.down = found.down, .up = found.up, .gains = {}};
  for (std::int64_t i = 0; i < found.squares.numel(); ++i)
    directions.gains.push_back(found.squares[i].item<double>() / all);
  return directions;
}

/// Returns the rank of each layer by AdapterRanks::kError.
std::map<std::string, std::size_t> ranks_by_error(const Adapter& even,
                                                  const std::map<std::string, ErrorDirections>& directions) {
  struct Step {
    double worth;  ///< gain for each weight of the adapter
    std::string module;
    std::size_t weights;
  };
  std::vector<Step> steps;
  std::map<std::string, std::size_t> ranks;
  std::size_t left = 0;
  for (const LowRankUpdate& update : even.updates) {
    if (!directions.contains(update.module)) continue;  // outside of the parts: its inputs are not seen
    const std::size_t weights = update.in + update.out;
    left += (update.rank - 1) * weights;
    ranks[update.module] = 1;
    const std::vector<double>& gains = directions.at(update.module).gains;
    for (std::size_t i = 1; i < gains.size(); ++i)
      steps.push_back({gains[i] / static_cast<double>(weights), update.module, weights});
  }
  // Within a layer worths fall, so that its first directions come first.
  std::ranges::stable_sort(steps, std::greater(), &Step::worth);
  for (const Step& step : steps) {
    if (step.weights > left) break;
    left -= step.weights;
    ++ranks[step.module];
  }
  return ranks;
}

/// Where an error has fewer directions than the rank, those of a fresh adapter fill in; their product is 0.
/// Zeros in both factors would never learn.
void take(const ErrorDirections& directions, std::size_t rank, LowRankUpdate& update) {
  const auto floats = [](const at::Tensor& values) {
    const at::Tensor rows = values.to(at::kFloat).t().contiguous();
    return std::vector<float>(rows.const_data_ptr<float>(), rows.const_data_ptr<float>() + rows.numel());
  };
  const auto count = static_cast<std::int64_t>(rank);
  const std::vector<float> fresh = std::exchange(update.down, floats(directions.down.narrow(1, 0, count)));
  for (std::size_t i = 0; i < rank; ++i) {
    const auto row = update.down.begin() + static_cast<std::ptrdiff_t>(i * update.in);
    const bool is_empty =
        std::all_of(row, row + static_cast<std::ptrdiff_t>(update.in), [](float x) { return x == 0; });
    if (is_empty)
      std::copy_n(fresh.begin() + static_cast<std::ptrdiff_t>(i % update.rank * update.in), update.in, row);
  }
  update.rank = rank;
  update.up = floats(directions.up.narrow(0, 0, count) / static_cast<double>(update.scale));
}

/// Returns the directions of each of the adapter's layers, by module.
std::map<std::string, ErrorDirections> error_directions(const LanguageRequest& request, const Adapter& fresh,
                                                        const std::vector<std::vector<at::Tensor>>& samples) {
  const bool is_even = request.recovery->ranks == AdapterRanks::kEven;
  std::map<std::string, const LowRankUpdate*> updates;
  for (const LowRankUpdate& update : fresh.updates) updates[update.module + ".weight"] = &update;
  std::map<std::string, ErrorDirections> found;
  const auto add = [&](const std::string& matrix, const at::Tensor& moments) {
    check_interrupt();
    const LowRankUpdate& update = *updates.at(matrix);
    const auto rank = static_cast<std::int64_t>(update.rank);
    found[update.module] = directions_of(request, moments, update, is_even ? rank : kMostRanks * rank);
  };
  if (request.recovery->start == AdapterStart::kSvd) {
    for (const auto& [matrix, update] : updates) add(matrix, {});
    return found;
  }
  // Goes layer by layer: the moments of all layers together would take more memory than the network.
  std::vector<PartValues::Named> batches(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i)
    for (std::size_t k = 0; k < samples[i].size(); ++k)
      batches[i][request.recovery->base.inputs.at(k)] = samples[i][k];
  PartValues values(request.recovery->base, std::move(batches));
  for (std::size_t layer = 0; layer < values.parts(); ++layer) {
    check_interrupt();
    const Graph& part = values.graph(layer);
    const libtorch::GraphModule module(part, {.codes = libtorch::Codes::kKept});
    Moments moments;
    for (const graph::LinearProduct& product : graph::linear_products(part))
      if (updates.contains(product.weight)) moments[product.weight];
    for (std::size_t i = 0; i < samples.size(); ++i)
      values.put(layer, i, add_moments(part, values.inputs(layer, i), module, moments));
    for (const auto& [matrix, sum] : moments) add(matrix, sum);
  }
  return found;
}

}  // namespace

Adapter started_adapter(const LanguageRequest& request, Adapter fresh,
                        const std::vector<std::vector<at::Tensor>>& samples) {
  if (!begins_elsewhere(request.recovery->start)) return fresh;
  const torch::NoGradGuard no_gradients;
  const std::map<std::string, ErrorDirections> directions = error_directions(request, fresh, samples);
  std::map<std::string, std::size_t> ranks;
  if (request.recovery->ranks == AdapterRanks::kError) ranks = ranks_by_error(fresh, directions);
  for (LowRankUpdate& update : fresh.updates)
    if (const auto found = directions.find(update.module); found != directions.end())
      take(found->second, ranks.empty() ? update.rank : ranks.at(update.module), update);
  return fresh;
}

}  // namespace crumb::tasks
