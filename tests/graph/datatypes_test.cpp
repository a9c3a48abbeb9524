#include "graph/datatypes.h"

#include <doctest/doctest.h>

#include <cmath>

namespace crumb::graph {
namespace {

DataType parse(std::string_view name) { return DataType::parse(name).take(); }

TEST_CASE("data types are written as QONNX writes them, and read again") {
  for (const char* name : {"INT1", "INT2", "INT4", "INT32", "INT512", "UINT2", "UINT17", "BINARY", "BIPOLAR",
                           "TERNARY", "FIXED<8,4>", "FIXED<4,-2>", "SCALEDINT<8>", "FLOAT<4,3,7>",
                           "FLOAT<5,2,15>", "FLOAT<2,1,-3>", "FLOAT16", "FLOAT32"}) {
    CAPTURE(name);
    CHECK(parse(name).name() == name);
    CHECK(parse(parse(name).name()) == parse(name));
  }
  CHECK(parse("UINT1").name() == "BINARY");
  CHECK(parse("FIXED< 8 , 4 >").name() == "FIXED<8,4>");
  CHECK(parse("FLOAT<4,3>").name() == "FLOAT<4,3,7>");
  CHECK(parse("FLOAT<4,3,0>").name() == "FLOAT<4,3,7>");  // as for QONNX's tools
}

TEST_CASE("what is no data type is refused") {
  for (const char* name : {"",
                           "INT",
                           "INT0",
                           "INT-1",
                           "INT4 x",
                           "INT99999999999999999999",
                           "INT513",
                           "int4",
                           "UINT",
                           "FIXED<8>",
                           "FIXED<4,4>",
                           "FIXED<8,4",
                           "FIXED<8,4,2>",
                           "SCALEDINT",
                           "SCALEDINT<>",
                           "SCALEDINT<1,2>",
                           "FLOAT<4>",
                           "FLOAT<0,3>",
                           "FLOAT<4,3,1,2>",
                           "FLOAT<99,3>",
                           "FLOAT64",
                           "INT4\n",
                           "__import__('os')"}) {
    CAPTURE(name);
    const auto found = DataType::parse(name);
    REQUIRE_FALSE(found.ok());
    CHECK(found.failure().message.find("expected INT<n>") != std::string::npos);
  }
}

TEST_CASE("bits, bounds, signs") {
  struct Row {
    const char* name;
    int bits;
    double min, max;
    bool is_integer, is_signed;
  };
  const Row rows[] = {{"INT4", 4, -8, 7, true, true},
                      {"INT1", 1, -1, 0, true, true},
                      {"UINT4", 4, 0, 15, true, false},
                      {"BINARY", 1, 0, 1, true, false},
                      {"BIPOLAR", 1, -1, 1, true, true},
                      {"TERNARY", 2, -1, 1, true, true},
                      {"INT64", 64, -0x1p63, 0x1p63 - 1, true, true},
                      {"FIXED<4,2>", 4, -2, 1.75, false, true},
                      {"FLOAT<4,3,7>", 8, -480, 480, false, true},
                      {"FLOAT<5,2,15>", 8, -114688, 114688, false, true},
                      {"FLOAT<2,3,1>", 6, -7.5, 7.5, false, true},
                      {"FLOAT<3,2,3>", 6, -28, 28, false, true},
                      {"FLOAT<2,1,1>", 4, -6, 6, false, true},
                      {"FLOAT16", 16, -65504, 65504, false, true},
                      {"FLOAT32", 32, -0x1.fffffep127, 0x1.fffffep127, false, true}};
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const DataType type = parse(row.name);
    CHECK(type.bits() == row.bits);
    CHECK(*type.min() == row.min);
    CHECK(*type.max() == row.max);
    CHECK(type.is_integer() == row.is_integer);
    CHECK(type.is_signed() == row.is_signed);
  }
  CHECK_FALSE(parse("SCALEDINT<8>").min());
  CHECK_FALSE(parse("SCALEDINT<8>").is_integer());
  CHECK(parse("SCALEDINT<8>").bits() == 8);
}

TEST_CASE("which values are allowed") {
  CHECK(parse("BIPOLAR").allows(-1));
  CHECK_FALSE(parse("BIPOLAR").allows(0));
  CHECK_FALSE(parse("BIPOLAR").allows(0.5));
  CHECK(parse("TERNARY").allows(0));
  CHECK_FALSE(parse("INT4").allows(8));
  CHECK_FALSE(parse("INT4").allows(0.5));
  CHECK_FALSE(parse("INT4").allows(NAN));
  CHECK(parse("FIXED<4,2>").allows(-1.75));
  CHECK_FALSE(parse("FIXED<4,2>").allows(0.125));
  CHECK(parse("FLOAT32").allows(INFINITY));
}

TEST_CASE("a small float allows exactly what its fields can say") {
  for (const auto& [exponent_bits, mantissa_bits] : {std::pair{4, 3}, {5, 2}, {2, 1}, {3, 0}, {1, 2}}) {
    const DataType type = DataType::floating(exponent_bits, mantissa_bits);
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const auto value = [bias, mantissa_bits = mantissa_bits](int exponent, int mantissa) {
      const int lead = exponent == 0 ? 0 : 1 << mantissa_bits;
      return std::ldexp(lead + mantissa, std::max(exponent, 1) - bias - mantissa_bits);
    };
    for (int exponent = 0; exponent < 1 << exponent_bits; ++exponent) {
      for (int mantissa = 0; mantissa < 1 << mantissa_bits; ++mantissa) {
        const double v = value(exponent, mantissa);
        const double half_a_step = std::ldexp(0.5, std::max(exponent, 1) - bias - mantissa_bits);
        CAPTURE(type.name());
        CAPTURE(v);
        CHECK(type.allows(v));
        CHECK(type.allows(-v));
        CHECK_FALSE(type.allows(v + half_a_step));
      }
    }
    CHECK_FALSE(type.allows(2 * *type.max()));
  }
}

TEST_CASE("the least integer type holds a range, and the next smaller one does not") {
  for (double low = -40; low <= 0; ++low) {
    for (double high = low; high <= 40; ++high) {
      const DataType type = DataType::least_integer(low, high);
      REQUIRE(type.allows(low));
      REQUIRE(type.allows(high));
      if (type.bits() == 1) continue;
      const DataType smaller = DataType::integer(type.bits() - 1, low < 0);
      REQUIRE_FALSE((smaller.allows(low) && smaller.allows(high)));
    }
  }
  CHECK(DataType::least_integer(0, 255).name() == "UINT8");
  CHECK(DataType::least_integer(-1, 255).name() == "INT9");
}

TEST_CASE("ONNX's own types") {
  CHECK(exact_data_type(ElementType::kInt8).name() == "INT8");
  CHECK(exact_data_type(ElementType::kUint4).name() == "UINT4");
  CHECK(exact_data_type(ElementType::kFloat8E5M2).name() == "FLOAT<5,2,15>");
  CHECK(exact_data_type(ElementType::kBfloat16).bits() == 16);
  CHECK(usual_data_type(ElementType::kInt8).name() == "FLOAT32");
  CHECK(usual_data_type(ElementType::kFloat16).name() == "FLOAT16");
}

}  // namespace
}  // namespace crumb::graph
