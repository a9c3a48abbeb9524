// The sizes of a graph's symbolic dimensions. A symbol may be a sum of other symbols and of numbers, as
// exporters of decoders write the mask's length: "past + sequence", "past_sequence_length + 1".
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

class SymbolSizes {
 public:
  /// Sets the size of a symbol; returns false where it has another size already. In a sum, each unknown term
  /// becomes 1, except the last, which becomes the rest, or 0 where the rest is less than 1; returns false
  /// where the terms do not add up to the size.
  bool set(const std::string& symbol, std::int64_t size);

  /// Returns the unknown terms of a sum, or the symbol itself if it is unknown.
  std::vector<std::string> open_terms(const std::string& symbol) const;

  /// Sets the symbol, or each unknown term of a sum, to 1.
  void complete(const std::string& symbol);

  /// Returns the size; nothing where the symbol, or a term of it, is unknown. Throws Error where a sum does
  /// not fit 64 bits.
  std::optional<std::int64_t> find(const std::string& symbol) const;

  /// From here on the symbol has no size, and fits any: it is a name that says nothing.
  void forget(const std::string& symbol);
  bool is_forgotten(const std::string& symbol) const { return forgotten_.contains(symbol); }

  static bool is_sum(const std::string& symbol);

 private:
  std::map<std::string, std::int64_t> sizes_;
  std::set<std::string, std::less<>> forgotten_;
};

/// Returns the symbols, sums aside, that would have several sizes in one input. Some exporters (PaddlePaddle)
/// give every open axis of an input the same name, which says nothing then. Precondition: as many sizes as
/// the shape has.
std::set<std::string> symbols_of_several_sizes(const Shape& shape, std::span<const std::int64_t> sizes);

/// Returns the first dimension that does not fit the size of an input, if there is one. Checks numbers and
/// single symbols, or, with `are_sums`, sums whose terms are known. Callers check all inputs without sums
/// first, because other inputs may set the terms. A sum with unknown terms fits any size, and so does a
/// symbol of several sizes in one input, which is forgotten. Precondition: as many sizes as the shape has.
std::optional<std::size_t> misfit(const Shape& shape, std::span<const std::int64_t> sizes, bool are_sums,
                                  SymbolSizes& symbols);

}  // namespace crumb::graph
