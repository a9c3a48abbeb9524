#include "jobs/samples/tokenized_lines.h"

#include "base/error.h"
#include "base/files/text.h"
#include "jobs/samples/read_lines.h"

namespace crumb::jobs {

std::vector<std::vector<std::int64_t>> tokenized_lines(const std::string& file,
                                                       const runtime::SentenceTokenizer& tokenizer) {
  std::vector<std::vector<std::int64_t>> lines;
  for (const std::string& line : read_lines(file)) {
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    const auto ids = tokenizer.encode(line);
    if (ids.empty()) continue;  // words of characters that the tokenizer drops
    lines.emplace_back(ids.begin(), ids.end());
  }
  if (lines.empty()) throw usage_error(quote_text(file) + " holds no line with words");
  return lines;
}

}  // namespace crumb::jobs
