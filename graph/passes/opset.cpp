#include "graph/passes/opset.h"

#include <algorithm>

#include "graph/onnx/infer_shapes.h"
#include "graph/onnx/schemas.h"
#include "graph/onnx/wire/domains.h"
#include "graph/passes/opset_mover.h"
#include "graph/passes/passes.h"

namespace crumb::graph {
namespace {

void check_version(std::int64_t target) {
  if (target >= 1 && target <= kNewestOpset) return;
  throw usage_error("there is no operator set " + std::to_string(target) + " of ONNX; it has 1 to " +
                    std::to_string(kNewestOpset));
}

std::int64_t latest_of(const Graph& graph) {
  std::int64_t latest = graph.opset();
  for (const Node& node : graph.nodes)
    if (node.domain == kOnnxDomain) latest = std::max(latest, node.version);
  return latest;
}

struct Moved {
  Graph graph;
  std::string misfits;  ///< empty: the graph has the requested operator set
};

/// Precondition: types and shapes are inferred.
Moved moved(Graph graph, std::int64_t target) {
  if (std::ranges::any_of(graph.nodes, [&](const Node& node) { return needs_body(node, target); })) {
    graph = expand_for_opset(std::move(graph), target);
  }
  std::string misfits = NodeMover(graph, target).go();
  graph.opsets[std::string(kOnnxDomain)] = target;
  return {std::move(graph), std::move(misfits)};
}

Failure misfit(std::int64_t target, const std::string& misfits) {
  return {"the graph cannot be written in operator set " + std::to_string(target) + ": " + misfits};
}

}  // namespace

Graph with_opset(Graph graph, std::int64_t target) {
  check_version(target);
  Moved made = moved(infer_shapes(plain_constants(std::move(graph))), target);
  if (!made.misfits.empty()) throw Error(misfit(target, made.misfits).message);
  return tidy(infer_shapes(std::move(made.graph)));
}

bool has_newer_nodes(const Graph& graph) { return latest_of(graph) > graph.opset(); }

Graph with_one_opset(Graph graph) {
  const std::int64_t target = latest_of(graph);
  if (target == graph.opset()) return graph;
  check_version(target);
  graph = infer_shapes(std::move(graph));
  // Not by bodies, for which codes would become floats.
  const std::string misfits = NodeMover(graph, target).go();
  if (!misfits.empty()) throw Error(misfit(target, misfits).message);
  graph.opsets[std::string(kOnnxDomain)] = target;
  return graph;
}

Result<std::int64_t> find_least_opset(const Graph& graph, std::int64_t floor) {
  check_version(floor);
  const Graph inferred = infer_shapes(plain_constants(graph));
  std::string misfits;
  for (std::int64_t target = floor; target <= kNewestOpset; ++target) {
    misfits = moved(inferred, target).misfits;
    if (misfits.empty()) return target;
  }
  return misfit(kNewestOpset, misfits);
}

std::int64_t least_opset(const Graph& graph, std::int64_t floor) {
  return find_least_opset(graph, floor).take();
}

}  // namespace crumb::graph
