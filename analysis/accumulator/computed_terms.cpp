#include "analysis/accumulator/computed_terms.h"

#include <algorithm>
#include <numeric>

#include "base/files/text.h"

namespace crumb::analysis {
namespace {

using Ints = std::vector<std::int64_t>;

/// A size of a value from its front, or (negative) from its back; nothing where it is open.
std::optional<std::int64_t> size_at(const graph::Graph& graph, const std::string& value, std::int64_t axis) {
  const auto shape = graph.shape_of(value);
  if (!shape) return {};
  const auto rank = static_cast<std::int64_t>(shape->size());
  const std::int64_t at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank || !(*shape)[static_cast<std::size_t>(at)].known()) return {};
  return (*shape)[static_cast<std::size_t>(at)].size;
}

std::string text_of_shape(const graph::Graph& graph, const std::string& value) {
  const auto shape = graph.shape_of(value);
  return quote_text(value) + " is " + (shape ? text_of(*shape) : "of unknown shape");
}

Failure open(const graph::Graph& graph, const std::string& a, const std::string& b) {
  return Failure{"how many terms a sum has is open: " + text_of_shape(graph, a) +
                 (a == b ? "" : ", " + text_of_shape(graph, b))};
}

bool is_transposed(const graph::Node& node, const char* flag) {
  return node.is("Gemm") && node.int_or(flag, 0) != 0;
}

std::optional<std::int64_t> matrix_terms(const graph::Graph& graph, const graph::Node& node,
                                         const std::string& a, const std::string& b) {
  if (const auto left = size_at(graph, a, is_transposed(node, "transA") ? -2 : -1)) return left;
  const bool vector = graph.rank_of(b) == std::size_t{1};
  return size_at(graph, b, vector || is_transposed(node, "transB") ? -1 : -2);
}

std::optional<Ints> sizes_of(const graph::Graph& graph, const std::string& value) {
  const auto shape = graph.shape_of(value);
  if (!shape || std::ranges::any_of(*shape, [](const graph::Dim& dim) { return !dim.known(); })) return {};
  Ints sizes;
  for (const graph::Dim& dim : *shape) sizes.push_back(dim.size);
  return sizes;
}

/// Taps of a kernel axis that meet in one result: those of one phase.
std::int64_t taps_of_phase(std::int64_t taps, std::int64_t stride, std::int64_t dilation) {
  if (stride < 1 || dilation < 1) return taps;
  const std::int64_t phases = stride / std::gcd(stride, dilation);
  return taps / phases + (taps % phases != 0 ? 1 : 0);
}

std::optional<std::int64_t> window_terms(const graph::Graph& graph, const graph::Node& node,
                                         const graph::ProductRule& rule, const std::string& weight) {
  auto sizes = sizes_of(graph, weight);
  if (!sizes || sizes->size() < 3) return {};
  if (rule.terms == graph::Terms::kConvolution) {
    (*sizes)[0] = 1;
  } else {
    const std::int64_t groups = std::max<std::int64_t>(1, node.int_or("group", 1));
    const std::size_t spatial = sizes->size() - 2;
    const Ints strides = node.ints_or("strides", Ints(spatial, 1)),
               dilations = node.ints_or("dilations", Ints(spatial, 1));
    (*sizes)[0] /= groups;
    (*sizes)[1] = 1;
    for (std::size_t i = 0; i < spatial && i < strides.size() && i < dilations.size(); ++i)
      (*sizes)[2 + i] = taps_of_phase((*sizes)[2 + i], strides[i], dilations[i]);
  }
  const auto product = graph::count_elements(*sizes);
  return product.ok() ? std::optional(product.value()) : std::nullopt;
}

Result<std::int64_t> equation_terms(const graph::Graph& graph, const graph::Node& node, const std::string& a,
                                    const std::string& b) {
  const auto contraction = contraction_of(node);
  if (!contraction.ok()) return contraction.failure();
  Ints sizes;
  for (const char label : contraction.value().summed) {
    std::optional<std::int64_t> size;
    for (const auto& [value, labels] :
         {std::pair(&a, &contraction.value().a), std::pair(&b, &contraction.value().b)}) {
      // Axes before an ellipsis count from the front, those behind it from the back.
      const std::size_t at = labels->find(label);
      const bool behind = labels->rfind('.', at) != std::string::npos;
      const auto found =
          size_at(graph, *value, static_cast<std::int64_t>(at - (behind ? labels->size() : 0)));
      if (found) size = std::max(size.value_or(*found), *found);
    }
    if (!size) return open(graph, a, b);
    sizes.push_back(*size);
  }
  return graph::count_elements(sizes);
}

Result<std::int64_t> head_width(const graph::Graph& graph, const graph::Node& node, const std::string& q,
                                const std::string& k) {
  if (node.has_input(4)) return Failure{"its keys are those of a cache too, whose grid may be another"};
  const auto last = size_at(graph, q, -1);
  if (!last) return open(graph, q, k);
  if (graph.rank_of(q) == std::size_t{4}) return *last;
  const std::int64_t heads = node.int_or("q_num_heads", 0);
  if (heads < 1 || *last % heads != 0)
    return Failure{text_of_shape(graph, q) + ", which are no " + std::to_string(heads) + " equal heads"};
  return *last / heads;
}

Result<std::int64_t> squares(const graph::Graph& graph, const graph::Node& node, const std::string& a) {
  const auto in = sizes_of(graph, a), out = sizes_of(graph, node.outputs.at(0));
  if (!in || !out) return open(graph, a, a);
  const auto of = graph::count_elements(*in), results = graph::count_elements(*out);
  if (!of.ok() || !results.ok()) return open(graph, a, a);
  return results.value() == 0 ? 0 : of.value() / results.value();
}

}  // namespace

