// square_sums.h by AMX.
#include "base/processor.h"
#include "runtime/fast/square_sums.h"
#include "runtime/fast/square_sums.inc"

namespace crumb::runtime {

#if defined(__x86_64__)
AddSquares squares_by_amx() { return may_use(Isa::kAmx) ? add_squares<HardwareTiles> : nullptr; }
#else
AddSquares squares_by_amx() { return nullptr; }
#endif

}  // namespace crumb::runtime
