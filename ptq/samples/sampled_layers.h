// The layers of a network whose weights can be rounded by their inputs on samples.
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

/// A layer y = W x outside of branches (graph/choose.h), or of branch_layers() inside of one, with a constant
/// W that no other node takes: MatMul and Gemm of a constant matrix; Conv, where x is a window; both products
/// of an LSTM, GRU or RNN. Rows of W are outputs; each group of a convolution has as many rows, with its own
/// x.
struct SampledLayer {
  std::size_t constant = 0;  ///< index in the plan
  std::size_t node = 0;
  std::string input;        ///< the value with x; an output of the node, if x is its state
  std::size_t groups = 1;   ///< of a convolution
  std::size_t rows = 0;     ///< of a group
  std::size_t columns = 0;  ///< size of x
  bool is_window = false;

  /// Whether both layers have the same x.
  bool takes_like(const SampledLayer& other, const graph::Graph& graph) const;
};

/// Returns the plan's constants that become codes, in the graph's order; with `open`, only those without
/// codes yet.
std::vector<SampledLayer> sampled_layers(const graph::Graph& graph, const graph::QuantPlan& plan,
                                         bool open = true);

/// Returns the products inside recurrent nodes of one direction that have no codes yet, in the graph's order:
/// of the node's input, and of its state, which is its output one step later. Of a GRU whose reset gate
/// precedes the state's product only the first.
std::vector<SampledLayer> recurrent_layers(const graph::Graph& graph, const graph::QuantPlan& plan);

/// Returns all layers without codes yet: sampled_layers(), then recurrent_layers().
std::vector<SampledLayer> open_layers(const graph::Graph& graph, const graph::QuantPlan& plan);

/// Returns the same layers without codes yet of the branches of Ifs, to which not every sample comes.
std::vector<SampledLayer> branch_layers(const graph::Graph& graph, const graph::QuantPlan& plan);

/// Reads a layer's inputs from a value, a block of samples at a time: the windows of a large image together
/// can be a hundred times as large as the image.
class BroughtSamples {
 public:
  /// Throws Error where the shapes do not fit.
  BroughtSamples(const graph::Node& node, const graph::Graph& graph, const SampledLayer& layer,
                 const graph::Tensor& value);

  /// Parts are samples that belong together: an image's windows; all samples of a product are one part.
  std::size_t parts() const { return parts_; }
  std::size_t samples() const { return samples_; }  ///< of each part, for each group

  /// Returns samples from `begin` on of one part and group; `columns` holds the result until the next call.
  SampleColumns read(std::size_t part, std::size_t group, std::size_t begin, std::size_t count,
                     std::vector<float>& columns, int threads = 1);

  /// Returns how many samples of that many numbers to read at a time: 16 MB of them, in multiples of
  /// kSamplesAdded, at least one.
  static std::size_t block_of(std::size_t columns);

 private:
  void read_rows(std::size_t begin, std::size_t count, std::vector<float>& columns, int threads) const;
  void find_offsets(std::size_t begin, std::size_t count);

  std::vector<float> values_;
  std::size_t size_ = 0, parts_ = 1, samples_ = 0;
  std::size_t groups_ = 1, channels_ = 0, plane_ = 0, taps_ = 0;  ///< of windows
  std::optional<graph::Window> window_;
  std::vector<std::int64_t> offsets_;  ///< index in a plane of each tap at each position; -1 in the padding
  std::size_t first_ = 0, count_ = 0;  ///< the samples in offsets_
};

/// Calls `visit` with each block, part by part, group by group.
void visit_samples(const graph::Node& node, const graph::Graph& graph, const SampledLayer& layer,
                   const graph::Tensor& value,
                   const std::function<void(std::size_t group, const SampleColumns&)>& visit);

}  // namespace crumb::ptq
