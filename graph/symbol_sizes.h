// What a graph's symbols of open sizes stand for. A symbol may be a sum of others and of numbers, as exporters of decoders write
// the mask's length: "past + sequence", "past_sequence_length + 1".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace crumb::graph {

class SymbolSizes {
 public:
  /// Says what a symbol that is no sum is; false where it is something else already.
  bool set(const std::string& symbol, std::int64_t size);

  /// Says what a symbol is. Of a sum, terms that are not known yet become 1 but for the last, which becomes the rest, or 0 where that
  /// would be less than 1; false where the terms do not give the size.
  bool settle(const std::string& symbol, std::int64_t size);

  /// Those of a sum, or the symbol itself, that are not known yet.
  std::vector<std::string> open_terms(const std::string& symbol) const;

  /// What is not known of the symbol, or of the terms of a sum, becomes 1.
  void complete(const std::string& symbol);

  /// Nothing where it, or a term of it, is not known. Throws Error where a sum is beyond 64 bits.
  std::optional<std::int64_t> find(const std::string& symbol) const;

  static bool is_sum(const std::string& symbol);

 private:
  std::map<std::string, std::int64_t> sizes_;
};

}  // namespace crumb::graph
