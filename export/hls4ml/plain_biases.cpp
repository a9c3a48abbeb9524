#include "export/hls4ml/plain_biases.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "export/hls4ml/fixed_range.h"
#include "export/lint/subject.h"
#include "graph/facts/constant_values.h"

namespace crumb::exporting::hls4ml {
namespace {

constexpr int kMostBits = 32;

/// Whether the value is nothing but a term of sums.
bool is_bias(const Graph& graph, const Links& links, const std::string& value) {
  const auto& consumers = links.consumers(value);
  return !consumers.empty() && std::ranges::all_of(consumers, [&](std::size_t i) {
    const Node& node = graph.nodes[i];
    return node.is("Add") || (convolves(node) && input_of(node, 2) == value && input_of(node, 1) != value);
  });
}

}  // namespace

Graph with_plain_biases(Graph graph) {
  struct Plain {
    Tensor data;
    int exponent = 0, bits = 0;
  };
  std::map<std::size_t, Plain> plain;
  {
    const Links links(graph);
    const graph::ConstantValues constants(graph);
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      if (!is_quant(node) || !is_weight(graph, node) || !is_bias(graph, links, output_of(node))) continue;
      const auto made = constants.find(output_of(node));
      const auto range = made ? range_of(made->values) : std::nullopt;
      if (!range) continue;
      const double most = std::max(std::fabs(range->low), std::fabs(range->high));
      const int bits = std::max(2, bits_of({range->exponent, -most, most}));  // symmetric: narrow
      if (bits > kMostBits) continue;
      const std::vector<float> values(made->values.begin(), made->values.end());
      plain.emplace(i, Plain{Tensor::floats(made->shape, values), range->exponent, bits});
    }
  }
  for (auto& [i, values] : plain) {
    auto& [data, exponent, bits] = values;
    Node& node = graph.nodes[i];
    give_constant(graph, node, kData, std::move(data));
    give_constant(graph, node, kScale, Tensor::scalar(static_cast<float>(std::ldexp(1.0, exponent))));
    give_constant(graph, node, kZeropt, Tensor::scalar(0.0F));
    give_constant(graph, node, kBits, Tensor::scalar(static_cast<float>(bits)));
    node.attributes["signed"] = std::int64_t{1};
    node.attributes["narrow"] = std::int64_t{1};
    node.attributes["rounding_mode"] = std::string("ROUND");
  }
  graph::drop_unused(graph);
  return graph;
}

}  // namespace crumb::exporting::hls4ml
