#include "graph/datatypes.h"

#include <array>
#include <cmath>
#include <vector>

#include "base/files/text.h"
#include "base/text/number.h"

namespace crumb::graph {
namespace {

constexpr int kMostExponent = 8, kMostMantissa = 23;  // what float32 can carry
constexpr int kMostBias = 1000;

/// Returns a whole number; nothing where the text has anything else.
std::optional<int> number_in(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return parse_number<int>(text);
}

/// Returns the numbers of "NAME<1,2>" behind "NAME<"; empty where one of them is not a number.
std::vector<int> numbers_in(std::string_view text) {
  std::vector<int> numbers;
  if (!text.ends_with('>')) return {};
  text.remove_suffix(1);
  while (true) {
    const std::size_t comma = text.find(',');
    const auto number = number_in(text.substr(0, comma));
    if (!number || numbers.size() == 3) return {};
    numbers.push_back(*number);
    if (comma == std::string_view::npos) return numbers;
    text.remove_prefix(comma + 1);
  }
}

bool is_width(int bits) { return bits >= 1 && bits <= DataType::kMostBits; }

std::optional<DataType> parsed_type(std::string_view name) {
  if (name == "FLOAT32") return DataType::float32();
  if (name == "FLOAT16") return DataType::float16();
  if (name == "BINARY") return DataType::integer(1, false);
  if (name == "BIPOLAR") return DataType::bipolar();
  if (name == "TERNARY") return DataType::ternary();
  for (const auto& [prefix, is_signed] : {std::pair{"UINT", false}, {"INT", true}}) {
    if (!name.starts_with(prefix)) continue;
    const auto bits = number_in(name.substr(std::string_view(prefix).size()));
    if (bits && is_width(*bits)) return DataType::integer(*bits, is_signed);
    return {};
  }
  const std::size_t open = name.find('<');
  if (open == std::string_view::npos) return {};
  const std::string_view kind = name.substr(0, open);
  const std::vector<int> n = numbers_in(name.substr(open + 1));
  if (kind == "FIXED" && n.size() == 2 && is_width(n[0]) && n[1] < n[0] && n[1] >= -DataType::kMostBits) {
    return DataType::fixed(n[0], n[1]);
  }
  if (kind == "SCALEDINT" && n.size() == 1 && is_width(n[0])) return DataType::scaled(n[0]);
  if (kind == "FLOAT" && (n.size() == 2 || n.size() == 3) && n[0] >= 1 && n[0] <= kMostExponent &&
      n[1] >= 0 && n[1] <= kMostMantissa && (n.size() == 2 || std::abs(n[2]) <= kMostBias)) {
    return DataType::floating(n[0], n[1], n.size() == 3 ? n[2] : 0);
  }
  return {};
}

double power(int exponent) { return std::ldexp(1.0, exponent); }

}  // namespace

DataType DataType::floating(int exponent_bits, int mantissa_bits, int bias) {
  return {Kind::kFloat, exponent_bits, mantissa_bits, bias == 0 ? (1 << (exponent_bits - 1)) - 1 : bias};
}

DataType DataType::least_integer(double low, double high) {
  for (int bits = 1; bits <= kMostBits; ++bits) {
    const DataType type = integer(bits, low < 0);
    if (*type.min() <= low && high <= *type.max()) return type;
  }
  return scaled(kMostBits);
}

Result<DataType> DataType::parse(std::string_view name) {
  if (const auto type = parsed_type(name)) return *type;
  return Failure{
      "unknown data type " + quote_text(name) +
      ", expected INT<n> or UINT<n> as in INT4, BINARY, BIPOLAR, TERNARY, FIXED<bits,integer bits>, "
      "SCALEDINT<bits>, FLOAT<exponent,mantissa,bias>, FLOAT16 or FLOAT32"};
}

std::string DataType::name() const {
  const std::string a = std::to_string(first_), b = std::to_string(second_), c = std::to_string(third_);
  switch (kind_) {
    case Kind::kInt: return "INT" + a;
    case Kind::kUint: return first_ == 1 ? "BINARY" : "UINT" + a;
    case Kind::kBipolar: return "BIPOLAR";
    case Kind::kTernary: return "TERNARY";
    case Kind::kFixed: return "FIXED<" + a + "," + b + ">";
    case Kind::kScaledInt: return "SCALEDINT<" + a + ">";
    case Kind::kFloat: return "FLOAT<" + a + "," + b + "," + c + ">";
    case Kind::kFloat16: return "FLOAT16";
    case Kind::kFloat32: break;
  }
  return "FLOAT32";
}

int DataType::bits() const { return kind_ == Kind::kFloat ? 1 + first_ + second_ : first_; }

bool DataType::is_integer() const {
  return kind_ == Kind::kInt || kind_ == Kind::kUint || kind_ == Kind::kBipolar || kind_ == Kind::kTernary;
}

bool DataType::is_float() const {
  return kind_ == Kind::kFloat || kind_ == Kind::kFloat16 || kind_ == Kind::kFloat32;
}

bool DataType::is_signed() const { return kind_ != Kind::kUint; }

std::optional<double> DataType::max() const {
  switch (kind_) {
    case Kind::kInt: return power(first_ - 1) - 1;
    case Kind::kUint: return power(first_) - 1;
    case Kind::kFixed: return (power(first_ - 1) - 1) * power(second_ - first_);
    case Kind::kScaledInt: return {};
    case Kind::kFloat: return (2 - power(-second_)) * power((1 << first_) - 1 - third_);
    case Kind::kFloat16: return 65504;
    case Kind::kFloat32: return 0x1.fffffep127;
    case Kind::kBipolar:
    case Kind::kTernary: break;
  }
  return 1;
}

std::optional<double> DataType::min() const {
  switch (kind_) {
    case Kind::kInt: return -power(first_ - 1);
    case Kind::kUint: return 0;
    case Kind::kFixed: return -power(first_ - 1) * power(second_ - first_);
    default: break;
  }
  const auto most = max();
  return most ? std::optional(-*most) : std::nullopt;
}

bool DataType::allows(double value) const {
  if (kind_ == Kind::kFloat32 || kind_ == Kind::kFloat16 || kind_ == Kind::kScaledInt) return true;
  if (!(value >= *min() && value <= *max())) return false;
  if (kind_ == Kind::kBipolar) return value != 0 && std::trunc(value) == value;
  if (kind_ == Kind::kFixed) value *= power(first_ - second_);
  if (kind_ == Kind::kFloat) {
    int exponent = 0;
    std::frexp(value, &exponent);
    const int step = std::max(exponent - 1, 1 - third_) - second_;
    value = std::ldexp(value, -step);
  }
  return std::trunc(value) == value;
}

DataType usual_data_type(ElementType type) {
  return type == ElementType::kFloat16 ? DataType::float16() : DataType::float32();
}

DataType exact_data_type(ElementType type) {
  switch (type) {
    case ElementType::kBool: return DataType::integer(1, false);
    case ElementType::kFloat16: return DataType::float16();
    case ElementType::kBfloat16: return DataType::floating(8, 7);
    case ElementType::kFloat8E4M3fn:
    case ElementType::kFloat8E4M3fnuz:
      return DataType::floating(4, 3, type == ElementType::kFloat8E4M3fn ? 7 : 8);
    case ElementType::kFloat8E5M2:
    case ElementType::kFloat8E5M2fnuz:
      return DataType::floating(5, 2, type == ElementType::kFloat8E5M2 ? 15 : 16);
    case ElementType::kFloat4E2M1: return DataType::floating(2, 1);
    default: break;
  }
  if (graph::is_integer(type)) {
    return DataType::integer(static_cast<int>(info(type).bits), info(type).kind == ElementKind::kSigned);
  }
  return DataType::float32();
}

}  // namespace crumb::graph
