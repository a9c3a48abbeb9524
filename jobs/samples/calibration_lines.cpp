#include "jobs/samples/calibration_lines.h"

#include <algorithm>
#include <utility>

#include "base/files/interrupt.h"
#include "models/encoder_inputs.h"

namespace crumb::jobs {
namespace {

constexpr std::size_t kMostTokens = 2048;  // of a batch

std::vector<TypedLine> read(const std::string& file, const runtime::SentenceTokenizer& tokenizer,
                            bool pairs) {
  if (pairs) return tokenized_pairs(file, tokenizer);
  std::vector<TypedLine> lines;
  for (std::vector<std::int64_t>& line : tokenized_lines(file, tokenizer))
    lines.push_back({.ids = std::move(line), .types = {}});
  return lines;
}

}  // namespace

CalibrationLines::CalibrationLines(const graph::Graph& graph, const runtime::SentenceTokenizer& tokenizer,
                                   const std::vector<std::string>& files, std::size_t most, bool pairs)
    : graph_(&graph), unpooled_(tokenizer.unpooled()) {
  std::size_t tokens = 0;
  for (const std::string& file : files) {
    for (TypedLine& line : read(file, tokenizer, pairs)) {
      if (most > 0 && tokens >= most) break;
      tokens += line.ids.size();
      lines_.push_back(std::move(line));
    }
  }
  std::ranges::stable_sort(lines_, {}, [](const TypedLine& line) { return line.ids.size(); });
}

graph::Batches CalibrationLines::batches() const {
  return [this](const auto& batch) {
    for (std::size_t begin = 0; begin < lines_.size();) {
      check_interrupt();
      const std::size_t length = lines_[begin].ids.size();
      const std::size_t most = std::max<std::size_t>(1, kMostTokens / length);
      std::size_t end = begin + 1;
      while (end < lines_.size() && end - begin < most && lines_[end].ids.size() == length) ++end;
      std::vector<std::vector<std::int64_t>> ids, types;
      for (std::size_t i = begin; i < end; ++i) {
        ids.push_back(lines_[i].ids);
        types.push_back(lines_[i].types);
      }
      batch(models::encoder_inputs(*graph_, ids, unpooled_, types));
      begin = end;
    }
  };
}

}  // namespace crumb::jobs
