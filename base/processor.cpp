#include "base/processor.h"

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/files/text.h"

namespace crumb {
namespace {

bool has(Isa isa) {
#if defined(__x86_64__)
  const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  if (isa == Isa::kAvx2) return avx2;
  if (isa == Isa::kAvx512) {
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  }
#endif
  return isa == Isa::kPortable;
}

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
  static const Isa most = most_wanted();
  return isa <= most && has(isa);
}

bool may_use_vnni() {
#if defined(__x86_64__)
  static const bool has_vnni = __builtin_cpu_supports("avx512vnni") != 0;
  return has_vnni && may_use(Isa::kAvx512);
#else
  return false;
#endif
}

}  // namespace crumb
