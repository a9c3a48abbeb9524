#pragma once

#include <string>

#include "formats/number/number_format.h"
#include "quant/quant_spec.h"

namespace crumb {

/// The spec with integers (intN, or uintN where it has no sign) of another width. Preconditions: integers, and there is
/// such a format (1 or 2 to 8 bits).
inline QuantSpec with_bits(QuantSpec spec, int bits) {
  spec.number = find_number_format((spec.number->is_signed ? "int" : "uint") + std::to_string(bits));
  return spec;
}

}  // namespace crumb
