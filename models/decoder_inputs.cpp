#include "models/decoder_inputs.h"

#include <functional>
#include <numeric>

#include "base/files/text.h"

namespace crumb::models {
namespace {

using graph::Tensor;

/// Keys or values before the first token: no places.
Tensor no_past(const graph::Graph& graph, const std::string& name, std::int64_t batch) {
  const graph::Value* value = graph.find(name);
  if (!value || !value->shape || value->type != graph::ElementType::kFloat)
    throw Error("text is for a decoder; nothing says what to give the graph's input " + quote_text(name));
  std::vector<std::int64_t> shape;
  for (const graph::Dim& dim : *value->shape)
    shape.push_back(dim.known() ? dim.size : shape.empty() ? batch : 0);
  const auto size = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  return Tensor::floats(shape, std::vector<float>(static_cast<std::size_t>(size)));
}

}  // namespace

std::vector<Tensor> decoder_inputs(const graph::Graph& graph, std::span<const std::int64_t> ids,
                                   std::size_t batch) {
  const std::size_t length = ids.size() / batch;
  const std::vector<std::int64_t> shape = {static_cast<std::int64_t>(batch),
                                           static_cast<std::int64_t>(length)};
  std::vector<std::int64_t> positions(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) positions[i] = static_cast<std::int64_t>(i % length);
  std::vector<Tensor> inputs;
  for (const std::string& name : graph.inputs) {
    if (name == "input_ids") {
      inputs.push_back(Tensor::ints(shape, std::vector<std::int64_t>(ids.begin(), ids.end())));
    } else if (name == "attention_mask") {
      inputs.push_back(Tensor::ints(shape, std::vector<std::int64_t>(ids.size(), 1)));
    } else if (name == "position_ids") {
      inputs.push_back(Tensor::ints(shape, positions));
    } else {
      inputs.push_back(no_past(graph, name, shape[0]));
    }
  }
  return inputs;
}

}  // namespace crumb::models
