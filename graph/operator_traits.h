// What each operator is: the one table that passes, quantizer placement, ranges, accumulators, cost and lint
// ask.
//
// A new operator is one row in operator_traits.cpp and its kernels. A row holds for every attribute and input
// of the operator. What depends on those is code near its use (graph/quantize/operators.h,
// graph/passes/layout.h, graph/facts/range_rules.h), which asks the row first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "graph/graph.h"

namespace crumb::graph {

/// Yes-or-no facts about an operator; a row combines them.
namespace trait {
/// Each element of output 0 is computed from the element at the same index of input 0, and from parameters.
inline constexpr std::uint32_t kOfOne = 1u << 0;
/// The same with several inputs, which broadcast to each other.
inline constexpr std::uint32_t kOfSeveral = 1u << 1;
/// Output 0 is input 0, its elements moved, repeated or left out.
inline constexpr std::uint32_t kMoves = 1u << 2;
/// Output 0 is some of the elements of input 0.
inline constexpr std::uint32_t kPicks = 1u << 3;
/// A change of shape only: all elements, in their order.
inline constexpr std::uint32_t kReshapes = 1u << 4;
/// With a single input, the output is that input.
inline constexpr std::uint32_t kJoins = 1u << 5;
/// No result is below 0.
inline constexpr std::uint32_t kNonNegative = 1u << 6;
/// It multiplies activations by weights, or by each other; a recipe quantizes its operands.
inline constexpr std::uint32_t kMultiplies = 1u << 7;
/// It adds its inputs; a recipe quantizes both by one scale where they are activations of one shape.
inline constexpr std::uint32_t kAdds = 1u << 8;
/// LSTM, GRU and RNN: X, W, R, B.
inline constexpr std::uint32_t kRecurrent = 1u << 9;
/// QONNX's annotations give its output the type of input 0.
inline constexpr std::uint32_t kKeepsType = 1u << 10;
/// QONNX's tools derive its type from those of its operands.
inline constexpr std::uint32_t kTypeOfOperands = 1u << 11;
/// It multiplies, and the number of products is not known here.
inline constexpr std::uint32_t kUncounted = 1u << 12;
/// It sums no products of two operands' elements. Some such operators sum values (sums, means, average pools)
/// in adders of their own. Others compute in floats whatever their inputs are (normalizations, softmax,
/// interpolation), so that no register of theirs holds integers.
inline constexpr std::uint32_t kNoProducts = 1u << 13;
/// It has an attribute `axis`, which changes with the layout of the data.
inline constexpr std::uint32_t kHasAxis = 1u << 14;
/// Its inputs after the first are parameters, not data.
inline constexpr std::uint32_t kOneDataInput = 1u << 15;
/// In an unrolled recurrent cell its inputs are quantized.
inline constexpr std::uint32_t kOfCells = 1u << 16;
/// The traits of output 0 hold for every output.
inline constexpr std::uint32_t kAllOutputs = 1u << 17;
/// Where output 0 has the shape of input 0, it equals input 0.
inline constexpr std::uint32_t kIsItsInput = 1u << 18;
/// Add, Sub, Mul, Div.
inline constexpr std::uint32_t kArithmetic = 1u << 19;
/// QONNX's quantizers: they round values to codes and return the codes' values.
inline constexpr std::uint32_t kQuantizer = 1u << 20;
/// Its inputs after the first are settings, which training does not change.
inline constexpr std::uint32_t kSteered = 1u << 21;
/// Multiplying an element of input 0 by a factor above 0 multiplies the same element of the output by it.
inline constexpr std::uint32_t kScalesElements = 1u << 22;
/// The same with one factor for each channel of images, on axis 1; it does not mix channels.
inline constexpr std::uint32_t kScalesChannels = 1u << 23;
/// Where no float32 input is below 0, no result is (Gemm: if alpha and beta are not below 0, either).
inline constexpr std::uint32_t kKeepsNonNegative = 1u << 24;
}  // namespace trait

/// How a range of whole numbers passes through an operator; range_rules.h has the rule of each form.
enum class RangeForm : std::uint8_t {
  kUnknown,  ///< nothing is known about its output
  kMagnitude,
  kAdded,
  kAveraged,
  kCast,
  kClipped,
  kMoved,
  kConcatenated,
  kConstantNode,
  kDequantizedLinearly,
  kDivided,
  kDroppedOut,
  kQuantizedDynamically,
  kAveragedAll,
  kReducedToOne,
  kLeaky,
  kLargest,
  kMaxPooled,
  kSummedUp,
  kSmallest,
  kMultiplied,
  kNegative,
  kParametric,
  kPadded,
  kQuantizedProduct,
  kQuantizedLinearly,
  kReducedToMean,
  kReducedToSum,
  kRectified,
  kResized,
  kScattered,
  kSign,
  kSubtracted,
  kTriangle,
  kChosen,
  kBipolarQuantizer,
  kFloatQuantizer,
  kLoweredToColumns,
  kIntegerQuantizer,
  kThresholds,
  kQuantizedAverage,
  kTruncated,
};

/// Which elements are multiplied and summed in one result of a product.
enum class Terms : std::uint8_t {
  kMatrix,       ///< a's last axis, b's last but one; Gemm: transA, transB
  kConvolution,  ///< b is [M, C / group, kernel...]; channels-last: [M, kernel..., C / group]
  kTransposed,   ///< b is [C, M / group, kernel...]; taps in different phases of a stride meet in no result
  kEquation,     ///< Einsum's
  kGates,        ///< the last axis of both
  kHeads,        ///< the head width of a, [B, S, heads * width] or [B, heads, S, width]
  kSquares,      ///< each element of a with itself, over the axes that are reduced
};

inline constexpr std::size_t kNoInput = ~std::size_t{0};

/// A sum of products that an operator computes. A result is the sum of K terms (a - a's zero point) *
/// (b - b's zero point) of two operands, a and b.
struct ProductRule {
  std::string_view operands = "";  ///< which of the node's products, such as "X W"; "" where it has one
  Terms terms = Terms::kMatrix;
  std::size_t a = 0, b = 1;                          ///< the node's inputs; kNoInput: computed in the node
  std::size_t a_zero = kNoInput, b_zero = kNoInput;  ///< inputs with the zero points
  std::size_t bias = kNoInput;                       ///< input with the node's own bias
  bool integers = false;         ///< operands are integers themselves; false: values, whose quantizers count
  bool requantizes = false;      ///< the node's output is rescaled, no longer the sum
  bool matches = false;          ///< a term is whether two bits are equal
  std::string_view reason = "";  ///< why the product cannot be counted, whatever its operands are
};

struct OperatorTraits {
  std::string_view domain, op;
  std::uint32_t traits = 0;                    ///< of trait::
  RangeForm range = RangeForm::kUnknown;       ///< of output 0, or of every output (kAllOutputs)
  std::span<const ProductRule> products = {};  ///< in the order of the node's inputs

  /// Whether the operator has at least one of these traits.
  bool is(std::uint32_t any) const { return (traits & any) != 0; }
};

/// Returns all rows, ordered by domain and operator.
std::span<const OperatorTraits> operator_rows();

/// Returns the row of a node's operator; a row without traits where the table has none.
const OperatorTraits& traits_of(const Node& node);

/// Whether a node's operator has at least one of these traits.
inline bool is_any(const Node& node, std::uint32_t any) { return traits_of(node).is(any); }

}  // namespace crumb::graph
