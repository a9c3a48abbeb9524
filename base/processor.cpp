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
  return avx512 ? Isa::kAvx512 : Isa::kAvx2;
#else
  return Isa::kPortable;
#endif
}

bool has_vnni() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512vnni") != 0;
#else
  return false;
#endif
}

namespace {

Isa most_wanted() {
  const char* wanted = std::getenv("CRUMB_ISA");
  if (!wanted || !*wanted) return Isa::kAvx512;
  constexpr std::array<std::string_view, 3> kNames = {"portable", "avx2", "avx512"};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (wanted == kNames[i]) return static_cast<Isa>(i);
  }
  throw Error("CRUMB_ISA: expected portable, avx2 or avx512, found " + quote_text(wanted), ErrorKind::kUsage);
}

}  // namespace

bool may_use(Isa isa) {
  static const Isa most = std::min(most_wanted(), isa_there());
  return isa <= most;
}

bool may_use_vnni() {
  static const bool is_there = has_vnni();
  return is_there && may_use(Isa::kAvx512);
}

}  // namespace crumb
