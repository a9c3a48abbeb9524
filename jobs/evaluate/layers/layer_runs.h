// Runs samples through networks, and says how far their results are from the baseline's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/batch_axes.h"
#include "graph/engine.h"
#include "graph/quantize/calibrate.h"
#include "jobs/evaluate/layers/layered_network.h"
#include "quant/distortion.h"

namespace crumb::jobs {

/// Makes a graph ready for the engine that was asked for.
using PrepareGraph = std::function<std::unique_ptr<graph::Executable>(const graph::Graph&)>;

/// The samples that layers are measured on, as the baseline takes them.
struct LayerSamples {
  std::vector<std::vector<graph::Tensor>> pieces;  ///< inputs that run together
  std::size_t count = 0;
};

/// The number of samples that the graph takes at a time, by its first input; nothing where that is open.
std::optional<std::int64_t> fixed_batch(const graph::Graph& graph, const graph::BatchAxes& axes);

/// Takes the first `most` samples; more where a network takes a fixed number together. Where the baseline's
/// number is open, a piece has `together` samples at most; with `exactly` always so many: the last ones that
/// do not fill a piece are left out, and a first piece with fewer repeats its last sample.
LayerSamples take_samples(const graph::Batches& batches, const graph::Graph& graph,
                          const graph::BatchAxes& axes, std::size_t most, std::int64_t together,
                          bool exactly);

/// How far results are from the baseline's: of its floating outputs, but for the keys and values that a
/// decoder keeps.
class ResultLoss {
 public:
  explicit ResultLoss(const graph::Graph& baseline);

  /// `found`: nothing for an output that equals the baseline's.
  void add(const std::vector<graph::Tensor>& expected,
           const std::vector<std::optional<graph::Tensor>>& found);
  /// Of one output its SQNR, of several that of the mean of their noise over signal; nothing where there are
  /// no such outputs.
  std::optional<double> sqnr_db() const;

 private:
  std::vector<std::size_t> outputs_;
  std::vector<DistortionSum> sums_;
  std::vector<bool> counts_;
};

/// What the baseline computes for the samples: as much of it is kept as fits, the rest is computed anew.
class BaselineRuns {
 public:
  /// Keeps `bytes` at most. The others must outlive this.
  BaselineRuns(const LayeredNetwork& baseline, const LayerSamples& samples, const PrepareGraph& prepare,
               std::uint64_t bytes);

  /// Keeps values for every piece, those of the first sets first, as long as whole sets fit. The results come
  /// before them.
  void keep(const std::vector<std::set<std::string>>& wanted);
  /// Whether all of these values are kept.
  bool has(const std::set<std::string>& values) const;
  const graph::Tensor& value(std::size_t piece, const std::string& name) const {
    return kept_[piece].at(name);
  }

  /// Results of a piece, in the order of the outputs.
  std::vector<graph::Tensor> results(std::size_t piece) const;
  /// Runs a piece and returns these values, by name. Values that the engine does not show are missing.
  std::map<std::string, graph::Tensor> values(std::size_t piece, const std::set<std::string>& wanted) const;
  /// Bytes of a value in the first piece; 0 where they are not known.
  std::uint64_t bytes_of(const std::string& value) const;
  void measure(const std::set<std::string>& values);  ///< finds bytes_of these

 private:
  const LayerSamples& samples_;
  std::unique_ptr<graph::Executable> executable_;
  std::uint64_t bytes_;
  std::map<std::string, std::uint64_t> sizes_;
  std::vector<std::map<std::string, graph::Tensor>> kept_;  ///< by piece
  std::set<std::string> names_;
  std::vector<std::vector<graph::Tensor>> results_;  ///< by piece; empty where they are not kept
};

}  // namespace crumb::jobs