Result<std::int64_t> count_terms(const graph::Graph& graph, const graph::Node& node,
                                 const graph::ProductRule& rule) {
  const std::string &a = node.inputs.at(rule.a), &b = node.inputs.at(rule.b);
  std::optional<std::int64_t> terms;
  switch (rule.terms) {
    case graph::Terms::kEquation: return equation_terms(graph, node, a, b);
    case graph::Terms::kHeads: return head_width(graph, node, a, b);
    case graph::Terms::kSquares: return squares(graph, node, a);
    case graph::Terms::kMatrix: terms = matrix_terms(graph, node, a, b); break;
    case graph::Terms::kConvolution:
    case graph::Terms::kTransposed: terms = window_terms(graph, node, rule, b); break;
    case graph::Terms::kGates:
      terms = size_at(graph, a, -1);
      if (!terms) terms = size_at(graph, b, -1);
      break;
  }
  if (!terms) return open(graph, a, b);
  return *terms;
}

std::optional<std::int64_t> count_channels(const graph::Graph& graph, const graph::Node& node,
                                           const graph::ProductRule& rule) {
  const std::string& b = node.inputs.at(rule.b);
  const bool vector = graph.rank_of(b) == std::size_t{1};
  switch (rule.terms) {
    case graph::Terms::kMatrix:
      return vector ? 1 : size_at(graph, b, is_transposed(node, "transB") ? -2 : -1);
    case graph::Terms::kConvolution: return size_at(graph, b, 0);
    case graph::Terms::kTransposed: {
      const auto of_one = size_at(graph, b, 1);
      std::int64_t all = 0;
      const std::int64_t groups = std::max<std::int64_t>(1, node.int_or("group", 1));
      if (!of_one || __builtin_mul_overflow(*of_one, groups, &all)) return {};
      return all;
    }
    default: return 1;
  }
}

std::optional<IntegerRange> term_of(std::span<const IntegerRange> a, std::span<const IntegerRange> b,
                                    bool same) {
  IntegerRange term;
  const auto take = [&](std::int64_t x, std::int64_t y) {
    std::int64_t product = 0;
    if (__builtin_mul_overflow(x, y, &product)) return false;
    term = {std::min(term.low, product), std::max(term.high, product)};
    return true;
  };
  for (const IntegerRange& x : a) {
    for (const IntegerRange& y : b) {
      const bool fit =
          same ? take(x.low, x.low) && take(x.high, x.high)
               : take(x.low, y.low) && take(x.low, y.high) && take(x.high, y.low) && take(x.high, y.high);
      if (!fit) return {};
    }
  }
  return term;
}

}  // namespace crumb::analysis
