// Products with packed weights as onnxruntime's MatMulNBits (domain com.microsoft). Internal to export.
#pragma once

#include <map>
#include <string>

#include "export/qcdq/block_weight.h"
#include "graph/graph.h"

namespace crumb::exporting {

/// The operator's name: what WriteOptions and --weights-as call this form.
inline constexpr const char* kMatMulNBits = "MatMulNBits";

struct BlockProduct {
  graph::QuantizedConstant constant;
  BlockWeight weight;
};
using BlockProducts = std::map<std::string, BlockProduct>;  ///< by the names of the MatMuls' second inputs

/// Takes the weights of MatMuls that are matrices of codes out of the graph: initializers with their values
/// take their place. Throws one Error that names each such constant that has no form, and why; and where the
/// graph has no such product.
BlockProducts take_block_products(graph::Graph& graph);

/// Makes MatMulNBits of the products' MatMuls. accuracy_level is 1: sums of float32, inputs that are not
/// rounded.
graph::Graph put_block_products(graph::Graph graph, const BlockProducts& products);

/// Compares the products of a graph that was read back with those that were meant: every value, and every
/// code less its zero point. Throws Error that names the first that differs.
void expect_same_products(const graph::Graph& meant, const BlockProducts& products,
                          const graph::Graph& found);

}  // namespace crumb::exporting
