// Keys and values that a decoder keeps as codes (KIVI, Liu et al. 2024, arXiv:2402.02750; one scale for each token and head as
// KVQuant's ablations and llama.cpp's caches have it).
#pragma once

#include <string_view>

#include "graph/graph.h"
#include "quant/quant_spec.h"

namespace crumb::graph {

/// What names of matrices begin with that rotate heads (spec.rotate).
inline constexpr std::string_view kCacheRotation = "hadamard_";

/// Puts a quantizer in front of keys and values of every Attention node that has past and present: behind what rotates keys by
/// their positions, so that what attention reads, the places of this run too, is what a cache of codes holds, and steps have
/// the bits of the whole. Scales are found as values come, for each token and key-value head, or for each group of
/// spec.block_cols numbers of a head. Throws Error: no such node, one whose heads or whose size of a head nobody says, a
/// group that does not divide it, keys or values that are quantized already, heads of an odd size that are to be rotated.
///
/// With spec.rotate queries, keys and values are multiplied by the orthonormal Hadamard matrix H of Sylvester's construction
/// first, and what attention gives by H again: (q H)(k H)^T = q k^T and p (v H) H = p v, but for rounding. H is as large as the
/// greatest power of two that divides a head's size, and rotates a head piece by piece.
/// Precondition: the spec is one of QuantSpec::parse_cache; or such a one with the granularity of a tensor, and quantizers have
/// the scale 1, for those who compute them in their own way (qat/).
Graph with_quantized_cache(Graph graph, const QuantSpec& spec);

}  // namespace crumb::graph
