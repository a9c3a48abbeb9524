// The loops of sparse_rows.h for any processor.
#include <cmath>

#include "runtime/exact/sparse_rows.h"

namespace crumb::runtime::exact {

#define CRUMB_SPARSE
#define CRUMB_FMA(a, b, c) std::fma(a, b, c)
#define CRUMB_NAMED(name) name##_portable
#include "runtime/exact/sparse_rows_loops.inc"

}  // namespace crumb::runtime::exact
