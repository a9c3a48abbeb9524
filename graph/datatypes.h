// QONNX's data types: which values a tensor holds, whatever element type stores them (`finn_datatype`).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "graph/element_type.h"

namespace crumb::graph {

/// The annotation (Value::annotations) that names a tensor's data type.
inline constexpr const char* kDatatypeAnnotation = "finn_datatype";

/// INT4, UINT4, BINARY (UINT1), BIPOLAR (-1 and 1), TERNARY (-1, 0 and 1), FIXED<bits,integer bits>,
/// SCALEDINT<bits> (only the width is known), FLOAT<exponent,mantissa,bias>, FLOAT16, FLOAT32.
class DataType {
 public:
  enum class Kind : std::uint8_t {
    kInt,
    kUint,
    kBipolar,
    kTernary,
    kFixed,
    kScaledInt,
    kFloat,
    kFloat16,
    kFloat32
  };

  static constexpr int kMostBits = 512;  ///< bits of an integer type, at most

  DataType() = default;  ///< FLOAT32
  static DataType integer(int bits, bool is_signed) { return {is_signed ? Kind::kInt : Kind::kUint, bits}; }
  static DataType bipolar() { return {Kind::kBipolar, 1}; }
  static DataType ternary() { return {Kind::kTernary, 2}; }
  static DataType fixed(int bits, int integer_bits) { return {Kind::kFixed, bits, integer_bits}; }
  static DataType scaled(int bits) { return {Kind::kScaledInt, bits}; }
  /// A bias of 0 stands for IEEE's, 2^(exponent - 1) - 1, as it does for QONNX's own tools.
  static DataType floating(int exponent_bits, int mantissa_bits, int bias = 0);
  static DataType float32() { return {}; }
  static DataType float16() { return {Kind::kFloat16, 16}; }

  /// Returns the narrowest integer type, unsigned where possible, that holds the whole range; SCALEDINT where
  /// none of up to 512 bits does. Precondition: low <= high.
  static DataType least_integer(double low, double high);

  /// Parses a name as QONNX writes it; blanks around the numbers are allowed. A Failure says what was found
  /// and what is known.
  static Result<DataType> parse(std::string_view name);
  std::string name() const;  ///< QONNX's own spelling: UINT1 is BINARY, floats have three fields

  Kind kind() const { return kind_; }
  int bits() const;
  bool is_integer() const;  ///< its values are whole numbers
  bool is_fixed_point() const { return kind_ == Kind::kFixed; }
  bool is_scaled() const { return kind_ == Kind::kScaledInt; }
  bool is_float() const;
  bool is_signed() const;

  /// The smallest and the largest value; nothing for SCALEDINT.
  std::optional<double> min() const;
  std::optional<double> max() const;

  /// Whether a tensor of this type may hold the value. FLOAT32, FLOAT16 and SCALEDINT allow every value.
  bool allows(double value) const;

  bool operator==(const DataType&) const = default;

 private:
  DataType(Kind kind, int first, int second = 0, int third = 0)
      : kind_(kind), first_(first), second_(second), third_(third) {}

  Kind kind_ = Kind::kFloat32;
  int first_ = 32;              ///< bits, or bits of the exponent
  int second_ = 0, third_ = 0;  ///< integer bits; mantissa bits and bias
};

/// Returns the data type that QONNX's tools assume for an ONNX tensor without an annotation: FLOAT16, or
/// FLOAT32 for all others, integers too.
DataType usual_data_type(ElementType type);

/// Returns the data type that matches exactly: INT8 for int8, FLOAT<4,3,7> for float8e4m3fn, ...
DataType exact_data_type(ElementType type);

}  // namespace crumb::graph
