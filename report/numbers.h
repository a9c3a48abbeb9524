// Numbers as texts of pages.
#pragma once

#include <string>
#include <string_view>

namespace crumb::report {

/// Four significant digits: "0.6123", "-13", "1.2e-07".
std::string short_number(double value);

/// Whether JavaScript's parseFloat reads the whole text as it reads a number.
bool is_plain_number(std::string_view text);

/// A number for parseFloat, in full: "0.1", "Infinity", "NaN".
std::string script_number(double value);

}  // namespace crumb::report
