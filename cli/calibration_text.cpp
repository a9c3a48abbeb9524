#include "cli/calibration_text.h"

#include <algorithm>
#include <numeric>

#include "base/files/interrupt.h"
#include "base/files/mapped_file.h"
#include "base/files/text.h"

namespace crumb::cli {
namespace {

using graph::Tensor;

constexpr std::uint64_t kMostTextBytes = std::uint64_t{1} << 30;

/// Keys or values before the first token: no places.
Tensor no_past(const graph::Graph& graph, const std::string& name) {
  const graph::Value* value = graph.find(name);
  if (!value || !value->shape || value->type != graph::ElementType::kFloat)
    throw Error("text is for a decoder; nothing says what to give the graph's input " + quote_text(name));
  std::vector<std::int64_t> shape;
  for (const graph::Dim& dim : *value->shape) shape.push_back(dim.known() ? dim.size : shape.empty() ? 1 : 0);
  const auto size = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  return Tensor::floats(shape, std::vector<float>(static_cast<std::size_t>(size)));
}

}  // namespace

CalibrationText::CalibrationText(const graph::Graph& graph, const text::TextTokenizer& tokenizer,
                                 const std::vector<std::string>& files, std::size_t most,
                                 std::size_t positions)
    : graph_(&graph), first_(tokenizer.first_token()), length_(std::min(kCalibrationWindow, positions)) {
  for (const std::string& file : files) {
    const std::vector<text::TokenId> ids =
        tokenizer.encode(read_text_file(file, kMostTextBytes).take(), false);
    ids_.insert(ids_.end(), ids.begin(), ids.end());
  }
  if (most > 0 && ids_.size() > most) ids_.resize(most);
  if (ids_.empty()) throw Error("--data " + quote_text(files.front()) + " holds no text");
}

std::vector<Tensor> CalibrationText::window(std::size_t begin, std::size_t count) const {
  std::vector<std::int64_t> ids(ids_.begin() + static_cast<std::ptrdiff_t>(begin),
                                ids_.begin() + static_cast<std::ptrdiff_t>(begin + count));
  if (first_) ids.insert(ids.begin(), *first_);
  const std::vector<std::int64_t> shape = {1, static_cast<std::int64_t>(ids.size())};
  std::vector<std::int64_t> positions(ids.size());
  std::iota(positions.begin(), positions.end(), std::int64_t{0});
  std::vector<Tensor> inputs;
  for (const std::string& name : graph_->inputs) {
    if (name == "input_ids") {
      inputs.push_back(Tensor::ints(shape, ids));
    } else if (name == "attention_mask") {
      inputs.push_back(Tensor::ints(shape, std::vector<std::int64_t>(ids.size(), 1)));
    } else if (name == "position_ids") {
      inputs.push_back(Tensor::ints(shape, positions));
    } else {
      inputs.push_back(no_past(*graph_, name));
    }
  }
  return inputs;
}

graph::Batches CalibrationText::batches() const {
  return [this](const auto& batch) {
    const std::size_t step = std::max<std::size_t>(length_ - (first_ ? 1 : 0), 1);
    for (std::size_t begin = 0; begin < ids_.size(); begin += step) {
      check_interrupt();
      batch(window(begin, std::min(step, ids_.size() - begin)));
    }
  };
}

}  // namespace crumb::cli
