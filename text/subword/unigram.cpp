#include "text/subword/unigram.h"

#include <algorithm>
#include <cmath>

#include "base/utf8.h"

namespace crumb::text {
namespace {

constexpr double kUnknownPenalty = 10;

unsigned char byte_at(const std::string& text, std::size_t i) { return static_cast<unsigned char>(text[i]); }

}  // namespace

Result<Unigram> Unigram::make(const std::vector<std::pair<std::string, double>>& vocabulary,
                              Options options) {
  Unigram made;
  made.options_ = options;
  if (options.unknown && *options.unknown >= vocabulary.size())
    return Failure{"unk_id is past the vocabulary"};
  double least = INFINITY;
  for (std::size_t id = 0; id < vocabulary.size(); ++id) {
    made.tokens_.add(vocabulary[id].first, static_cast<TokenId>(id));
    if (std::isfinite(vocabulary[id].second)) least = std::min(least, vocabulary[id].second);
  }
  made.unknown_score_ = least - kUnknownPenalty;
  if (options.single_precision) made.unknown_score_ = static_cast<float>(made.unknown_score_);
  for (std::size_t id = 0; id < vocabulary.size(); ++id) {
    const auto& [token, score] = vocabulary[id];
    const auto own = static_cast<TokenId>(id);
    if (!token.empty() && std::isfinite(score) && made.tokens_.find(token) == own)
      made.sorted_.push_back({token, own, score});
  }
  std::ranges::sort(made.sorted_, {}, &Entry::token);
  for (std::size_t i = 0, byte = 0; byte < 257; ++byte) {
    while (i < made.sorted_.size() && byte_at(made.sorted_[i].token, 0) < byte) ++i;
    made.first_byte_[byte] = i;
  }
  return made;
}

void Unigram::add(std::string_view part, std::vector<TokenId>& ids) const {
  if (const auto id = tokens_.find(part)) return ids.push_back(*id);
  if (options_.byte_fallback) {
    const std::size_t before = ids.size();
    for (const char c : part) {
      const auto id = find_byte(tokens_, static_cast<unsigned char>(c));
      if (!id) break;
      ids.push_back(*id);
    }
    if (ids.size() == before + part.size()) return;
    ids.resize(before);
  }
  if (!options_.unknown) throw Error("the text has a character that no token covers, and there is no unk_id");
  ids.push_back(static_cast<TokenId>(*options_.unknown));
}

void Unigram::encode(std::string_view text, std::vector<TokenId>& ids) const {
  constexpr std::size_t kNowhere = SIZE_MAX;
  struct Node {
    double score = 0;
    std::size_t begin = kNowhere;
    bool unknown = false;
  };
  std::vector<Node> best(text.size() + 1);
  const auto offer = [&](std::size_t begin, std::size_t end, double score, bool unknown) {
    double sum = score + best[begin].score;
    if (options_.single_precision) sum = static_cast<float>(sum);
    if (best[end].begin == kNowhere || sum > best[end].score) best[end] = {sum, begin, unknown};
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = first_character(text.substr(at)).length;
    const auto first = static_cast<unsigned char>(text[at]);
    auto low = sorted_.begin() + static_cast<std::ptrdiff_t>(first_byte_[first]);
    auto high = sorted_.begin() + static_cast<std::ptrdiff_t>(first_byte_[first + 1]);
    bool covered = false;
    for (std::size_t used = 1; low != high && at + used <= text.size(); ++used) {
      if (low->token.size() == used) {
        const bool is_unknown = options_.unknown && low->id == static_cast<TokenId>(*options_.unknown);
        offer(at, at + used, low->score, is_unknown);
        covered |= used == length;
        ++low;
      }
      if (at + used == text.size()) break;
      const auto next = static_cast<unsigned char>(text[at + used]);
      const auto byte = [used](const Entry& entry) { return byte_at(entry.token, used); };
      low = std::ranges::lower_bound(low, high, next, {}, byte);
      high = std::ranges::upper_bound(low, high, next, {}, byte);
    }
    if (!covered) offer(at, at + length, unknown_score_, true);
    at += length;
  }
  std::vector<std::string_view> parts;  // from the end
  bool was_unknown = false;
  for (std::size_t end = text.size(); end > 0;) {
    const Node& node = best[end];
    const std::string_view part = text.substr(node.begin, end - node.begin);
    if (node.unknown && was_unknown && options_.unknown) {
      parts.back() = text.substr(node.begin, part.size() + parts.back().size());
    } else {
      parts.push_back(part);
    }
    was_unknown = node.unknown;
    end = node.begin;
  }
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) add(*part, ids);
}

}  // namespace crumb::text
