// What lies behind a product as far as the next quantizer: the operations that become part of its thresholds.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/lower/known.h"

namespace crumb::runtime {

/// Operators that give some of their input's elements, wherever they lie: what they do to values they do to
/// codes.
bool moves_codes(const graph::Node& node);

/// Where the channels of a product's output lie.
struct ProductChannels {
  std::size_t count = 0;
  std::size_t behind = 0;           ///< axes behind theirs
  std::optional<std::size_t> rank;  ///< of the value
};

/// The operations behind a product, and what ends them.
struct FollowedChain {
  std::vector<ChainStep> steps;
  std::vector<std::size_t> nodes;  ///< absorbed
  std::vector<std::size_t> moves;  ///< to be done with the codes
  std::optional<std::size_t> quantizer_node;
  std::optional<std::size_t> clip_node;  ///< behind QuantizeLinear: what leaves fewer codes
  UniformQuantizer quantizer;
  std::string value;  ///< what comes out
};

/// A constant operand of an operation on a product's outputs, as one number or one for each channel.
std::optional<std::vector<double>> operand(const Known& known, const std::string& value,
                                           const ProductChannels& channels);

/// Follows the value of a product as far as a quantizer.
FollowedChain follow(const Known& known, const std::string& value, ProductChannels channels);

}  // namespace crumb::runtime
