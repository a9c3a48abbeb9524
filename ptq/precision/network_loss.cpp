#include "ptq/precision/network_loss.h"

#include <cmath>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "base/files/interrupt.h"
#include "graph/quantize/calibrate.h"
#include "ptq/precision/quantized_network.h"
#include "runtime/session.h"

namespace crumb::ptq {
namespace {

using graph::Graph;
using graph::Tensor;

struct OutputLoss {
  double lost = 0, all = 0;
  bool is_broken = false;

  void add(const Tensor& meant, const Tensor& made) {
    const std::vector<float> a = meant.to_floats(), b = made.to_floats();
    is_broken = is_broken || a.size() != b.size();
    for (std::size_t i = 0; i < a.size() && !is_broken; ++i) {
      if (!std::isfinite(a[i])) continue;  // excluded: its error is not defined
      is_broken = !std::isfinite(b[i]);
      lost += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
      all += std::pow(static_cast<double>(a[i]), 2);
    }
  }

  double share() const {
    if (is_broken) return std::numeric_limits<double>::infinity();
    return all > 0 ? lost / all : (lost > 0 ? 1 : 0);
  }
};

/// Returns the indices of outputs that are results.
std::vector<std::size_t> result_indices(const Graph& graph) {
  std::set<std::string> kept;
  for (const runtime::Tie& tie : runtime::find_ties(graph)) kept.insert(tie.present);
  std::vector<std::size_t> results;
  for (std::size_t i = 0; i < graph.outputs.size(); ++i)
    if (!kept.contains(graph.outputs[i])) results.push_back(i);
  return results;
}

/// Whether the float network is in memory anyway, so that a second copy does not matter.
bool lies_in_memory(const Setting& setting) {
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : setting.graph.initializers) {
    if (tensor.is_unread()) return false;
    bytes += tensor.byte_count();
  }
  return bytes <= setting.memory;
}

}  // namespace

std::optional<double> network_loss(Setting& setting, std::size_t most) {
  const std::vector<std::size_t> results = result_indices(setting.graph);
  if (results.empty() || !lies_in_memory(setting)) return std::nullopt;
  if (setting.plan.needs_calibration())
    graph::calibrate(setting.graph, *setting.engine, setting.samples, setting.plan);
  Setting now = setting;  // in which constants without codes are rounded
  const auto meant = setting.engine->prepare(setting.graph),
             made = setting.engine->prepare(quantized_network(now, true).graph);
  std::vector<OutputLoss> losses(results.size());
  std::vector<bool> is_float(results.size(), true);
  std::size_t seen = 0;
  setting.samples([&](const std::vector<Tensor>& inputs) {
    if (seen++ >= most) return;
    check_interrupt();
    const std::vector<Tensor> expected = meant->run(inputs), found = made->run(inputs);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Tensor &a = expected[results[i]], &b = found[results[i]];
      is_float[i] = is_float[i] && a.type() == graph::ElementType::kFloat && b.type() == a.type();
      if (is_float[i]) losses[i].add(a, b);
    }
  });
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!is_float[i]) continue;
    sum += losses[i].share();
    ++count;
  }
  return count > 0 ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
}

}  // namespace crumb::ptq
