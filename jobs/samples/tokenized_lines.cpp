#include "jobs/samples/tokenized_lines.h"

#include "base/error.h"
#include "base/files/text.h"
#include "jobs/samples/read_lines.h"

namespace crumb::jobs {
namespace {

bool has_words(const std::string& text) { return text.find_first_not_of(" \t") != std::string::npos; }

Error no_words(const std::string& file) {
  return usage_error(quote_text(file) + " holds no line with words");
}

}  // namespace

std::vector<std::vector<std::int64_t>> tokenized_lines(const std::string& file,
                                                       const runtime::SentenceTokenizer& tokenizer) {
  std::vector<std::vector<std::int64_t>> lines;
  for (const std::string& line : read_lines(file)) {
    if (!has_words(line)) continue;
    const auto ids = tokenizer.encode(line);
    if (ids.empty()) continue;  // words of characters that the tokenizer drops
    lines.emplace_back(ids.begin(), ids.end());
  }
  if (lines.empty()) throw no_words(file);
  return lines;
}

std::vector<TypedLine> tokenized_pairs(const std::string& file, const runtime::SentenceTokenizer& tokenizer) {
  std::vector<TypedLine> lines;
  for (const runtime::TextPair& pair : read_pairs(file)) {
    if (!has_words(pair.first) && !has_words(pair.second)) continue;
    const text::PairTokens row = tokenizer.encode(pair);
    if (row.ids.empty()) continue;
    lines.push_back({.ids = {row.ids.begin(), row.ids.end()}, .types = row.types});
  }
  if (lines.empty()) throw no_words(file);
  return lines;
}

}  // namespace crumb::jobs
