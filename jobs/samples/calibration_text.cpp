#include "jobs/samples/calibration_text.h"

#include <algorithm>

#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "jobs/samples/training_text.h"
#include "models/decoder_inputs.h"

namespace crumb::jobs {

using graph::Tensor;

CalibrationText::CalibrationText(const graph::Graph& graph, const text::TextTokenizer& tokenizer,
                                 const text::ReadFile& read, const std::vector<std::string>& files,
                                 std::size_t most, std::size_t positions, Observer& observer)
    : graph_(&graph), first_(tokenizer.first_token()), length_(std::min(kCalibrationWindow, positions)) {
  for (const std::string& file : files) {
    const std::vector<std::int64_t> tokens = read_training_text(file, tokenizer, read, observer).tokens;
    for (const std::int64_t token : tokens) ids_.push_back(static_cast<text::TokenId>(token));
  }
  if (most > 0 && ids_.size() > most) ids_.resize(most);
  if (ids_.empty())
    throw Error(observer.spelled("data") + " " + quote_text(files.front()) + " holds no text");
}

std::vector<Tensor> CalibrationText::window(std::size_t begin, std::size_t count) const {
  std::vector<std::int64_t> ids(ids_.begin() + static_cast<std::ptrdiff_t>(begin),
                                ids_.begin() + static_cast<std::ptrdiff_t>(begin + count));
  if (first_ && ids[0] != *first_) ids.insert(ids.begin(), *first_);  // a template may have written it
  return models::decoder_inputs(*graph_, ids, 1);
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

}  // namespace crumb::jobs
