// Python's formatting with %, as in '%s-%02d' | format('a', 3) and '%s' % x.
#pragma once

#include <string>

#include "text/chat/value.h"

namespace crumb::text::chat {

/// The arguments of a format: values in their order, or by name (%(name)s).
struct PercentArguments {
  List values;
  Pairs named;
  bool by_name = false;
};

/// Supports the conversions d i u s r a c x X o e E f F g G and %, with flags, width, precision and *. Throws
/// Trouble where Python raises an error, and for integers of more than 64 bits.
std::string percent_formatted(const std::string& format, const PercentArguments& arguments, Meter& meter);

}  // namespace crumb::text::chat
