// What each operator is: the one table that passes, quantizer placement, ranges, accumulators, cost and lint ask.
//
// A new operator is one row in operator_traits.cpp and its kernels. A row speaks of the operator whatever its attributes
// and inputs are; what depends on those is code beside the question (graph/quantize/operators.h, graph/passes/layout.h,
// graph/facts/range_rules.h), which asks the row first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "graph/graph.h"

namespace crumb::graph {

/// Yes-or-no questions about an operator; a row adds them up.
namespace trait {
/// Each element of output 0 is computed from the element at its place in input 0, and from parameters.
inline constexpr std::uint32_t kOfOne = 1u << 0;
/// The same of several inputs, which broadcast to each other.
inline constexpr std::uint32_t kOfSeveral = 1u << 1;
/// Output 0 is input 0, its elements moved, repeated or left out.
inline constexpr std::uint32_t kMoves = 1u << 2;
/// Output 0 is some of the elements of input 0.
inline constexpr std::uint32_t kPicks = 1u << 3;
/// A change of shape only: all elements, in their order.
inline constexpr std::uint32_t kReshapes = 1u << 4;
/// Of one input alone it gives that input.
inline constexpr std::uint32_t kJoins = 1u << 5;
/// No result is below 0.
inline constexpr std::uint32_t kNonNegative = 1u << 6;
/// A recipe quantizes its operands: it multiplies activations by weights, or by each other.
inline constexpr std::uint32_t kMultiplies = 1u << 7;
/// It adds its inputs up; of activations of one shape a recipe quantizes both by one scale.
inline constexpr std::uint32_t kAdds = 1u << 8;
/// LSTM, GRU and RNN: X, W, R, B.
inline constexpr std::uint32_t kRecurrent = 1u << 9;
/// It holds numbers that QONNX's annotations describe by the type of input 0.
inline constexpr std::uint32_t kKeepsType = 1u << 10;
/// QONNX's tools derive its type from those of its operands.
inline constexpr std::uint32_t kTypeOfOperands = 1u << 11;
/// It multiplies, and how often is not known here.
inline constexpr std::uint32_t kUncounted = 1u << 12;
/// It adds up no products of two operands' elements. Some add up values (sums, means, average pools): adders of their
/// own. Some compute in floats whatever they are given (normalizations, softmax, interpolation): no register of theirs
/// holds integers.
inline constexpr std::uint32_t kNoProducts = 1u << 13;
/// It has an `axis` that a layout moves with the data.
inline constexpr std::uint32_t kHasAxis = 1u << 14;
/// Its inputs behind the first are parameters, not data.
inline constexpr std::uint32_t kOneDataInput = 1u << 15;
/// Inside of an unrolled recurrent cell its inputs are quantized.
inline constexpr std::uint32_t kOfCells = 1u << 16;
/// What is said of output 0 holds for every output.
inline constexpr std::uint32_t kAllOutputs = 1u << 17;
/// Where its output has the shape of input 0, it is input 0.
inline constexpr std::uint32_t kIsItsInput = 1u << 18;
/// Add, Sub, Mul, Div.
inline constexpr std::uint32_t kArithmetic = 1u << 19;
/// QONNX's quantizers: values to codes and back.
inline constexpr std::uint32_t kQuantizer = 1u << 20;
/// Inputs behind the first say how it works: nothing that training changes.
inline constexpr std::uint32_t kSteered = 1u << 21;
/// An element of input 0 times a factor above 0 gives its output times that factor.
inline constexpr std::uint32_t kScalesElements = 1u << 22;
/// The same of factors for the channels of images, on axis 1, which it keeps apart.
inline constexpr std::uint32_t kScalesChannels = 1u << 23;
/// Where no float32 input is below 0, no result is (Gemm: by factors that are not below 0, either).
inline constexpr std::uint32_t kKeepsNonNegative = 1u << 24;
}  // namespace trait

/// How a range of whole numbers goes through; range_rules.h has the rule of each.
enum class RangeForm : std::uint8_t {
  kUnknown,  ///< nothing is known of what it makes
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

/// Which elements meet in one result of a product.
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

/// A product that an operator adds up. It has two operands, a and b; a result is the sum of K terms, each (a - a's zero
/// point) times (b - b's zero point).
struct ProductRule {
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

struct OperatorTraits {
  std::string_view domain, op;
  std::uint32_t traits = 0;                    ///< of trait::
  RangeForm range = RangeForm::kUnknown;       ///< of output 0 (kAllOutputs)
  std::span<const ProductRule> products = {};  ///< in the order of its inputs

  /// Whether it has one of these traits.
  bool is(std::uint32_t any) const { return (traits & any) != 0; }
};

/// All rows, by domain and operator.
std::span<const OperatorTraits> operator_rows();

/// The row of a node's operator; one without traits where there is none.
const OperatorTraits& traits_of(const Node& node);

/// Whether a node's operator has one of these traits.
inline bool is_any(const Node& node, std::uint32_t any) { return traits_of(node).is(any); }

}  // namespace crumb::graph
