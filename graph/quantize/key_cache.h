// Quantizes the keys and values that a decoder caches (KIVI, Liu et al. 2024, arXiv:2402.02750; with one
// scale for each token and head as in KVQuant's ablations and llama.cpp's caches).
#pragma once

#include <string_view>

#include "graph/graph.h"
#include "quant/quant_spec.h"

namespace crumb::graph {

/// Prefix of the names of matrices that rotate heads (spec.rotate).
inline constexpr std::string_view kCacheRotation = "hadamard_";

/// Puts a quantizer in front of keys and values of every Attention node that has past and present. It follows
/// the rotary embedding, so that attention reads, for the positions of this run too, what a cache of codes
/// holds, and single steps give the bits of the whole run. Nodes that attend over the same positions
/// (graph/attention_caches.h) read the same codes. Scales are computed from the values, for each
/// token and key-value head, or for each group of spec.block_cols numbers of a head. Throws Error where there
/// is no such node, the number or size of its heads is unknown, a group does not divide the size, keys or
/// values are quantized already, or heads of an odd size are to be rotated.
///
/// With spec.rotate, queries, keys and values are multiplied by Sylvester's orthonormal Hadamard matrix H
/// first, and attention's result by H again: (q H)(k H)^T = q k^T and p (v H) H = p v, up to rounding. H is
/// as large as the greatest power of two that divides a head's size, and rotates a head piece by piece.
/// Precondition: the spec is one of QuantSpec::parse_cache; or such a one with granularity tensor, with
/// quantizers of scale 1 for code that computes them itself (qat/).
Graph with_quantized_cache(Graph graph, const QuantSpec& spec);

}  // namespace crumb::graph
