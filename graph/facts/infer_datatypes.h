// Data types of every value of a graph, from its quantizers, annotations and operators.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "graph/datatypes.h"
#include "graph/facts/constant_values.h"

namespace crumb::graph {

enum class TypeRules : std::uint8_t {
  /// As qonnx's InferDataTypes with scaled integers: what it does not see through is FLOAT32. (Constants that nodes
  /// compute count as constants.)
  kQonnx,
  /// What the values are, by the table of range_rules.h: an operator that has no row there, or attributes that its row
  /// does not cover, makes values of which nothing is known. Zero points, scaled BipolarQuant and FloatQuant, fractional
  /// widths, QuantizeLinear -> Clip -> DequantizeLinear and ONNX's integer types are understood.
  kExact,
};

/// The whole numbers behind a value: it is a level times a scale, and the levels are integers minus the zero point, or
/// the values of a minifloat, which are whole multiples of its smallest subnormal. No input takes an element out of
/// [low, high]. NaN is outside of all this, and so is a value's own float32 rounding: the level is the nearest one.
struct Levels {
  double low = 0, high = 0;
  int bits = 0;  ///< of the quantizer; with a zero point, what the levels need, in halves where they are
  bool is_signed = true;  ///< the same
  bool one_scale = true;  ///< the same for all elements
  bool halves = false;    ///< the zero point is an odd number of halves, and levels are too
  double minifloat = 0;   ///< the smallest subnormal; 0 for integers
  std::optional<double> scale = std::nullopt;  ///< where there is one, and it is known
  bool positive = true;                        ///< every scale is known to be above zero
  bool assumed = false;  ///< rests on the type, annotation or given range of an input of the graph

  /// What every level is a whole multiple of.
  double unit() const { return minifloat > 0 ? minifloat : halves ? 0.5 : 1; }
  bool operator==(const Levels&) const = default;
};

/// Bounds of numbers that are on no grid.
struct Reach {
  double low = 0, high = 0;
  bool assumed = false;  ///< as that of Levels
  bool operator==(const Reach&) const = default;
};

struct ValueType {
  DataType type;
  std::optional<Levels> levels;               ///< kExact only; nothing where no quantizer decides them
  std::optional<Reach> reach = std::nullopt;  ///< kExact only: of means of levels, which a Trunc may quantize
  bool operator==(const ValueType&) const = default;
};

/// Ranges of whole numbers, by the names of inputs.
using InputRanges = std::map<std::string, std::pair<double, double>>;

/// One for every value that the graph names. The graph is sorted and its shapes are inferred. kQonnx believes the
/// annotations of inputs, initializers and of what its rules do not know. kExact believes those of inputs alone, and
/// says so (`assumed`); types and shapes of the values inside are taken as they are: without_claims() and shapes
/// inferred anew make them more than the file's word. An annotation of an input that cannot be read is an Error that
/// names the value. `given` (kExact): levels of inputs that neither annotation nor type tells.
std::map<std::string, ValueType> infer_data_types(const Graph& graph, const ConstantValues& constants,
                                                  TypeRules rules, const InputRanges& given = {});

/// The graph without what the file says of types and shapes between its inputs and outputs (annotations stay).
Graph without_claims(Graph graph);

/// The graph with `finn_datatype` on exactly those values that are whole numbers, by the exact rules (constants are
/// looked at), and on none else.
Graph annotate_integers(Graph graph);

}  // namespace crumb::graph
