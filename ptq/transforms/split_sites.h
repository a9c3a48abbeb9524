// Where channels of a network can be doubled without changing it: all values that have a channel side by side, what makes them
// (rows of weights and biases, which are copied) and the weights that take them (whose columns share what they were).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::ptq {

/// A constant that has the channels along one axis, each `run` numbers long: places of an image, behind a Flatten.
struct ChanneledConstant {
  std::string name;
  std::size_t axis = 0;
  std::size_t run = 1;
};

/// A weight that takes the channels. Its columns are those of weight_rows.h: channel by channel, `run` of each.
struct ChannelSink {
  std::string name;
  std::size_t output_axis = 0;
  std::size_t run = 1;  ///< places of the kernel, or of the image behind a Flatten
  std::size_t groups =
      1;  ///< of a convolution: as many parts of the rows, each of which takes a part of the channels
  std::string input;  ///< the value that it takes
};

/// What a value has its channels by.
struct ChanneledValue {
  std::string name;
  std::size_t behind = 0;  ///< axes behind that of the channels
  std::size_t run = 1;
};

/// From layers that make values, through what computes each element, or each channel of an image, by itself, to layers that take
/// them. Where two values meet in an elementwise function (a gate, a sum), both belong to it, with all that makes and takes them.
struct SplitSite {
  std::size_t channels = 0;
  std::size_t parts = 1;  ///< which the channels consist of, each of the same number: groups of convolutions
  std::vector<ChanneledConstant> sources;  ///< rows of weights, biases, and parameters on the way
  std::vector<ChannelSink> sinks;
  std::vector<std::size_t> depthwise;  ///< nodes of the graph on the way that have a group for each channel
  std::vector<std::string>
      flat_shapes;  ///< constants of two numbers, the second that of a flattened image's elements
  std::vector<ChanneledValue> values;
};

/// A layer whose inputs' channels cannot be doubled, by its weight, and why: "... what Softmax makes".
struct UnsplitLayer {
  std::string weight;
  std::string why;
};

struct SplitSites {
  std::vector<SplitSite> sites;       ///< along the graph
  std::vector<UnsplitLayer> refused;  ///< Conv, Gemm and MatMul of a constant weight
};

/// The graph's shapes are inferred. No constant of a site is in use elsewhere, but one can be a source of one site and a sink of
/// another, or of the same.
SplitSites split_sites(const graph::Graph& graph);

}  // namespace crumb::ptq
