// Which instruction sets kernels may use: one question, asked once, for every kernel of Crumb.
#pragma once

#include <cstdint>

namespace crumb {

enum class Isa : std::uint8_t {
  kPortable,  ///< what the compiler may assume anywhere
  kAvx2,      ///< AVX2, FMA and F16C
  kAvx512,    ///< AVX-512 F, BW, DQ and VL, AVX2 and FMA
};

/// Whether the processor has it, and $CRUMB_ISA does not keep kernels from it: "portable", "avx2" or "avx512" is the most
/// that they may use (what LibTorch does is its own: ATEN_CPU_CAPABILITY, ONEDNN_MAX_CPU_ISA). The variable is read once.
/// Throws Error where it is something else.
bool may_use(Isa isa);

/// The same of AVX-512 VNNI beside Isa::kAvx512: products of bytes that are added up four at a time.
bool may_use_vnni();

}  // namespace crumb
