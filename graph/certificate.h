// What a layer promises about its accumulator: on the layer's node in a graph, and in files.
//
// In a graph a certificate is the entry kAccumulatorKey of the node's own metadata, so that whatever renames nodes or
// moves weights takes it along. A file has one entry of that key in the model's metadata, a JSON object by the names of
// nodes:
//
//   {"fc1": {"method": "a2q_plus", "bits": 8, "input": [0, 15], "tile": 0, "bias": "inside",
//            "rounding": "toward_zero", "constrained": true, "worst": [[[112, -98]], [[105, -120]]]}}
//
// `worst`: for each channel, for each of its registers (tiles, groups of one scale), the largest and the least partial
// sum over inputs from input[0] to input[1]. docs/accumulators.md has the whole of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "quant/accumulator/accumulator.h"

namespace crumb::graph {

inline constexpr const char* kAccumulatorKey = "crumb.accumulator";

enum class AccumulatorMethod : std::uint8_t { kNone, kA2q, kA2qPlus };

/// Whether what is added to a product lies in its register.
enum class BiasPlace : std::uint8_t {
  kNone,    ///< nothing is added
  kInside,  ///< codes at scale_in * scale_weight
  kAfter,   ///< anything else: another adder's work
};

/// "none", "a2q", "a2q_plus"; "none", "inside", "after".
std::string_view name_of(AccumulatorMethod method);
std::string_view name_of(BiasPlace place);

/// Of one channel, its registers in the order in which its terms meet them.
using ChannelSums = std::vector<WorstSums>;

struct Certificate {
  AccumulatorMethod method = AccumulatorMethod::kNone;
  int bits = 32;         ///< of each register, signed
  IntegerRange input;    ///< less the zero point, in units of the input's grid
  std::size_t tile = 0;  ///< terms of a register; 0: the whole row
  BiasPlace bias = BiasPlace::kNone;
  std::string rounding = "toward_zero";  ///< of the weights; for people
  bool constrained = true;  ///< training kept the layer within `bits`, rather than counting them after
  std::vector<ChannelSums> worst;

  bool operator==(const Certificate&) const = default;
};

/// JSON, one line.
std::string to_text(const Certificate& certificate);

/// A Failure says which field is wrong, what was found and what was expected.
Result<Certificate> parse_certificate(std::string_view text);

/// A node's; nothing where it has none.
Result<std::optional<Certificate>> certificate_of(const Node& node);
void set_certificate(Node& node, const Certificate& certificate);

/// Those of all nodes, and what the graph's metadata still hold of nodes that are not there; for the graph's metadata
/// in a file. Nothing where there are none. Throws Error where two nodes of one name have a certificate.
std::optional<std::string> certificates_text(const Graph& graph);

/// The other way: the metadata's entry goes to its nodes; what names no node, or several, stays. A Failure where the
/// entry is no object of certificates.
Status place_certificates(Graph& graph);

/// For graphs whose weights are codes no more.
void drop_certificates(Graph& graph);

}  // namespace crumb::graph
