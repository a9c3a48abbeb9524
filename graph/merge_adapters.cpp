#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"
#include "graph/adapters.h"
#include "graph/edit.h"
#include "graph/strided_index.h"
#include "quant/quant_spec.h"
#include "quant/quantizer.h"

namespace crumb::graph {
namespace {

/// Returns a product's matrix as [out, in].
std::vector<float> rows_of(const Tensor& value, const LinearProduct& product) {
  return product.is_transposed ? value.to_floats()
                               : transposed(value, std::vector<std::int64_t>{1, 0}).to_floats();
}

Tensor value_of_rows(const std::vector<float>& rows, const LinearProduct& product) {
  const auto in = static_cast<std::int64_t>(product.in), out = static_cast<std::int64_t>(product.out);
  if (product.is_transposed) return Tensor::floats({out, in}, rows);
  return Tensor::floats({in, out}, transposed(rows, product.out, product.in));
}

double squared_distance(const std::vector<float>& one, const std::vector<float>& other) {
  double sum = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    const double off = static_cast<double>(one[i]) - other[i];
    sum += off * off;
  }
  return sum;
}

MergedLayer merge_into(Graph& graph, const LinearProduct& product, const std::vector<LowRankUpdate>& updates,
                       const std::string& spec) {
  const std::string& weight = product.weight;
  const auto coded = graph.quantized.find(weight);
  const bool is_coded = coded != graph.quantized.end();
  const std::vector<float> before =
      rows_of(is_coded ? coded->second.value() : graph.initializers.at(weight), product);
  std::vector<float> merged = before;
  merge(updates, merged);
  const Tensor value = value_of_rows(merged, product);
  std::vector<float> after = merged;
  if (is_coded || !spec.empty()) {
    const QuantSpec by = QuantSpec::parse(spec.empty() ? coded->second.tensor->spec : spec);
    QuantizedConstant codes = quantize_constant(by, value, product.is_transposed ? 0 : 1, weight);
    after = rows_of(codes.value(), product);
    set_codes(graph, weight, std::move(codes));
  } else {
    graph.initializers[weight] = value;
  }
  const double size = squared_distance(merged, std::vector<float>(merged.size()));
  const double over = size > 0 ? size : 1;
  return {.module = updates[0].module,
          .update = squared_distance(merged, before) / over,
          .error = squared_distance(merged, after) / over};
}

}  // namespace

void merge(std::span<const LowRankUpdate> updates, std::span<float> matrix) {
  const std::size_t out = updates[0].out, in = updates[0].in;
  std::vector<double> row(in);
  for (std::size_t o = 0; o < out; ++o) {
    std::ranges::fill(row, 0);
    for (const LowRankUpdate& update : updates)
      for (std::size_t k = 0; k < update.rank; ++k) {
        const double by = static_cast<double>(update.up[o * update.rank + k]) * update.scale;
        for (std::size_t i = 0; i < in; ++i) row[i] += by * update.down[k * in + i];
      }
    for (std::size_t i = 0; i < in; ++i) matrix[o * in + i] = static_cast<float>(matrix[o * in + i] + row[i]);
  }
}

MergedGraph merge_adapters(Graph graph, const std::string& spec) {
  const std::vector<std::string> names = adapter_names(graph);
  if (names.empty()) throw usage_error("the network has no adapter; give --adapter PATH");
  std::map<std::string, std::vector<LowRankUpdate>> updates;  // by module
  for (const std::string& name : names) {
    for (LowRankUpdate& update : adapter_of(graph, name).updates)
      updates[update.module].push_back(std::move(update));
    graph = drop_adapter(std::move(graph), name);
  }
  std::map<std::string, LinearProduct> products;  // by module
  for (const LinearProduct& product : linear_products(graph)) products[product.module] = product;
  MergedGraph merged{.graph = std::move(graph), .layers = {}};
  for (const auto& [module, of] : updates)
    merged.layers.push_back(merge_into(merged.graph, products.at(module), of, spec));
  return merged;
}

}  // namespace crumb::graph
