#include "models/encoder_inputs.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/text.h"
#include "formats/checkpoint/sentence_modules.h"

namespace crumb::models {

bool is_encoder(const graph::Graph& graph) {
  return std::ranges::find(graph.outputs, "last_hidden_state") != graph.outputs.end();
}

std::vector<graph::Tensor> encoder_inputs(const graph::Graph& graph,
                                          const std::vector<std::vector<std::int64_t>>& lines,
                                          std::size_t unpooled,
                                          const std::vector<std::vector<std::int64_t>>& types) {
  std::size_t longest = 0;
  for (const auto& line : lines) longest = std::max(longest, line.size());
  std::vector<std::int64_t> ids(lines.size() * longest), mask(ids.size()), pooled(ids.size()),
      type_of(ids.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto at = static_cast<std::ptrdiff_t>(i * longest);
    std::ranges::copy(lines[i], ids.begin() + at);
    std::fill_n(mask.begin() + at, lines[i].size(), 1);
    if (i < types.size()) std::ranges::copy(types[i], type_of.begin() + at);
    const std::size_t out = std::min(unpooled, lines[i].size());
    std::fill_n(pooled.begin() + at + static_cast<std::ptrdiff_t>(out), lines[i].size() - out, 1);
  }
  const std::vector<std::int64_t> shape = {static_cast<std::int64_t>(lines.size()),
                                           static_cast<std::int64_t>(longest)};
  std::vector<graph::Tensor> inputs;
  for (const std::string& name : graph.inputs) {
    if (name == "input_ids") {
      inputs.push_back(graph::Tensor::ints(shape, ids));
    } else if (name == "attention_mask") {
      inputs.push_back(graph::Tensor::ints(shape, mask));
    } else if (name == kPooledInput) {
      inputs.push_back(graph::Tensor::ints(shape, pooled));
    } else if (name == "token_type_ids") {
      inputs.push_back(graph::Tensor::ints(shape, type_of));
    } else {
      throw Error("lines are for a sentence encoder; nothing says what to give the graph's input " +
                  quote_text(name));
    }
  }
  return inputs;
}

}  // namespace crumb::models
