#include "tasks/language/student/part_inputs.h"

#include <algorithm>

#include "graph/onnx/infer_shapes.h"
#include "graph/part.h"
#include "models/decoder.h"

namespace crumb::tasks {

PartInputs::PartInputs(const graph::Graph& decoder, std::vector<std::vector<at::Tensor>> own)
    : decoder_(graph::infer_shapes(decoder)), own_(std::move(own)) {}

std::vector<graph::Graph> PartInputs::layers() const {
  std::vector<graph::Graph> parts;
  std::vector<std::string> before;
  for (const std::string& output : models::layer_outputs(decoder_)) {
    parts.push_back(graph::part_of(decoder_, before, {output}));
    before = {output};
  }
  return parts;
}

std::vector<at::Tensor> PartInputs::of(const graph::Graph& part, std::size_t batch,
                                       const at::Tensor& states) const {
  std::vector<at::Tensor> inputs;
  for (const std::string& name : part.inputs) {
    const auto at =
        static_cast<std::size_t>(std::ranges::find(decoder_.inputs, name) - decoder_.inputs.begin());
    inputs.push_back(at < decoder_.inputs.size() ? own_[batch][at] : states);
  }
  return inputs;
}

}  // namespace crumb::tasks
