// What a graph's symbols of open sizes stand for. A symbol may be a sum of others and of numbers, as exporters of decoders write
// the mask's length: "past + sequence", "past_sequence_length + 1".
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

class SymbolSizes {
 public:
  /// Says what a symbol is; false where it is something else already. Of a sum, terms that are not known yet become 1 but for the
  /// last, which becomes the rest, or 0 where that would be less than 1; false where the terms do not give the size.
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

/// Which dimension does not fit the shape of an input, if one does not: numbers, and symbols, by themselves or (`are_sums`) sums whose
/// terms are known. Inputs are asked for the former first, and then for the latter: others may say their terms. A sum of what no
/// input says fits any size. Precondition: as many sizes as the shape has.
std::optional<std::size_t> misfit(const Shape& shape, std::span<const std::int64_t> sizes, bool are_sums,
                                  SymbolSizes& symbols);

}  // namespace crumb::graph
