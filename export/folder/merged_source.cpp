#include "export/folder/merged_source.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/text.h"
#include "graph/adapters.h"

namespace crumb::exporting {

MergedSource::MergedSource(const FloatSource& source, const std::vector<Adapter>& adapters)
    : source_(source), files_(source.files()) {
  std::erase(files_, kCrumbGraphFile);
  for (const Adapter& adapter : adapters)
    for (const LowRankUpdate& update : adapter.updates) {
      const std::string matrix = update.module + ".weight";
      const SourceTensor* tensor = source.source().find(matrix);
      if (!tensor)
        throw Error("the adapter is for a layer " + quote_text(update.module) +
                    ", but the model has no tensor " + quote_text(matrix));
      if (tensor->shape != std::vector<std::uint64_t>{update.out, update.in})
        throw Error("the adapter of layer " + quote_text(update.module) + " is for " +
                    std::to_string(update.out) + " x " + std::to_string(update.in) + ", but the tensor " +
                    quote_text(matrix) + " is " + shape_text(tensor->shape));
      updates_[matrix].push_back(update);
    }
}

std::vector<TensorDescription> MergedSource::tensors() const {
  std::vector<TensorDescription> tensors = source_.tensors();
  std::erase_if(tensors, [](const TensorDescription& tensor) { return graph::is_of_adapter(tensor.name); });
  for (TensorDescription& tensor : tensors)
    if (updates_.contains(tensor.name)) tensor.dtype = DType::kF32;
  return tensors;
}

void MergedSource::read_tensor(std::string_view name, const std::filesystem::path& scratch, int threads,
                               const Sink& sink) const {
  const auto found = updates_.find(name);
  if (found == updates_.end()) return source_.read_tensor(name, scratch, threads, sink);
  std::vector<float> values = source_.source().floats(*source_.source().find(name), threads);
  graph::merge(found->second, values);
  sink(std::as_bytes(std::span(values)));
}

}  // namespace crumb::exporting
