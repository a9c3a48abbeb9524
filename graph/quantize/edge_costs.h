// What quantizers of activations cost the outputs of a network, each alone, measured on a few samples.
//
// The float network runs once and its values are kept. For quantizers on some values, nothing but the nodes behind these runs
// again, from what was kept. A cost is noise over signal, sum (y - y')^2 / sum y^2 of an output y and y' with the quantizers, of
// the output where it is largest: 10^(-SQNR / 10). Costs of quantizers that stand at different places add up, roughly: what they
// change is small and goes different ways.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/engine.h"
#include "graph/quantize/calibrate.h"
#include "graph/quantize/plan.h"

namespace crumb::graph {

/// The first samples of a batch, at most so many, as a graph takes them: all of the batch where it cannot be cut.
std::vector<Tensor> first_samples(const Graph& graph, const std::vector<Tensor>& inputs, std::int64_t most);

class EdgeCosts {
 public:
  /// Runs the network on one set of inputs. `see`: is shown every float32 value on the way, or empty. Values are kept as long as
  /// they take no more than kMostBytes; of larger networks every cost is a whole run. Graph and engine must outlive this.
  EdgeCosts(const Graph& graph, const Engine& engine, std::vector<Tensor> inputs,
            const std::function<void(const std::string& value, const Tensor& made)>& see = {});
  ~EdgeCosts();

  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;

  /// Of quantizers together: calibrated edges of a plan for this graph, none of which is a truncation. Infinite where an output
  /// is no longer finite, or has another shape.
  double of(const std::vector<PlannedEdge>& edges) const;

  /// The share of the network's nodes that `of` runs: how long it takes, compared to a run of the network.
  double share_of(const std::vector<PlannedEdge>& edges) const;

 private:
  class Network;
  std::unique_ptr<Network> network_;
};

}  // namespace crumb::graph
