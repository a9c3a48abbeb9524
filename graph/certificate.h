// A certificate: what a layer promises about its accumulator. A graph and a file store it.
//
// In a graph a certificate is the entry kAccumulatorKey of the node's own metadata, so that whatever renames
// nodes or moves weights takes it along. A file has one entry of that key in the model's metadata, a JSON
// object by the names of nodes:
//
//   {"fc1": {"method": "a2q_plus", "bits": 8, "input": [0, 15], "tile": 0, "bias": "inside",
//            "rounding": "toward_zero", "constrained": true, "worst": [[[112, -98]], [[105, -120]]]}}
//
// `worst`: for each channel, for each of its registers (tiles, groups of one scale), the largest and the
// least partial sum over inputs from input[0] to input[1]. docs/accumulators.md describes every field.
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

/// Whether the register also holds what is added to the product.
enum class BiasPlace : std::uint8_t {
  kNone,    ///< the layer adds nothing
  kInside,  ///< codes at scale_in * scale_weight, added in the register
  kAfter,   ///< anything else: another adder adds it
};

/// Returns "none", "a2q" or "a2q_plus"; "none", "inside" or "after".
std::string_view name_of(AccumulatorMethod method);
std::string_view name_of(BiasPlace place);

/// The registers of one channel, in the order in which its terms meet them.
using ChannelSums = std::vector<WorstSums>;

struct Certificate {
  AccumulatorMethod method = AccumulatorMethod::kNone;
  int bits = 32;         ///< width of each register, signed
  IntegerRange input;    ///< minus the zero point, in units of the input's grid
  std::size_t tile = 0;  ///< terms of a register; 0: the whole row
  BiasPlace bias = BiasPlace::kNone;
  std::string rounding = "toward_zero";  ///< how weights were rounded; for people
  bool constrained = true;  ///< training kept the layer within `bits`; false: bits were counted after it
  std::vector<ChannelSums> worst;

  bool operator==(const Certificate&) const = default;
};

/// Returns the certificate as JSON on one line.
std::string to_text(const Certificate& certificate);

/// Reads what to_text() wrote. A Failure says which field is wrong, what was found and what was expected.
Result<Certificate> parse_certificate(std::string_view text);

/// Returns a node's certificate; nothing where it has none.
Result<std::optional<Certificate>> certificate_of(const Node& node);
void set_certificate(Node& node, const Certificate& certificate);

/// Returns the metadata entry of a file: the certificates of all nodes, and what the graph's metadata still
/// holds of nodes that it does not have. Nothing where there are none. Throws Error where two nodes of one
/// name have a certificate.
std::optional<std::string> certificates_text(const Graph& graph);

/// Moves the entries of the graph's metadata to their nodes. An entry that names no node, or several, stays.
/// A Failure where the metadata is not an object of certificates.
Status place_certificates(Graph& graph);

/// Removes all certificates, for graphs whose weights are no longer codes.
void drop_certificates(Graph& graph);

}  // namespace crumb::graph
