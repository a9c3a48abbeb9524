#include "tasks/language/student/part_values.h"

#include <algorithm>
#include <set>
#include <utility>

#include "graph/onnx/infer_shapes.h"
#include "models/decoder.h"

namespace crumb::tasks {

PartValues::PartValues(const graph::Graph& decoder, std::vector<Named> batches)
    : own_(decoder.inputs), values_(std::move(batches)) {
  const graph::Graph whole =
      graph::infer_shapes(decoder);  // parts keep the known shapes of the values between them
  parts_ = graph::cut_behind(whole, models::layer_outputs(whole));
}

std::vector<at::Tensor> PartValues::inputs(std::size_t part, std::size_t batch) const {
  std::vector<at::Tensor> taken;
  for (const std::string& name : graph(part).inputs) taken.push_back(values_[batch].at(name));
  return taken;
}

void PartValues::put(std::size_t part, std::size_t batch, std::vector<at::Tensor> outputs) {
  Named& values = values_[batch];
  for (const std::string& value : parts_[part].last_read) values.erase(value);
  // No later part reads the states of the last part.
  for (std::size_t i = part + 1 < parts() ? 0 : 1; i < outputs.size(); ++i)
    values[graph(part).outputs[i]] = std::move(outputs[i]);
}

std::size_t PartValues::carried() const {
  std::size_t count = 0;
  for (const Named& values : values_)
    for (const auto& [name, value] : values) count += std::ranges::find(own_, name) == own_.end() ? 1 : 0;
  return count;
}

}  // namespace crumb::tasks
