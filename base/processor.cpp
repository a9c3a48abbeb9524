#include "base/processor.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/files/text.h"
#include "base/processor_facts.h"

namespace crumb {
namespace {

#if defined(__x86_64__)
/// Not every compiler's __builtin_cpu_supports knows it.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

bool has_amx_int8() {
  constexpr unsigned kTile = 1U << 24, kInt8 = 1U << 25;  // leaf 7, EDX
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kTile) != 0 && (d & kInt8) != 0;
}
#endif

/// Asks the system for the tile registers' state: Linux, Documentation/arch/x86/xstate.rst.
bool are_tiles_allowed() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace

Isa isa_there() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c()) return Isa::kPortable;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (!avx512) return Isa::kAvx2;
  if (!__builtin_cpu_supports("avx512vnni")) return Isa::kAvx512;
  return has_amx_int8() ? Isa::kAmx : Isa::kVnni;
#else
  return Isa::kPortable;
#endif
}

namespace {

Isa most_wanted() {
  const char* wanted = std::getenv("CRUMB_ISA");
  if (!wanted || !*wanted) return Isa::kAmx;
  constexpr std::array<std::string_view, 5> kNames = {"portable", "avx2", "avx512", "vnni", "amx"};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (wanted == kNames[i]) return static_cast<Isa>(i);
  }
  throw Error("CRUMB_ISA: expected portable, avx2, avx512, vnni or amx, found " + quote_text(wanted),
              ErrorKind::kUsage);
}

Isa most_allowed() {
  const Isa most = std::min(most_wanted(), isa_there());
  return most == Isa::kAmx && !are_tiles_allowed() ? Isa::kVnni : most;
}

}  // namespace

bool may_use(Isa isa) {
  static const Isa most = most_allowed();
  return isa <= most;
}

bool are_tiles_refused() { return std::min(most_wanted(), isa_there()) == Isa::kAmx && !may_use(Isa::kAmx); }

}  // namespace crumb
