// Where channels of a network can be duplicated without changing it: all values that share a channel, the
// constants that produce them (rows of weights and biases, which are copied) and the weights that take them
// (whose columns share the old values).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::ptq {

/// A constant with the channels along one axis, each `run` numbers long: the positions of an image, behind a
/// Flatten.
struct ChanneledConstant {
  std::string name;
  std::size_t axis = 0;
  std::size_t run = 1;
};

/// A weight that takes the channels. Its columns are those of weight_rows.h: channel by channel, `run` of
/// each.
struct ChannelSink {
  std::string name;
  std::size_t output_axis = 0;
  std::size_t run = 1;  ///< positions of the kernel, or of the image behind a Flatten
  std::size_t groups =
      1;  ///< of a convolution: as many parts of the rows, each of which takes one part of the channels
  std::string input;  ///< the value that the weight multiplies
};

/// How a value stores its channels.
struct ChanneledValue {
  std::string name;
  std::size_t behind = 0;  ///< number of axes behind the channels' axis
  std::size_t run = 1;
};

/// Reaches from layers that produce values, through operators that compute each element, or each channel of
/// an image, alone, to layers that take them. Where two values meet in an elementwise function (a gate, a
/// sum), both belong to the site, with everything that produces and takes them.
struct SplitSite {
  std::size_t channels = 0;
  std::size_t parts = 1;                   ///< equal parts of the channels: groups of convolutions
  std::vector<ChanneledConstant> sources;  ///< rows of weights, biases, and parameters of operators between
  std::vector<ChannelSink> sinks;
  std::vector<std::size_t> depthwise;  ///< indices of nodes between with one group for each channel
  std::vector<std::string>
      flat_shapes;  ///< constants of two numbers, the second being the size of a flattened image
  std::vector<ChanneledValue> values;
};

/// A layer whose input channels cannot be duplicated, by its weight, and why: "... what Softmax makes".
struct UnsplitLayer {
  std::string weight;
  std::string why;
};

struct SplitSites {
  std::vector<SplitSite> sites;       ///< along the graph
  std::vector<UnsplitLayer> refused;  ///< Conv, Gemm and MatMul with a constant weight
};

/// Returns the sites. Precondition: shapes are inferred. A site's constants have no other uses, but one can
/// be a source of one site and a sink of another, or of the same.
SplitSites split_sites(const graph::Graph& graph);

}  // namespace crumb::ptq
