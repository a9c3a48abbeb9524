#include "ptq/rounding/shared_matrices.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/files/interrupt.h"
#include "graph/adapters.h"
#include "ptq/matrices/weight_rows.h"
#include "ptq/rounding/output_error.h"
#include "ptq/samples/sample_stream.h"

namespace crumb::ptq {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using graph::Graph;
using graph::LinearProduct;
using graph::Node;

/// Returns the constant's uses, if there are at least two, all of them products and look-ups.
std::optional<SharedMatrix> shared_by(const std::vector<LinearProduct>& products, const Graph& graph,
                                      const graph::Links& links, std::size_t constant,
                                      const graph::PlannedConstant& planned) {
  const auto uses = links.consumers(planned.value);
  if (uses.size() < 2 || products.empty() || links.is_output(planned.value)) return std::nullopt;
  SharedMatrix matrix;
  for (const LinearProduct& product : products) {
    const std::string& input = graph.nodes[product.node].inputs[0];
    const bool is_alike = (planned.axes.output == 0) == product.is_transposed && input != planned.value;
    if (!is_alike || product.in == 0 || product.out == 0) return std::nullopt;
    matrix.products.push_back({.constant = constant,
                               .node = product.node,
                               .input = input,
                               .rows = product.out,
                               .columns = product.in});
  }
  for (const std::size_t use : uses) {
    if (std::ranges::find(products, use, &LinearProduct::node) != products.end()) continue;
    const Node& node = graph.nodes[use];
    if (!node.is("Gather") || node.inputs[0] != planned.value) return std::nullopt;
    matrix.is_looked_up = true;
  }
  return matrix;
}

/// Returns moments for each product, by its node.
std::map<std::size_t, LayerMoments> float_moments(const std::vector<SharedMatrix>& matrices,
                                                  const Setting& setting,
                                                  const std::vector<SampledLayer>& layers, bool even) {
  std::vector<SampledLayer> stops = layers;
  std::map<std::size_t, LayerMoments> found;
  for (const SharedMatrix& matrix : matrices)
    for (const SampledLayer& product : matrix.products) {
      stops.push_back(product);
      found[product.node];
    }
  const std::vector<Station> stations = stations_of(setting.graph, stops);
  SampleStream stream(setting.graph, stations, *setting.engine, setting.memory / 2);
  for (const Station& station : stations) {
    Station shared;
    for (const SampledLayer& layer : station.layers)
      if (found.contains(layer.node)) shared.layers.push_back(layer);
    StationMoments moments(setting.graph, shared, false, even);
    stream.advance();
    setting.samples([&](const std::vector<graph::Tensor>& sample) {
      check_interrupt();
      const auto brought = stream.run(sample);
      moments.add(brought, brought, setting.threads);
    });
    for (const SampledLayer& layer : shared.layers) found[layer.node] = moments.take(layer);
  }
  return found;
}

}  // namespace

std::vector<SharedMatrix> shared_matrices(const Graph& graph, const graph::QuantPlan& plan) {
  std::map<std::string, std::vector<LinearProduct>> products;
  for (LinearProduct& product : graph::linear_products(graph, true))
    products[product.weight].push_back(std::move(product));
  const graph::Links links(graph);
  std::vector<SharedMatrix> matrices;
  for (std::size_t i = 0; i < plan.constants.size(); ++i) {
    const graph::PlannedConstant& planned = plan.constants[i];
    if (!planned.spec || planned.rounded) continue;
    if (std::optional<SharedMatrix> matrix = shared_by(products[planned.value], graph, links, i, planned))
      matrices.push_back(std::move(*matrix));
  }
  return matrices;
}

std::vector<LayerMoments> moments_of(const std::vector<SharedMatrix>& matrices, const Setting& setting,
                                     const std::vector<SampledLayer>& layers, bool even) {
  std::map<std::size_t, LayerMoments> found = float_moments(matrices, setting, layers, even);
  std::vector<LayerMoments> all;
  for (const SharedMatrix& matrix : matrices) {
    const graph::PlannedConstant& planned = setting.plan.constants[matrix.constant()];
    const WeightRows rows = weight_rows(setting.graph.initializers.at(planned.value), planned.axes);
    const auto size = static_cast<Index>(matrix.products.front().columns);
    MatrixXd sum = MatrixXd::Zero(size, size);
    const auto add = [&](const MatrixXd& moments, double weight) {
      const double squares = output_squares(rows.values, moments, setting.threads);
      if (squares != 0) sum += weight / squares * moments;  // sums that are not finite stay so
    };
    std::uint64_t samples = 0;
    for (const SampledLayer& product : matrix.products) {
      const LayerMoments sums = std::exchange(found.at(product.node), {});
      samples = std::max(samples, sums.samples);
      add(sums.moments.front(), 1);
    }
    if (matrix.is_looked_up && !sum.isZero(0)) add(MatrixXd::Identity(size, size), kLookUps);
    all.push_back({.moments = {std::move(sum)}, .cross = {}, .samples = samples});
  }
  return all;
}

}  // namespace crumb::ptq
