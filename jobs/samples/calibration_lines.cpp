#include "jobs/samples/calibration_lines.h"

#include <algorithm>

#include "base/files/interrupt.h"
#include "jobs/samples/tokenized_lines.h"
#include "models/encoder_inputs.h"

namespace crumb::jobs {
namespace {

constexpr std::size_t kMostTokens = 2048;  // of a batch

}  // namespace

CalibrationLines::CalibrationLines(const graph::Graph& graph, const runtime::SentenceTokenizer& tokenizer,
                                   const std::vector<std::string>& files, std::size_t most)
    : graph_(&graph), unpooled_(tokenizer.unpooled()) {
  std::size_t tokens = 0;
  for (const std::string& file : files) {
    for (std::vector<std::int64_t>& line : tokenized_lines(file, tokenizer)) {
      if (most > 0 && tokens >= most) break;
      tokens += line.size();
      lines_.push_back(std::move(line));
    }
  }
  std::ranges::stable_sort(lines_, {}, [](const auto& line) { return line.size(); });
}

graph::Batches CalibrationLines::batches() const {
  return [this](const auto& batch) {
    for (std::size_t begin = 0; begin < lines_.size();) {
      check_interrupt();
      const std::size_t length = lines_[begin].size();
      const std::size_t most = std::max<std::size_t>(1, kMostTokens / length);
      std::size_t end = begin + 1;
      while (end < lines_.size() && end - begin < most && lines_[end].size() == length) ++end;
      batch(models::encoder_inputs(*graph_,
                                   {lines_.begin() + static_cast<std::ptrdiff_t>(begin),
                                    lines_.begin() + static_cast<std::ptrdiff_t>(end)},
                                   unpooled_));
      begin = end;
    }
  };
}

}  // namespace crumb::jobs
