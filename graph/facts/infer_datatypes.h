// Infers the data type of every value of a graph from its quantizers, annotations and operators.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "graph/datatypes.h"
#include "graph/facts/constant_values.h"

namespace crumb::graph {

enum class TypeRules : std::uint8_t {
  /// As qonnx's InferDataTypes with scaled integers: FLOAT32 where it cannot derive a type. (Constants that
  /// nodes compute count as constants.)
  kQonnx,
  /// The real values, by the table of range_rules.h. Nothing is known about outputs of an operator without a
  /// row there, or with attributes that its row does not cover. The rules know zero points, scaled
  /// BipolarQuant and FloatQuant, fractional widths, QuantizeLinear -> Clip -> DequantizeLinear and ONNX's
  /// integer types.
  kExact,
};

/// The whole numbers behind a value = level * scale. Levels are integers minus the zero point, or the values
/// of a minifloat, which are multiples of its smallest subnormal. No input moves an element out of [low,
/// high]. NaN is excluded, and so is a value's own float32 rounding: the level is the nearest one.
struct Levels {
  double low = 0, high = 0;
  int bits = 0;  ///< the quantizer's width; with a zero point the levels', counted in halves if `halves`
  bool is_signed = true;  ///< as for `bits`
  bool one_scale = true;  ///< one scale for all elements
  bool halves = false;    ///< the zero point is an odd number of halves, and so are levels
  double minifloat = 0;   ///< the smallest subnormal; 0 for integers
  std::optional<double> scale = std::nullopt;  ///< the scale, if it is one and known
  bool positive = true;                        ///< every scale is known to be above zero
  bool assumed = false;  ///< depends on the type, annotation or given range of a graph input

  /// Returns the number of which every level is a multiple.
  double unit() const { return minifloat > 0 ? minifloat : halves ? 0.5 : 1; }
  bool operator==(const Levels&) const = default;
};

/// Bounds of numbers that are not levels of one grid.
struct Reach {
  double low = 0, high = 0;
  bool assumed = false;  ///< as in Levels
  bool operator==(const Reach&) const = default;
};

struct ValueType {
  DataType type;
  std::optional<Levels> levels;               ///< kExact only; nothing if no quantizer determines them
  std::optional<Reach> reach = std::nullopt;  ///< kExact only: means of levels, which a Trunc may quantize
  bool operator==(const ValueType&) const = default;
};

/// Ranges of whole numbers, by the names of inputs.
using InputRanges = std::map<std::string, std::pair<double, double>>;

/// Returns the type of every value that the graph names. Preconditions: the graph is sorted and has inferred
/// shapes. kQonnx trusts the annotations of inputs, of initializers and of outputs without a rule. kExact
/// trusts only those of inputs, and marks what depends on them (`assumed`); it takes types and shapes of
/// values inside as they are: without_claims() and inferred shapes make them more than the file's claim.
/// Throws Error, which names the value, where the annotation of an input cannot be parsed. `given` (kExact):
/// levels of inputs that have them neither from an annotation nor from their type.
std::map<std::string, ValueType> infer_data_types(const Graph& graph, const ConstantValues& constants,
                                                  TypeRules rules, const InputRanges& given = {});

/// Returns the graph without what the file claims about types and shapes between its inputs and outputs
/// (annotations stay).
Graph without_claims(Graph graph);

/// Returns the graph with `finn_datatype` on exactly those values that are whole numbers by the exact rules
/// (constants by their numbers).
Graph annotate_integers(Graph graph);

}  // namespace crumb::graph
