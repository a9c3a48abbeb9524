#pragma once

#include <string>

#include "formats/number/number_format.h"
#include "quant/quant_spec.h"

namespace crumb {

/// Returns the spec with integers of `bits` bits (intN, or uintN where its format has no sign).
/// Preconditions: the spec's format is integers, and such a format exists (1 or 2 to 8 bits).
inline QuantSpec with_bits(QuantSpec spec, int bits) {
  spec.number = find_number_format((spec.number->is_signed ? "int" : "uint") + std::to_string(bits));
  return spec;
}

}  // namespace crumb
