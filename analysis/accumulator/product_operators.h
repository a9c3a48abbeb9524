// Which operators add up products, and how each one's sums are counted: the one place that says so.
//
// A product has two operands, a and b. A result of it is the sum of K terms, each (a - a's zero point) times
// (b - b's zero point). An operator that has neither a rule nor a place in the list of those without products is not
// covered: what it adds up is not known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace crumb::analysis {

/// Which elements meet in one result.
enum class Terms : std::uint8_t {
  kMatrix,       ///< a's last axis, b's last but one; Gemm: transA, transB
  kConvolution,  ///< b is [M, C / group, kernel...]; channels-last [M, kernel..., C / group]
  kTransposed,   ///< b is [C, M / group, kernel...]; taps that a stride keeps apart do not meet
  kEquation,     ///< Einsum's
  kGates,        ///< the last axis of both
  kHeads,        ///< the width of a head of a, [B, S, heads * width] or [B, heads, S, width]
  kSquares,      ///< each element of a with itself, over the axes that the result loses
};

inline constexpr std::size_t kNoInput = ~std::size_t{0};

struct ProductRule {
  std::string_view domain, op;
  std::string_view operands = "";  ///< which of the node's products, as in "X W"; "" where it has one
  Terms terms = Terms::kMatrix;
  std::size_t a = 0, b = 1;                          ///< inputs of the node; kNoInput: made inside of it
  std::size_t a_zero = kNoInput, b_zero = kNoInput;  ///< their zero points
  std::size_t bias = kNoInput;                       ///< the node's own
  bool integers = false;  ///< operands are integers as they are; else they are values, whose quantizers count
  bool requantizes = false;      ///< what the node gives is no sum any more
  bool matches = false;          ///< a term is whether two bits are the same
  std::string_view reason = "";  ///< why it cannot be counted, whatever its operands are
};

/// None for nodes that add up no products, and for unknown ones.
std::span<const ProductRule> product_rules(const graph::Node& node);

/// Why nothing is known of a node's sums; nothing where it has rules, or adds up no products.
std::optional<std::string> why_unknown_operator(const graph::Node& node);

/// Einsum's equation for two operands.
struct Contraction {
  std::string a, b, out;  ///< labels of each axis; an ellipsis is '.', once, for all of its axes
  std::string summed;     ///< labels of a and b that the result does not have

  /// Of an operand with these labels and so many axes.
  std::vector<bool> summed_axes(const std::string& labels, std::size_t rank) const;
};

/// A Failure where operands are others than two, a label stands twice in one of them, or where one operand alone has a
/// label that is summed over: then a result is no sum of products of one element of each.
Result<Contraction> contraction_of(const graph::Node& node);

}  // namespace crumb::analysis
