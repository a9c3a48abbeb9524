// The layers of a network whose weights can be rounded by what samples bring to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/quantize/plan.h"
#include "graph/window.h"
#include "ptq/samples/second_moments.h"

namespace crumb::ptq {

/// A layer y = W x with a constant W that nobody else takes: MatMul and Gemm of a constant matrix, and Conv,
/// where x is what a window shows; both products of an LSTM, GRU or RNN. W's rows are outputs; a convolution
/// of several groups has as many rows for each, with an x of its own.
struct SampledLayer {
  std::size_t constant = 0;  ///< of the plan
  std::size_t node = 0;
  std::string input;        ///< the value that x comes from; one that the node makes, where x is its state
  std::size_t groups = 1;   ///< of a convolution
  std::size_t rows = 0;     ///< of a group
  std::size_t columns = 0;  ///< of x
  bool is_window = false;

  /// Whether both have the same x.
  bool takes_like(const SampledLayer& other, const graph::Graph& graph) const;
};

/// Those of the plan's constants that become codes, in the graph's order; where `open`, those that have none
/// yet.
std::vector<SampledLayer> sampled_layers(const graph::Graph& graph, const graph::QuantPlan& plan,
                                         bool open = true);

/// Products inside of recurrent nodes of one direction that have no codes yet, in the graph's order: of what
/// the node takes, and of its state, which is what it makes, a step later. Of a GRU whose gate stands before
/// the state's product only the first.
std::vector<SampledLayer> recurrent_layers(const graph::Graph& graph, const graph::QuantPlan& plan);

/// All that have none yet: sampled_layers(), and recurrent_layers() behind them.
std::vector<SampledLayer> open_layers(const graph::Graph& graph, const graph::QuantPlan& plan);

/// What a value brings to a layer, a block of samples at a time: the windows of a large image together can be
/// a hundred times as large as the image.
class BroughtSamples {
 public:
  /// Throws Error where the shapes do not fit.
  BroughtSamples(const graph::Node& node, const graph::Graph& graph, const SampledLayer& layer,
                 const graph::Tensor& value);

  /// Samples that stand beside each other in the value: an image's windows; of a product all, in one part.
  std::size_t parts() const { return parts_; }
  std::size_t samples() const { return samples_; }  ///< of each part, for each group

  /// Samples from `begin` on of one part and group; `columns` holds what comes back until the next call.
  SampleColumns read(std::size_t part, std::size_t group, std::size_t begin, std::size_t count,
                     std::vector<float>& columns, int threads = 1);

  /// How many samples of so many numbers are read at a time: in 16 MB, whole pieces of those that
  /// add_moments() adds in float32, one at least.
  static std::size_t block_of(std::size_t columns);

 private:
  void read_rows(std::size_t begin, std::size_t count, std::vector<float>& columns, int threads) const;
  void find_places(std::size_t begin, std::size_t count);

  std::vector<float> values_;
  std::size_t size_ = 0, parts_ = 1, samples_ = 0;
  std::size_t groups_ = 1, channels_ = 0, plane_ = 0, taps_ = 0;  ///< of windows
  std::optional<graph::Window> window_;
  std::vector<std::int64_t> places_;   ///< where each tap of each place lies in a plane; -1 in the padding
  std::size_t first_ = 0, count_ = 0;  ///< samples that places_ are of
};

/// Calls `visit` with each block, part by part, group by group.
void visit_samples(const graph::Node& node, const graph::Graph& graph, const SampledLayer& layer,
                   const graph::Tensor& value,
                   const std::function<void(std::size_t group, const SampleColumns&)>& visit);

}  // namespace crumb::ptq
