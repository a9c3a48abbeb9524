// Attributes, elements and methods of values, as templates reach them through jinja2's immutable sandbox: a
// method that would change a list or a dict is undefined.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat/value.h"

namespace crumb::text::chat {

struct Arguments {
  List positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// The arguments of a function in the order of its parameters' names. Throws Trouble where there are others
/// or too many.
std::vector<std::optional<Value>> bind(const Arguments& arguments,
                                       std::initializer_list<std::string_view> names);

/// The argument. Throws Trouble where it is missing.
const Value& required(const std::optional<Value>& argument, const char* name);
/// The integer (or string). Throws Trouble where the value is none.
std::int64_t integer_of(const Value& value, const char* what);
const std::string& text_of(const Value& value, const char* what);

/// object.name
Value attribute(const Value& object, std::string_view name, Meter& meter);
/// object[key]
Value element(const Value& object, const Value& key, Meter& meter);
/// object[first:end:step]; parts that are not given are none.
Value slice(const Value& object, const Value& first, const Value& end, const Value& step, Meter& meter);

Value call_method(const Value& self, std::string_view name, const Arguments& arguments, Meter& meter);

/// An element's attribute as filters name it: "a.b.0", or an integer.
Value attribute_path(Value object, const Value& path, Meter& meter);

}  // namespace crumb::text::chat
