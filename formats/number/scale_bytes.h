// decode_scale_bytes() of scale_format.h by instruction sets.
#pragma once

#include <cstddef>
#include <cstdint>

namespace crumb {

/// Writes the values of e4m3 scales, as many of `count` as make whole vectors, and returns how many those
/// are. Precondition: may_use(Isa::kAvx2).
uint64_t decode_e4m3_avx2(const std::byte* bytes, uint64_t count, float* out);

}  // namespace crumb
