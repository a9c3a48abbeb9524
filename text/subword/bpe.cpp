#include "text/subword/bpe.h"

#include <queue>

#include "base/files/text.h"
#include "base/utf8.h"

namespace crumb::text {
namespace {

std::uint64_t pair_key(TokenId left, TokenId right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

}  // namespace

Result<Bpe> Bpe::make(TokenTable tokens, const std::vector<std::pair<std::string, std::string>>& merges,
                      Options options) {
  Bpe bpe(std::move(tokens), std::move(options));
  if (bpe.options_.unknown) {
    bpe.unknown_ = bpe.tokens_.find(*bpe.options_.unknown);
    if (!bpe.unknown_)
      return Failure{"unk_token " + quote_text(*bpe.options_.unknown) + " is not in the vocabulary"};
  }
  const std::size_t prefix = bpe.options_.continuing_prefix.size();
  bpe.merges_.reserve(merges.size());
  std::string whole;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    if (right.size() < prefix)
      return Failure{"merge " + std::to_string(rank) + " has a part without the prefix"};
    whole.assign(left).append(right, prefix);
    const auto a = bpe.tokens_.find(left), b = bpe.tokens_.find(right), made = bpe.tokens_.find(whole);
    if (!a || !b || !made) {
      const std::string& missing = !a ? left : !b ? right : whole;
      return Failure{"merge " + std::to_string(rank) + ": " + quote_text(missing) +
                     " is not in the vocabulary"};
    }
    bpe.merges_.insert_or_assign(pair_key(*a, *b), Merge{static_cast<std::uint32_t>(rank), *made});
  }
  return bpe;
}

const Bpe::Merge* Bpe::find_merge(TokenId left, TokenId right) const {
  const auto entry = merges_.find(pair_key(left, right));
  return entry == merges_.end() ? nullptr : &entry->second;
}

std::vector<TokenId> Bpe::characters(std::string_view piece) const {
  std::vector<TokenId> symbols;
  symbols.reserve(piece.size());
  bool unknown_waits = false;  // it is added when the next known character comes, as `tokenizers` does
  const auto flush = [&] {
    if (unknown_waits) symbols.push_back(*unknown_);
    unknown_waits = false;
  };
  std::string name;
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t length = first_character(piece.substr(at)).length;
    const std::string_view character = piece.substr(at, length);
    const bool is_first = at == 0;
    at += length;
    name.assign(is_first ? "" : options_.continuing_prefix).append(character);
    if (at == piece.size()) name += options_.end_suffix;
    if (const auto id = tokens_.find(name)) {
      flush();
      symbols.push_back(*id);
      continue;
    }
    if (options_.byte_fallback) {
      const std::size_t before = symbols.size();
      for (const char c : name) {
        const auto id = find_byte(tokens_, static_cast<unsigned char>(c));
        if (!id) break;
        symbols.push_back(*id);
      }
      if (symbols.size() == before + name.size()) continue;
      symbols.resize(before);
    }
    if (!unknown_) continue;
    if (!options_.fuse_unknown) flush();
    unknown_waits = true;
  }
  flush();
  return symbols;
}

void Bpe::merge(std::vector<TokenId> symbols, std::vector<TokenId>& ids) const {
  struct Candidate {
    std::uint32_t rank;
    std::size_t at;
    TokenId id;
    bool operator<(const Candidate& other) const {  // the queue's top is the largest
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  constexpr std::size_t kNone = SIZE_MAX;
  constexpr TokenId kGone = -1;
  const std::size_t count = symbols.size();
  std::vector<std::size_t> before(count), after(count);
  std::priority_queue<Candidate> queue;
  const auto offer = [&](std::size_t left, std::size_t right) {
    if (const Merge* found = find_merge(symbols[left], symbols[right]))
      queue.push({found->rank, left, found->id});
  };
  for (std::size_t i = 0; i < count; ++i) {
    before[i] = i == 0 ? kNone : i - 1;
    after[i] = i + 1 == count ? kNone : i + 1;
    if (after[i] != kNone) offer(i, i + 1);
  }
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    if (symbols[top.at] == kGone || after[top.at] == kNone) continue;
    const std::size_t right = after[top.at];
    const Merge* const found = find_merge(symbols[top.at], symbols[right]);
    if (found == nullptr || found->id != top.id) continue;  // one of the two has been merged since
    symbols[top.at] = top.id;
    symbols[right] = kGone;
    after[top.at] = after[right];
    if (after[right] != kNone) before[after[right]] = top.at;
    if (before[top.at] != kNone) offer(before[top.at], top.at);
    if (after[top.at] != kNone) offer(top.at, after[top.at]);
  }
  for (const TokenId id : symbols) {
    if (id != kGone) ids.push_back(id);
  }
}

void Bpe::encode(std::string_view piece, std::vector<TokenId>& ids) const {
  if (piece.empty()) return;
  if (options_.ignore_merges) {
    if (const auto id = tokens_.find(piece)) return ids.push_back(*id);
  }
  merge(characters(piece), ids);
}

}  // namespace crumb::text
