#include "ptq/rounding/affordable_samples.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "graph/facts/bind_shapes.h"
#include "ptq/rounding/shared_matrices.h"
#include "ptq/samples/sampled_layers.h"

namespace crumb::ptq {
namespace {

using graph::Graph;
using graph::Tensor;
using Shapes = std::map<std::string, std::vector<std::int64_t>>;

/// Returns the multiplications of one batch: of each sample of a layer with its weights in both networks,
/// with itself, with the float network's sample, and of their difference with itself.
double work_of(const Graph& graph, const std::vector<SampledLayer>& layers, const Shapes& shapes) {
  Graph bound;
  try {
    bound = graph::bind_shapes(graph, shapes);
  } catch (const Error&) {  // running reports it better
    return 0;
  }
  double work = 0;
  for (const SampledLayer& layer : layers) {
    const auto shape = bound.shape_of(graph.nodes[layer.node].outputs[0]);
    if (!shape) continue;
    double outputs = 1;
    for (const graph::Dim& dim : *shape) outputs *= static_cast<double>(std::max<std::int64_t>(dim.size, 0));
    const auto rows = static_cast<double>(layer.rows), columns = static_cast<double>(layer.columns);
    work += outputs / rows * columns * 2 * (columns + rows);
  }
  return work;
}

}  // namespace

bool has_open_layers(const Setting& setting) {
  return !open_layers(setting.graph, setting.plan).empty() ||
         !shared_matrices(setting.graph, setting.plan).empty() ||
         !branch_layers(setting.graph, setting.plan).empty();
}

AffordableSamples affordable_samples(const Setting& setting, double most) {
  std::vector<SampledLayer> layers = open_layers(setting.graph, setting.plan);
  std::ranges::move(branch_layers(setting.graph, setting.plan), std::back_inserter(layers));
  std::map<Shapes, double> known;
  double work = 0;
  AffordableSamples found;
  setting.samples([&](const std::vector<Tensor>& inputs) {
    check_interrupt();
    Shapes shapes;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      shapes.emplace(setting.graph.inputs[i], inputs[i].shape());
    const auto place = known.find(shapes);
    work += place != known.end() ? place->second : (known[shapes] = work_of(setting.graph, layers, shapes));
    if (found.all++ == 0 || work <= most) ++found.taken;
  });
  found.batches = [samples = setting.samples, count = found.taken](const auto& batch) {
    std::size_t seen = 0;
    samples([&](const std::vector<Tensor>& inputs) {
      if (seen++ < count) batch(inputs);
    });
  };
  return found;
}

}  // namespace crumb::ptq
