#include "runtime/lower/product_node.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "graph/weighted_product.h"
#include "runtime/integer/byte_products.h"
#include "runtime/integer/byte_weights.h"
#include "runtime/lower/domain.h"

namespace crumb::runtime {

using graph::ElementType;
using graph::Node;
using graph::Tensor;

Node product_node(MadeGraph& made_graph, const Node& node, const Coded& x, const IntegerWeight& w,
                  const std::vector<std::int32_t>& least, const std::vector<std::int32_t>& most) {
  const bool convolves = graph::is_convolution(node);
  Node made{.name = node.name,
            .op = convolves ? "Conv" : "MatMul",
            .domain = std::string(kRuntimeDomain),
            .inputs = {x.codes},
            .metadata = node.metadata};
  if (convolves) made.attributes = node.attributes;
  const UniformQuantizer& quantizer = x.quantizer;
  made.attributes["zero"] = std::int64_t{quantizer.zero};
  made.attributes["least"] = std::int64_t{quantizer.low};
  made.attributes["most"] = std::int64_t{quantizer.high};
  const std::size_t groups = integer::groups_of(w.terms());
  const auto bytes = convolves ? integer::bytes_of(quantizer.low, quantizer.high, quantizer.zero)
                               : std::optional(integer::bytes_of(quantizer.low, quantizer.high));
  const auto rows = integer::byte_rows(w.integers, w.outputs());
  const std::int64_t down = least.empty() ? 0 : std::ranges::min(least),
                     up = most.empty() ? 0 : std::ranges::max(most);
  made.attributes["registers"] =
      bytes && rows ? integer::registers_of(integer::way_of(*rows, groups, bytes->most), groups, down, up)
                    : "int32: a weight or a code takes more than a byte, sums" + integer::range_of(down, up);
  Tensor weights;
  if (!bytes || !rows) {
    std::vector<std::int64_t> shape = w.shape;
    if (!convolves) shape = {shape[0], static_cast<std::int64_t>(w.terms())};
    weights = tensor_of(ElementType::kInt16, std::move(shape), w.integers);
  } else if (convolves) {
    made.attributes["weight_shape"] = w.shape;
    weights = tensor_of(ElementType::kInt8, {w.shape[0], static_cast<std::int64_t>(groups * integer::kGroup)},
                        *rows);
  } else {
    made.attributes["outputs"] = w.shape[0];
    made.attributes["terms"] = static_cast<std::int64_t>(w.terms());
    const auto vectors = integer::vectors_of_rows(*rows, groups);
    weights = tensor_of(ElementType::kInt8, {std::ssize(vectors)}, vectors);
  }
  made.inputs.push_back(made_graph.add(node.name + ".weights", std::move(weights)));
  return made;
}

}  // namespace crumb::runtime
