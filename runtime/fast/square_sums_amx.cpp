// square_sums.h by AMX.
#include "runtime/fast/square_sums.h"
#include "runtime/fast/square_sums.inc"

namespace crumb::runtime {

#if defined(__x86_64__)
void add_squares_amx(const ChunkedRows& x, std::size_t first, std::size_t count, const PanelPart& w,
                     std::int32_t* carried, float* made) {
  add_squares<HardwareTiles>(x, first, count, w, carried, made);
}
#else
// No processor has it.
void add_squares_amx(const ChunkedRows&, std::size_t, std::size_t, const PanelPart&, std::int32_t*, float*) {}
#endif

}  // namespace crumb::runtime
