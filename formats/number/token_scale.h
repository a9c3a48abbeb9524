// Scales that are found as values come: the largest magnitude of a token's run over the number that it
// becomes.
#pragma once

#include "formats/number/number_format.h"

namespace crumb {

/// Of integers the greatest code, whose negative is a code too; of minifloats the largest value.
inline float token_greatest(const NumberFormat& format, Range range) {
  return format.grid == Grid::kMinifloat ? format.largest_value(range)
                                         : static_cast<float>(format.greatest_code(range));
}

}  // namespace crumb
