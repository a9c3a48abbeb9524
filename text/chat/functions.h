// Filters and tests.
#pragma once

#include <string_view>

#include "text/chat/members.h"

namespace crumb::text::chat {

/// Throws Trouble where there is no such filter, or where it does not take these arguments.
Value apply_filter(std::string_view name, const Value& input, const Arguments& arguments, Meter& meter);
bool apply_test(std::string_view name, const Value& input, const Arguments& arguments, Meter& meter);

/// left + right, by Python's rules.
Value sum_of(const Value& left, const Value& right, Meter& meter);
/// One of - * / // % **.
Value arithmetic(std::string_view how, const Value& left, const Value& right, Meter& meter);
Value negative(const Value& value);

}  // namespace crumb::text::chat
