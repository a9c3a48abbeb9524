// The loops of lines.h for any processor, and the choice among all.
#include "base/processor.h"
#include "runtime/integer/lines.h"

namespace crumb::runtime::integer {

#define CRUMB_LINES
#define CRUMB_NAMED(name) name##_portable
#include "runtime/integer/lines_loops.inc"

void codes_by_lines(Channels channels, const Lines& lines, std::int32_t low, const std::int32_t* sums,
                    std::size_t count, std::uint8_t* codes) {
  static const auto loop = may_use(Isa::kAvx512) ? codes_by_lines_avx512
                           : may_use(Isa::kAvx2) ? codes_by_lines_avx2
                                                 : codes_by_lines_portable;
  loop(channels, lines, low, sums, count, codes);
}

void count_thresholds(std::span<const std::int32_t> thresholds, const std::int32_t* sums, std::size_t count,
                      std::int32_t* reached) {
  static const auto loop = may_use(Isa::kAvx512) ? count_thresholds_avx512
                           : may_use(Isa::kAvx2) ? count_thresholds_avx2
                                                 : count_thresholds_portable;
  loop(thresholds, sums, count, reached);
}

void floats_of(Channels channels, const double* factors, const double* shifts, const std::int32_t* sums,
               std::size_t count, float* values) {
  static const auto loop = may_use(Isa::kAvx512) ? floats_of_avx512
                           : may_use(Isa::kAvx2) ? floats_of_avx2
                                                 : floats_of_portable;
  loop(channels, factors, shifts, sums, count, values);
}

}  // namespace crumb::runtime::integer
