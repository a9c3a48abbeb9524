#include <algorithm>
#include <map>

#include "base/error.h"
#include "graph/adapters.h"
#include "quant/quant_spec.h"
#include "quant/quantizer.h"

namespace crumb::graph {
namespace {

/// [out, in] of a matrix whose value has the axes [in, out].
std::vector<float> rows_of(const Tensor& value) {
  const std::vector<float> floats = value.to_floats();
  const auto in = static_cast<std::size_t>(value.shape()[0]),
             out = static_cast<std::size_t>(value.shape()[1]);
  std::vector<float> rows(floats.size());
  for (std::size_t i = 0; i < in; ++i)
    for (std::size_t o = 0; o < out; ++o) rows[o * in + i] = floats[i * out + o];
  return rows;
}

Tensor value_of_rows(const std::vector<float>& rows, std::size_t out, std::size_t in) {
  std::vector<float> value(rows.size());
  for (std::size_t o = 0; o < out; ++o)
    for (std::size_t i = 0; i < in; ++i) value[i * out + o] = rows[o * in + i];
  return Tensor::floats({static_cast<std::int64_t>(in), static_cast<std::int64_t>(out)}, value);
}

double squared_distance(const std::vector<float>& one, const std::vector<float>& other) {
  double sum = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    const double off = static_cast<double>(one[i]) - other[i];
    sum += off * off;
  }
  return sum;
}

MergedLayer merge_into(Graph& graph, const std::string& weight, const std::vector<LowRankUpdate>& updates,
                       const std::string& spec) {
  const std::size_t out = updates[0].out, in = updates[0].in;
  const auto coded = graph.quantized.find(weight);
  const bool is_coded = coded != graph.quantized.end();
  const std::vector<float> before = rows_of(is_coded ? coded->second.value() : graph.initializers.at(weight));
  std::vector<float> merged = before;
  merge(updates, merged);
  const Tensor value = value_of_rows(merged, out, in);
  if (is_coded)
    coded->second = quantize_constant(QuantSpec::parse(spec.empty() ? coded->second.tensor->spec : spec),
                                      value, 1, weight);
  else
    graph.initializers[weight] = value;
  const std::vector<float> after = is_coded ? rows_of(coded->second.value()) : merged;
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
  if (names.empty()) throw Error("the network has no adapter");
  std::map<std::string, std::vector<LowRankUpdate>> updates;  // by module
  for (const std::string& name : names) {
    for (LowRankUpdate& update : adapter_of(graph, name).updates)
      updates[update.module].push_back(std::move(update));
    graph = drop_adapter(std::move(graph), name);
  }
  std::map<std::string, std::string> weights;  // by module
  for (const LinearProduct& product : linear_products(graph)) weights[product.module] = product.weight;
  MergedGraph merged{.graph = std::move(graph), .layers = {}};
  for (const auto& [module, of] : updates)
    merged.layers.push_back(merge_into(merged.graph, weights.at(module), of, spec));
  return merged;
}

}  // namespace crumb::graph
