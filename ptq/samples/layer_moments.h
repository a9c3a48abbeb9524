// What the layers at a station take in, summed over samples.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ptq/samples/sample_stream.h"

namespace crumb::ptq {

/// For each group of a convolution.
struct LayerMoments {
  std::vector<Eigen::MatrixXd> moments;  ///< sum x x^T
  std::vector<Eigen::MatrixXd>
      cross,                  ///< sum y x^T, y being the float network's x; empty where there is none
      apart;                  ///< sum (y - x) (y - x)^T, where there are such
  bool of_numbers = false;    ///< it is known that no x and no y was inf or NaN
  std::uint64_t samples = 0;  ///< that were summed, of each group
};

/// What of the samples spoiled sums, as in "holds inf or NaN on the samples"; empty where all are finite.
std::string fault_of(const LayerMoments& sums);

class StationMoments {
 public:
  /// Keeps references to both. with_cross: add() gets what the float network brings, too. even: an x of more than the median
  /// norm of those beside it (a window's, an image's) that are not 0 counts as if it had that: the first token of a text can be hundreds of
  /// times as large as the others.
  StationMoments(const graph::Graph& graph, const Station& station, bool with_cross, bool even = false);

  /// A sample's values, by name, in the network that is quantized and in floats.
  void add(const std::map<std::string, graph::Tensor>& brought,
           const std::map<std::string, graph::Tensor>& floats, int threads);

  /// Of one of the station's layers. Layers that take the same have one.
  const LayerMoments& of(const SampledLayer& layer) const;
  /// The same, given away when each of the layers that have them took them. Precondition: each takes once.
  LayerMoments take(const SampledLayer& layer);

 private:
  struct Inputs {
    SampledLayer like;
    LayerMoments sums;
    std::size_t layers = 1;  ///< that have not taken them
  };

  /// Of one part and group of what both networks bring; others: null where the float one's is not asked for.
  void add(Inputs& one, BroughtSamples& mine, BroughtSamples* others, std::size_t part, std::size_t group,
           int threads);
  std::size_t place_of(const SampledLayer& layer) const;

  const graph::Graph& graph_;
  bool with_cross_, even_;
  std::vector<Inputs> all_;
};

}  // namespace crumb::ptq
