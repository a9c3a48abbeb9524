// Tests, which follow `is`.
#include <algorithm>
#include <array>

#include "base/files/text.h"
#include "text/chat/functions.h"
#include "text/chat/python_text.h"

namespace crumb::text::chat {
namespace {

struct Test {
  const Value& input;
  const List& others;
  Meter& meter;

  const Value& other() const { return others[0]; }
  bool leaves(std::int64_t rest, const Value& divisor) const {
    return equal(arithmetic("%", input, divisor, meter), Value::integer(rest), meter);
  }
};

bool test_iterable(const Test& test) {
  switch (test.input.kind()) {
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kNamespace:
    case Kind::kMacro:
    case Kind::kFunction:
    case Kind::kMethod: return false;
    default: return true;
  }
}

bool test_sequence(const Test& test) {
  return test.input.is_sequence() || test.input.is(Kind::kString) || test.input.is(Kind::kDict) ||
         test.input.is(Kind::kUndefined);
}

bool test_callable(const Test& test) {
  switch (test.input.kind()) {
    case Kind::kUndefined:
    case Kind::kMacro:
    case Kind::kFunction:
    case Kind::kMethod:
    case Kind::kLoop: return true;
    default: return false;
  }
}

bool test_same(const Test& test) {
  const Kind kind = test.input.kind();
  if (kind != test.other().kind() || kind == Kind::kNone || kind == Kind::kBool)
    return test.input.is_same(test.other());
  throw Trouble("the test 'sameas' of " + describe(test.input) + " is not supported");
}

bool test_equal(const Test& test) { return equal(test.input, test.other(), test.meter); }
bool test_unequal(const Test& test) { return !test_equal(test); }
bool test_less(const Test& test) { return less(test.input, test.other(), test.meter); }
bool test_greater(const Test& test) { return less(test.other(), test.input, test.meter); }
bool test_not_less(const Test& test) { return test_greater(test) || test_equal(test); }
bool test_not_greater(const Test& test) { return test_less(test) || test_equal(test); }

struct TestRow {
  std::string_view name;
  std::size_t others;
  bool (*run)(const Test& test);
};

constexpr std::array<TestRow, 36> kTests = {{
    {"!=", 1, test_unequal},
    {"<", 1, test_less},
    {"<=", 1, test_not_greater},
    {"==", 1, test_equal},
    {">", 1, test_greater},
    {">=", 1, test_not_less},
    {"boolean", 0, [](const Test& test) { return test.input.is(Kind::kBool); }},
    {"callable", 0, test_callable},
    {"defined", 0, [](const Test& test) { return !test.input.is(Kind::kUndefined); }},
    {"divisibleby", 1, [](const Test& test) { return test.leaves(0, test.other()); }},
    {"eq", 1, test_equal},
    {"equalto", 1, test_equal},
    {"even", 0, [](const Test& test) { return test.leaves(0, Value::integer(2)); }},
    {"false", 0, [](const Test& test) { return test.input.is(Kind::kBool) && !test.input.as_boolean(); }},
    {"float", 0, [](const Test& test) { return test.input.is(Kind::kFloat); }},
    {"ge", 1, test_not_less},
    {"greaterthan", 1, test_greater},
    {"gt", 1, test_greater},
    {"in", 1, [](const Test& test) { return contains(test.other(), test.input, test.meter); }},
    {"integer", 0, [](const Test& test) { return test.input.is(Kind::kInt); }},
    {"iterable", 0, test_iterable},
    {"le", 1, test_not_greater},
    {"lessthan", 1, test_less},
    {"lower", 0, [](const Test& test) { return is_lower(str(test.input, test.meter)); }},
    {"lt", 1, test_less},
    {"mapping", 0, [](const Test& test) { return test.input.is(Kind::kDict); }},
    {"ne", 1, test_unequal},
    {"none", 0, [](const Test& test) { return test.input.is(Kind::kNone); }},
    {"number", 0, [](const Test& test) { return test.input.is_number(); }},
    {"odd", 0, [](const Test& test) { return test.leaves(1, Value::integer(2)); }},
    {"sameas", 1, test_same},
    {"sequence", 0, test_sequence},
    {"string", 0, [](const Test& test) { return test.input.is(Kind::kString); }},
    {"true", 0, [](const Test& test) { return test.input.is(Kind::kBool) && test.input.as_boolean(); }},
    {"undefined", 0, [](const Test& test) { return test.input.is(Kind::kUndefined); }},
    {"upper", 0, [](const Test& test) { return is_upper(str(test.input, test.meter)); }},
}};

}  // namespace

bool apply_test(std::string_view name, const Value& input, const Arguments& arguments, Meter& meter) {
  meter.spend(1);
  const auto* const row = std::ranges::find(kTests, name, &TestRow::name);
  if (row == kTests.end()) throw Trouble("there is no test " + quote_text(name));
  if (!arguments.named.empty() || arguments.positional.size() != row->others)
    throw Trouble("the test " + quote_text(name) + " takes " + std::to_string(row->others) +
                  " arguments without a name");
  return row->run({input, arguments.positional, meter});
}

}  // namespace crumb::text::chat
