// Which instruction sets Crumb's kernels may use, decided once for all kernels.
#pragma once

#include <cstdint>

namespace crumb {

enum class Isa : std::uint8_t {
  kPortable,  ///< what the compiler may assume on every processor
  kAvx2,      ///< AVX2, FMA and F16C
  kAvx512,    ///< AVX-512 F, BW, DQ and VL, AVX2 and FMA
  kVnni,      ///< AVX-512 VNNI in addition: products of bytes that are added up four at a time
  kAmx,       ///< AMX-TILE and AMX-INT8 in addition: products of tiles of bytes
};

/// Whether the processor has the instruction set and $CRUMB_ISA allows it: "portable", "avx2", "avx512",
/// "vnni" or "amx" is the most that kernels may use (LibTorch has variables of its own: ATEN_CPU_CAPABILITY,
/// ONEDNN_MAX_CPU_ISA). The variable is read once. Tile registers are the system's to allow: it is asked
/// once, for the whole process, and kernels do without where it refuses. Throws Error where the variable has
/// another value.
bool may_use(Isa isa);

}  // namespace crumb
