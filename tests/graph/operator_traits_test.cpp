// The table of operators against the standard's own schemas, and against names that only look like its own.
#include "graph/operator_traits.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "graph/onnx/schemas.h"
#include "graph/onnx/wire/domains.h"

namespace crumb::graph {
namespace {

bool takes(const std::string& op, std::size_t input, ElementType type) {
  const std::int64_t opset = kNewestOpset;
  return input < most_inputs(op, opset) && schema_takes(op, opset, Side::kInput, input, type);
}

TEST_CASE("rows are found by domain and name together, and nothing else is") {
  for (const OperatorTraits& row : operator_rows()) {
    CAPTURE(row.op);
    const Node own{.name = "n", .op = std::string(row.op), .domain = std::string(row.domain)};
    CHECK(&traits_of(own) == &row);
    for (const char* domain : {"com.microsoft", "ai.onnx.ML", "qonnx.custom_op", "zzz"}) {
      const Node other{.name = "n", .op = std::string(row.op), .domain = domain};
      CHECK(traits_of(other).traits == 0);
      CHECK(traits_of(other).products.empty());
      CHECK(traits_of(other).range == RangeForm::kUnknown);
    }
    for (const std::string& op : {std::string(row.op) + "x", std::string(row.op.substr(1))})
      CHECK(traits_of({.name = "n", .op = op, .domain = std::string(row.domain)}).op != row.op);
  }
}

TEST_CASE("a product's operands, zero points and bias are inputs that the schema has, of their types") {
  int seen = 0;
  for (const OperatorTraits& row : operator_rows()) {
    const std::string op(row.op);
    if (row.domain != kOnnxDomain || !since_version(op, kNewestOpset)) continue;
    std::set<std::size_t> used;
    for (const ProductRule& rule : row.products) {
      CAPTURE(op);
      CAPTURE(rule.operands);
      const ElementType type = rule.integers ? ElementType::kInt8 : ElementType::kFloat;
      for (const std::size_t operand : {rule.a, rule.b}) {
        if (operand == kNoInput) continue;
        CHECK(takes(op, operand, type));
        used.insert(operand);
      }
      for (const std::size_t zero : {rule.a_zero, rule.b_zero}) {
        if (zero == kNoInput) continue;
        CHECK(takes(op, zero, ElementType::kInt8));
        CHECK_FALSE(takes(op, zero, ElementType::kFloat));
        CHECK(used.insert(zero).second);
      }
      if (rule.integers) CHECK(rule.a_zero < rule.b_zero);
      ++seen;
    }
    for (const ProductRule& rule : row.products) {
      if (rule.bias == kNoInput) continue;
      CAPTURE(op);
      CHECK(takes(op, rule.bias, rule.integers ? ElementType::kInt32 : ElementType::kFloat));
      CHECK_FALSE(used.contains(rule.bias));
    }
  }
  CHECK(seen > 15);
}

TEST_CASE("what a row says of an operator agrees with the rest of the row") {
  for (const OperatorTraits& row : operator_rows()) {
    CAPTURE(row.op);
    CHECK((row.is(trait::kNoProducts | trait::kUncounted) || !row.products.empty()));
    if (row.is(trait::kNoProducts)) CHECK(row.products.empty());
    if (row.is(trait::kMultiplies | trait::kRecurrent)) CHECK(!row.products.empty());
    if (row.is(trait::kAllOutputs)) CHECK(row.range != RangeForm::kUnknown);
    CHECK_FALSE((row.is(trait::kOfOne) && row.is(trait::kOfSeveral)));
    CHECK_FALSE((row.is(trait::kMoves) && row.is(trait::kPicks)));
    // What only moves elements has their range; where more is known of the operator, a rule of its own says so.
    if (row.is(trait::kReshapes)) CHECK(row.range == RangeForm::kMoved);
  }
}

}  // namespace
}  // namespace crumb::graph
