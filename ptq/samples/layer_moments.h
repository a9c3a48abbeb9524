// Sums, over samples, of products of the inputs of a station's layers.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ptq/samples/sample_stream.h"

namespace crumb::ptq {

/// The sums of one group of a convolution, for each group.
struct LayerMoments {
  std::vector<Eigen::MatrixXd> moments;  ///< sum x x^T
  std::vector<Eigen::MatrixXd> cross,    ///< sum y x^T, y being the float network's x; empty if not requested
      apart;                             ///< sum (y - x) (y - x)^T, if requested
  bool of_numbers = false;               ///< no x and no y was inf or NaN
  std::uint64_t samples = 0;             ///< in each group's sums
};

/// Returns how the samples spoiled sums, such as "holds inf or NaN on the samples"; empty if all are finite.
std::string fault_of(const LayerMoments& sums);

class StationMoments {
 public:
  /// Keeps references to both. with_cross: add() also gets the float network's values. even: an x whose norm
  /// exceeds the median of the nonzero norms around it (of its window, of its image) is scaled to that
  /// median: the first token of a text can be hundreds of times as large as the others.
  StationMoments(const graph::Graph& graph, const Station& station, bool with_cross, bool even = false);

  /// Adds a sample's values, by name, in the quantized and in the float network.
  void add(const std::map<std::string, graph::Tensor>& brought,
           const std::map<std::string, graph::Tensor>& floats, int threads);

  /// Returns the sums of one of the station's layers. Layers with the same input share them.
  const LayerMoments& of(const SampledLayer& layer) const;
  /// Does the same, and frees the sums when each layer that shares them took them. Precondition: each takes
  /// once.
  LayerMoments take(const SampledLayer& layer);

 private:
  struct Inputs {
    SampledLayer like;
    LayerMoments sums;
    std::size_t layers = 1;  ///< that have not taken the sums yet
  };

  /// Adds one part and group of both networks' values; `others` is null if the float one's are not requested.
  void add(Inputs& one, BroughtSamples& mine, BroughtSamples* others, std::size_t part, std::size_t group,
           int threads);
  std::size_t index_of(const SampledLayer& layer) const;

  const graph::Graph& graph_;
  bool with_cross_, even_;
  std::vector<Inputs> all_;
};

}  // namespace crumb::ptq
