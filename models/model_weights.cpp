#include "models/model_weights.h"

#include <algorithm>

#include "base/files/text.h"
#include "quant/packed_tensor.h"

namespace crumb::models {
namespace {

using Ints = std::vector<std::int64_t>;

/// The tensor as codes.
graph::QuantizedConstant codes_of(const CrumbFile& file, const std::string& name, const Ints& axes) {
  return {.tensor = std::make_shared<QuantizedTensor>(copy_encoded(file, *file.find(name)).take()),
          .axes = axes};
}

graph::Tensor floats_of(const TensorSource& source, const SourceTensor& tensor, const Ints& axes) {
  const Ints shape(tensor.shape.begin(), tensor.shape.end());
  const std::vector<float> values = source.floats(tensor);
  if (std::ranges::is_sorted(axes)) return graph::Tensor::floats(shape, values);
  return graph::Tensor::floats(graph::permuted_shape(shape, axes), graph::permuted(values, shape, axes));
}

}  // namespace

ModelWeights::ModelWeights(const TensorSource& source) : source_(source) {
  const Checkpoint* checkpoint = source.checkpoint();
  if (checkpoint && checkpoint->quantized()) {
    throw Error("it is already quantized by another tool: " + *checkpoint->quantized());
  }
}

std::optional<std::string> ModelWeights::text(const std::string& path) const {
  const auto text_of = [](std::span<const std::byte> bytes) {
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  if (const CrumbFile* crumb = source_.crumb()) {
    const PackedFile* entry = crumb->find_file(path);
    if (!entry) return std::nullopt;
    return text_of(crumb->load(entry->blob, "file " + quote_text(path)).take().bytes());
  }
  const ModelFile* entry = source_.checkpoint()->find_file(path);
  return entry ? std::optional(text_of(entry->bytes)) : std::nullopt;
}

void ModelWeights::add(graph::Graph& graph, const std::string& name, const std::vector<size_t>& shape,
                       const Ints& axes) {
  const std::vector<std::uint64_t> expected(shape.begin(), shape.end());
  const SourceTensor* tensor = source_.find(name);
  if (!tensor) {
    throw Error("it has no tensor " + quote_text(name) + ", which its configuration asks for with shape " +
                shape_text(expected));
  }
  if (tensor->shape != expected) {
    throw Error("tensor " + quote_text(name) + " has shape " + shape_text(tensor->shape) +
                ", its configuration asks for " + shape_text(expected));
  }
  if (!added_.insert(name).second) return;
  const bool is_quantized = source_.crumb() && !tensor->spec.empty();
  if (is_quantized) {
    const auto& constant = graph.quantized[name] = codes_of(*source_.crumb(), name, axes);
    const Ints sizes = constant.shape();
    graph.values[name] = {.type = graph::ElementType::kFloat,
                          .shape = graph::Shape(sizes.begin(), sizes.end())};
  } else {
    const graph::Tensor& constant = graph.initializers[name] = floats_of(source_, *tensor, axes);
    graph.values[name] = value_of(constant);
  }
}

std::vector<std::string> ModelWeights::unused() const {
  std::vector<std::string> names;
  for (const SourceTensor& tensor : source_.tensors()) {
    if (!added_.contains(tensor.name)) names.push_back(tensor.name);
  }
  return names;
}

}  // namespace crumb::models
