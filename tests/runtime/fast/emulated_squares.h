// The kernel of square_sums.h on emulated registers, so that what AMX does is tested where there is none.
// tile_sums_test.cpp defines it.
#pragma once

#include "runtime/fast/square_sums.h"

namespace crumb::runtime {

/// Null where there is no AVX-512, which the kernel needs beside its registers.
AddSquares squares_by_emulation();

}  // namespace crumb::runtime
