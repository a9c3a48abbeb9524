#include "export/qonnx/bake_weights.h"

#include <algorithm>
#include <cmath>

#include "export/lint/subject.h"
#include "graph/facts/constant_parts.h"
#include "graph/qonnx/quant_arithmetic.h"

namespace crumb::exporting {
namespace {

using graph::ConstantValue;
using graph::ConstantValues;

bool rounds_to_nearest(const Node& node) {
  return graph::find_quant_rounding(node.text_or("rounding_mode", "ROUND")) ==
         graph::QuantRounding::kHalfEven;
}

/// What the node would make of other data.
std::optional<ConstantValue> made_of(const Graph& graph, Node node, const ConstantValue& data) {
  Graph one{.opsets = graph.opsets};
  for (const std::string& input : node.inputs) {
    if (const Tensor* constant = graph.constant(input)) one.initializers.emplace(input, *constant);
  }
  const std::vector<float> values(data.values.begin(), data.values.end());
  one.initializers.insert_or_assign(node.inputs[0], Tensor::floats(data.shape, values));
  const std::string output = node.outputs[0];
  one.nodes.push_back(std::move(node));
  return ConstantValues(one).find(output);
}

bool same(const ConstantValue& a, const ConstantValue& b) {
  return a.shape == b.shape && a.values == b.values && a.levels == b.levels;
}

/// What becomes of a quantizer of a constant.
struct Baked {
  bool is_known = false, keeps = false;  ///< its values can be computed; rounding them to nearest keeps them
  std::optional<Tensor> data;            ///< the values, where the constant's own are others
};

/// `rounding`: the same node, which rounds to nearest.
Baked bake(const Graph& graph, const ConstantValues& constants, const Links& links, const Node& node,
           const Node& rounding) {
  const Tensor& own = *constant_input(graph, node, 0);
  const graph::ConstantParts parts(graph, constants, links, node.outputs[0]);
  Baked baked{.is_known = true, .keeps = true, .data = {}};
  std::vector<float> values;  // from the first part on that is not the constant's own
  for (std::size_t i = 0, at = 0; i < parts.count(); ++i) {
    const auto made = parts.part(i);
    if (!made) return {};
    const auto again =
        parts.is_cut() ? parts.made_by(rounding, i, made->values) : made_of(graph, rounding, *made);
    if (!again || !same(*made, *again)) baked.keeps = false;
    if (!baked.keeps) return baked;
    const std::vector<float> before = parts.is_cut() ? parts.data_of(i) : own.to_floats();
    const bool is_own = own.type() == graph::ElementType::kFloat &&
                        std::ranges::equal(before, made->values, [](float x, double y) {
                          return x == static_cast<float>(y) && std::signbit(x) == std::signbit(y);
                        });
    if (!is_own && values.empty() && at > 0) {
      values.reserve(static_cast<std::size_t>(own.size()));
      for (std::size_t k = 0; k < i; ++k) {
        const std::vector<float> data = parts.data_of(k);
        values.insert(values.end(), data.begin(), data.end());
      }
    }
    if (!is_own || !values.empty()) values.insert(values.end(), made->values.begin(), made->values.end());
    at += made->values.size();
  }
  if (!values.empty()) baked.data = Tensor::floats(own.shape(), values);
  return baked;
}

}  // namespace

Graph bake_weights(Graph graph) {
  std::string refused;
  const ConstantValues constants(graph);  // nodes keep their indices and outputs
  const Links links(graph);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (!graph::is_quantizer(node) || !constant_input(graph, node, 0)) continue;
    Node rounding = node;
    if (node.op != "BipolarQuant") rounding.attributes["rounding_mode"] = std::string("ROUND");
    Baked baked = bake(graph, constants, links, node, rounding);
    if (!baked.is_known) continue;
    if (baked.keeps) {
      graph.nodes[i] = std::move(rounding);
      if (baked.data) give_constant(graph, graph.nodes[i], 0, std::move(*baked.data));
    } else if (node.op != "BipolarQuant" && !rounds_to_nearest(node)) {
      refused += (refused.empty() ? "" : ", ") + text_of(node);
    }
  }
  if (!refused.empty()) {
    throw Error(
        "weights that are rounded otherwise than to nearest, and that rounding to nearest would change: " +
        refused);
  }
  graph::drop_unused(graph);
  return graph;
}

}  // namespace crumb::exporting
