#include "runtime/held_sparse.h"

#include <algorithm>

namespace crumb::runtime {
namespace {

/// The input that the node's kernel may hold as a sparse matrix and that the node takes once; else "".
std::string held_by(const graph::Node& node, const Substitutes& instead) {
  if (!node.has_output(0) || instead.contains(node.outputs[0])) return {};
  const OperatorRow* const row = find_operator(node.op, node.domain);
  if (!row || !row->holds_sparse || !node.has_input(row->holds)) return {};
  const std::string& held = node.inputs[row->holds];
  return std::ranges::count(node.inputs, held) == 1 ? held : std::string();
}

}  // namespace

HeldSparse::HeldSparse(const graph::Graph& graph, const Substitutes& instead) {
  const graph::Links links(graph);
  const auto is_held_alone = [&](const std::string& matrix, const std::set<std::size_t>& makers) {
    return std::ranges::all_of(makers, [&](std::size_t maker) {
      const std::string& value = graph.nodes[maker].outputs[0];
      return !links.is_output(value) && std::ranges::all_of(links.consumers(value), [&](std::size_t taker) {
        return value == matrix ? held_by(graph.nodes[taker], instead) == matrix : makers.contains(taker);
      });
    });
  };
  for (const graph::Node& node : graph.nodes) {
    const std::string matrix = held_by(node, instead);
    if (matrix.empty() || matrices_.contains(matrix)) continue;
    std::set<std::size_t> makers;
    auto numbers = graph::sparse_matrix(graph, links, matrix, &makers);
    if (!numbers || !is_held_alone(matrix, makers)) continue;
    matrices_.emplace(matrix, std::move(*numbers));
    makers_.insert(makers.begin(), makers.end());
  }
}

const graph::SparseMatrix* HeldSparse::find(const std::string& value) const {
  const auto found = matrices_.find(value);
  return found == matrices_.end() ? nullptr : &found->second;
}

}  // namespace crumb::runtime
