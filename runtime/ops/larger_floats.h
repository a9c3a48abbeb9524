// Maxima of floats element by element, which the compiler vectorizes.
#pragma once

#include <cstddef>

namespace crumb::runtime {

/// to[i] = larger_of(to[i], from[i * stride]) (convert.h) for i < count. `to` and `from` do not overlap.
void take_larger_portable(float* to, const float* from, std::size_t count, std::size_t stride);
/// With AVX2. Precondition: may_use(Isa::kAvx2).
void take_larger_avx2(float* to, const float* from, std::size_t count, std::size_t stride);

}  // namespace crumb::runtime
