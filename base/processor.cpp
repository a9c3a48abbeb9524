#include "base/processor.h"

#if defined(__x86_64__)
#include <cpuid.h>
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
#endif

}  // namespace

Isa isa_there() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c()) return Isa::kPortable;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (!avx512) return Isa::kAvx2;
  return __builtin_cpu_supports("avx512vnni") ? Isa::kVnni : Isa::kAvx512;
#else
  return Isa::kPortable;
#endif
}

namespace {

Isa most_wanted() {
  const char* wanted = std::getenv("CRUMB_ISA");
  if (!wanted || !*wanted) return Isa::kVnni;
  constexpr std::array<std::string_view, 4> kNames = {"portable", "avx2", "avx512", "vnni"};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (wanted == kNames[i]) return static_cast<Isa>(i);
  }
  throw Error("CRUMB_ISA: expected portable, avx2, avx512 or vnni, found " + quote_text(wanted),
              ErrorKind::kUsage);
}

}  // namespace

bool may_use(Isa isa) {
  static const Isa most = std::min(most_wanted(), isa_there());
  return isa <= most;
}

}  // namespace crumb
