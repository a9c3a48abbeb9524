// The loops of code_values.h for any processor, and the choice among all.
#include <algorithm>
#include <bit>

#include "base/processor.h"
#include "runtime/integer/code_values.h"

namespace crumb::runtime::integer {

#define CRUMB_CODES
#define CRUMB_NAMED(name) name##_portable
#include "runtime/integer/code_values_loops.inc"

bool codes_of(const CodeScale& by, const float* x, std::size_t count, std::uint8_t* codes) {
  static const auto loop = may_use(Isa::kAvx2) ? codes_of_avx2 : codes_of_portable;
  return loop(by, x, count, codes);
}

bool quantized_of(const CodeScale& by, const float* x, std::size_t count, float* y) {
  static const auto loop = may_use(Isa::kAvx2) ? quantized_of_avx2 : quantized_of_portable;
  return loop(by, x, count, y);
}

void values_of(const CodeScale& by, const std::uint8_t* codes, std::size_t count, float* x) {
  static const auto loop = may_use(Isa::kAvx2) ? values_of_avx2 : values_of_portable;
  loop(by, codes, count, x);
}

}  // namespace crumb::runtime::integer
