#include "models/model_weights.h"

#include <algorithm>
#include <utility>

#include "base/files/text.h"
#include "graph/edit.h"
#include "graph/strided_index.h"

namespace crumb::models {
namespace {

constexpr std::int64_t kLeastUnread = 1 << 16;  // weights that are worth a second look into the file

using Ints = std::vector<std::int64_t>;

std::string shape_text_of(const std::vector<size_t>& shape) {
  return shape_text(std::vector<std::uint64_t>(shape.begin(), shape.end()));
}

}  // namespace

void ModelWeights::add(graph::Graph& graph, const std::string& name, const std::vector<size_t>& shape,
                       const Ints& axes) {
  if (!source_.has(name)) {
    throw Error("it has no tensor " + quote_text(name) + ", which its configuration asks for with shape " +
                shape_text_of(shape));
  }
  if (const std::vector<size_t> found = source_.shape(name); found != shape) {
    throw Error("tensor " + quote_text(name) + " has shape " + shape_text_of(found) +
                ", its configuration asks for " + shape_text_of(shape));
  }
  if (!added_.insert(name).second) return;
  if (std::optional<QuantizedTensor> codes = source_.codes(name)) {
    auto tensor = std::make_shared<QuantizedTensor>(std::move(*codes));
    graph::set_codes(graph, name, {.tensor = std::move(tensor), .axes = axes});
  } else if (auto read = graph::count_elements(Ints(shape.begin(), shape.end())).take() < kLeastUnread
                             ? nullptr
                             : source_.later(name)) {
    add_unread(graph, name, std::move(read), shape, axes);
  } else {
    add_floats(graph, name, source_.floats(name), shape, axes);
  }
}

void ModelWeights::add_floats(graph::Graph& graph, const std::string& name, const std::vector<float>& values,
                              const std::vector<size_t>& shape, const Ints& axes) {
  const Ints sizes(shape.begin(), shape.end());
  const graph::Tensor& constant = graph.initializers[name] =
      std::ranges::is_sorted(axes)
          ? graph::Tensor::floats(sizes, values)
          : graph::Tensor::floats(graph::permuted_shape(sizes, axes), graph::permuted(values, sizes, axes));
  graph.values[name] = value_of(constant);
}

void ModelWeights::add_unread(graph::Graph& graph, const std::string& name,
                              std::function<std::vector<float>()> read, const std::vector<size_t>& shape,
                              const Ints& axes) {
  const graph::Tensor& constant = graph.initializers[name] =
      graph::transposed(graph::Tensor::unread(Ints(shape.begin(), shape.end()), std::move(read)), axes);
  graph.values[name] = value_of(constant);
}

std::vector<std::string> ModelWeights::unused() const {
  std::vector<std::string> names = source_.names();
  std::erase_if(names, [&](const std::string& name) { return added_.contains(name); });
  return names;
}

}  // namespace crumb::models
