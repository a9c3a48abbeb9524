// Tokens by id and ids by token.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "text/wordpiece.h"

namespace crumb::text {

/// Of two tokens with the same text, or the same id, the later one wins.
class TokenTable {
 public:
  TokenTable() = default;
  TokenTable(TokenTable&&) = default;
  TokenTable& operator=(TokenTable&&) = default;
  TokenTable(const TokenTable&) = delete;
  TokenTable& operator=(const TokenTable&) = delete;

  void add(std::string_view token, TokenId id) {
    const auto entry = ids_.insert_or_assign(std::string(token), id).first;
    tokens_[id] = &entry->first;
    largest_ = std::max(largest_, id);
  }

  std::optional<TokenId> find(std::string_view token) const {
    const auto entry = ids_.find(token);
    return entry == ids_.end() ? std::nullopt : std::optional(entry->second);
  }
  /// Null where no token has the id.
  const std::string* token(TokenId id) const {
    const auto entry = tokens_.find(id);
    return entry == tokens_.end() ? nullptr : entry->second;
  }

  /// Calls visit(token, id) for each, in no order.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const auto& [token, id] : ids_) visit(token, id);
  }

  std::size_t size() const { return ids_.size(); }
  /// -1 for an empty table.
  TokenId largest_id() const { return largest_; }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
  };
  std::unordered_map<std::string, TokenId, Hash, std::equal_to<>> ids_;
  std::unordered_map<TokenId, const std::string*> tokens_;  // nodes of ids_, whose addresses do not change
  TokenId largest_ = -1;
};

/// The id of the token for a byte, "<0x0A>" and the like, where the table has it.
std::optional<TokenId> find_byte(const TokenTable& tokens, unsigned char byte);

}  // namespace crumb::text
