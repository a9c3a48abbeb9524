#include "graph/symbol_sizes.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files/text.h"

namespace crumb::graph {
namespace {

/// Whether it may be a name or a number: other arithmetic is not understood.
bool is_term(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return std::isalnum(byte) != 0 || byte >= 0x80 ||
           std::string_view("_.: ").find(c) != std::string_view::npos;
  });
}

/// Returns the terms of "a + 1 + b" without blanks around them; one term where the symbol is not a sum.
std::vector<std::string> terms_of(std::string_view symbol) {
  std::vector<std::string> terms;
  for (std::string_view rest = symbol;;) {
    const std::size_t plus = std::min(rest.find('+'), rest.size());
    std::string_view term = rest.substr(0, plus);
    while (term.starts_with(' ')) term.remove_prefix(1);
    while (term.ends_with(' ')) term.remove_suffix(1);
    if (!is_term(term)) return {std::string(symbol)};  // not a sum that we understand
    terms.emplace_back(term);
    if (plus == rest.size()) break;
    rest.remove_prefix(plus + 1);
  }
  if (terms.size() == 1) return {std::string(symbol)};
  return terms;
}

std::optional<std::int64_t> number_of(const std::string& term) {
  std::int64_t number = 0;
  const char* const end = term.data() + term.size();
  const auto [at, error] = std::from_chars(term.data(), end, number);
  constexpr std::int64_t kMost = std::int64_t{1} << 40;  // sums of sizes stay in 64 bits
  if (error != std::errc() || at != end || number < 0 || number > kMost) return std::nullopt;
  return number;
}

}  // namespace

bool SymbolSizes::is_sum(const std::string& symbol) {
  // Most symbols are no sums, and every run of a network asks.
  return symbol.find('+') != std::string::npos && terms_of(symbol).size() > 1;
}

void SymbolSizes::forget(const std::string& symbol) {
  sizes_.erase(symbol);
  forgotten_.insert(symbol);
}

bool SymbolSizes::set(const std::string& symbol, std::int64_t size) {
  if (is_forgotten(symbol)) return true;
  if (!is_sum(symbol)) return sizes_.emplace(symbol, size).first->second == size;
  const std::vector<std::string> terms = terms_of(symbol);
  const std::vector<std::string> open = open_terms(symbol);
  for (const std::string& term : open) sizes_[term] = 0;
  const std::int64_t known = *find(symbol);
  if (!open.empty() && size > known) {
    const auto times = [&](const std::string& term) { return std::ranges::count(terms, term); };
    std::int64_t left = size - known;
    for (const std::string& term : std::span(open).first(open.size() - 1)) {
      if (left - times(term) < times(open.back())) continue;
      sizes_[term] = 1;
      left -= times(term);
    }
    sizes_[open.back()] = left / times(open.back());
  }
  return *find(symbol) == size;
}

std::vector<std::string> SymbolSizes::open_terms(const std::string& symbol) const {
  const std::vector<std::string> terms = terms_of(symbol);
  std::vector<std::string> open;
  for (const std::string& term : terms) {
    const bool is_number = terms.size() > 1 && number_of(term);
    if (!is_number && !sizes_.contains(term) && std::ranges::find(open, term) == open.end())
      open.push_back(term);
  }
  return open;
}

void SymbolSizes::complete(const std::string& symbol) {
  const std::vector<std::string> terms = terms_of(symbol);
  for (const std::string& term : terms)
    if ((terms.size() == 1 || !number_of(term)) && !is_forgotten(term)) sizes_.emplace(term, 1);
}

std::optional<std::int64_t> SymbolSizes::find(const std::string& symbol) const {
  const std::vector<std::string> terms = terms_of(symbol);
  std::int64_t sum = 0;
  for (const std::string& term : terms) {
    const std::optional<std::int64_t> number = terms.size() > 1 ? number_of(term) : std::nullopt;
    const auto known = sizes_.find(term);
    if (!number && known == sizes_.end()) return std::nullopt;
    if (__builtin_add_overflow(sum, number ? *number : known->second, &sum))
      throw Error("the size " + quote_text(symbol) + " is beyond 64 bits");
  }
  return sum;
}

std::set<std::string> symbols_of_several_sizes(const Shape& shape, std::span<const std::int64_t> sizes) {
  std::map<std::string_view, std::int64_t> first;
  std::set<std::string> several;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::string& symbol = shape[i].symbol;
    if (shape[i].known() || symbol.empty() || SymbolSizes::is_sum(symbol)) continue;
    if (first.emplace(symbol, sizes[i]).first->second != sizes[i]) several.insert(symbol);
  }
  return several;
}

std::optional<std::size_t> misfit(const Shape& shape, std::span<const std::int64_t> sizes, bool are_sums,
                                  SymbolSizes& symbols) {
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Dim& dim = shape[i];
    if (dim.known()) {
      if (dim.size != sizes[i]) return i;
      continue;
    }
    if (dim.symbol.empty() || SymbolSizes::is_sum(dim.symbol) != are_sums) continue;
    if (are_sums && !symbols.open_terms(dim.symbol).empty()) continue;
    if (symbols.set(dim.symbol, sizes[i])) continue;
    if (!symbols_of_several_sizes(shape, sizes).contains(dim.symbol)) return i;
    symbols.forget(dim.symbol);
  }
  return std::nullopt;
}

}  // namespace crumb::graph
