// Measures on a few samples what each activation quantizer alone costs the outputs of a network.
//
// The float network runs once and its values are kept. For quantizers on some values only the nodes behind
// these run again, from the kept values. A cost is noise over signal, sum (y - y')^2 / sum y^2 of an output y
// and y' with the quantizers, the largest over the outputs: 10^(-SQNR / 10). Costs of quantizers at different
// edges add up, roughly: their errors are small and uncorrelated.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/batch_axes.h"
#include "graph/engine.h"
#include "graph/quantize/calibrate.h"
#include "graph/quantize/plan.h"

namespace crumb::graph {

/// Returns the first samples of a batch, at most `most`, as a graph takes them; all of the batch if it cannot
/// be split. `axes`: where inputs have samples.
std::vector<Tensor> first_samples(const Graph& graph, const std::vector<Tensor>& inputs, std::int64_t most,
                                  const BatchAxes& axes);

class EdgeCosts {
 public:
  /// Runs the network on one set of inputs. `see`, if not empty, is called with every float32 value. Values
  /// are kept if they take no more than kMostBytes together; in larger networks every cost takes a whole run.
  /// Graph and engine must outlive this.
  EdgeCosts(const Graph& graph, const Engine& engine, std::vector<Tensor> inputs,
            const std::function<void(const std::string& value, const Tensor& made)>& see = {});
  ~EdgeCosts();

  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;

  /// Returns the joint cost of quantizers: calibrated edges of a plan for this graph, none of them a
  /// truncation. Infinite where an output is no longer finite, or has another shape.
  double of(const std::vector<PlannedEdge>& edges) const;

  /// Returns the share of the network's nodes that of() runs, an estimate of its time in runs of the network.
  double share_of(const std::vector<PlannedEdge>& edges) const;

 private:
  class Network;
  std::unique_ptr<Network> network_;
};

}  // namespace crumb::graph
