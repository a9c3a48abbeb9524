// What tests of damaged and hostile packed files share: what is wanted in them, and verdicts in bounded memory.
#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/sanitized.h"

#if CRUMB_ADDRESS_SANITIZER
// Of <sanitizer/allocator_interface.h>, which gcc does not install.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void*, size_t),  // NOLINT
                                                         void (*)(const volatile void*));
extern "C" size_t __sanitizer_get_allocated_size(const volatile void*);  // NOLINT
#endif

#include "tests/formats/crumb_file/samples.h"

namespace crumb::testing {

inline constexpr int64_t kMostExtra = 64 << 20;  // beyond the file's size, while opening and verifying

/// Bytes allocated at most since it was made. Counts under AddressSanitizer only; 0 elsewhere (tests/cli
/// limits the memory of a whole process there).
class AllocationPeak {
 public:
#if CRUMB_ADDRESS_SANITIZER
  AllocationPeak() {
    static const int installed = __sanitizer_install_malloc_and_free_hooks(
        [](const volatile void*, size_t size) {
          if (!counting) return;
          const int64_t now = live += static_cast<int64_t>(size);
          int64_t most = peak;
          while (now > most && !peak.compare_exchange_weak(most, now)) {
          }
        },
        [](const volatile void* block) {
          if (counting && block) live -= static_cast<int64_t>(__sanitizer_get_allocated_size(block));
        });
    REQUIRE(installed != 0);
    live = peak = 0;
    counting = true;
  }
  ~AllocationPeak() { counting = false; }
#endif
  int64_t bytes() const { return peak; }

 private:
  static inline std::atomic<bool> counting{false};
  static inline std::atomic<int64_t> live{0}, peak{0};
};

/// The verdict, with a check of the memory that it took.
inline std::string bounded_verdict(const std::filesystem::path& path, std::string_view content) {
  write_all(path, content);
  const AllocationPeak peak;
  std::string message = verdict(path);
  CHECK(peak.bytes() <= std::ssize(content) + kMostExtra);
  return message;
}

inline bool says(const std::string& message, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) {
    if (message.find(part) != std::string::npos) continue;
    MESSAGE("'" << message << "' does not say '" << part << "'");
    return false;
  }
  return true;
}

inline const std::vector<Wanted> kSmall = {
    {"a.weight", {3, 10}, "int4:group=5:zero=int"}, {"b", {2, 16}, "nvfp4"}, {"c", {3}, ""}};
inline const std::string kCompressible(300, ' ');  // the other blobs are too small to compress

inline const std::vector<Wanted> kMany = {{"a", {3, 10}, "int4:group=5:zero=int"},
                                          {"b", {2, 16}, "nvfp4"},
                                          {"palette", {4, 9}, "palette2:group=3"},
                                          {"ternary", {2, 5}, "ternary"},
                                          {"fp8", {2, 6}, "e4m3fn"},
                                          {"half", {2, 6}, "e5m2:scale=f16"},
                                          {"narrow", {2, 6}, "uint4:range=narrow:zero=int"},
                                          {"float zero", {2, 6}, "uint3:zero=float:scale=bf16"},
                                          {"powers", {2, 6}, "int3h:scale=e8m0"},
                                          {"empty", {0, 5}, "int8"},
                                          {"kept", {2, 2}, ""}};

}  // namespace crumb::testing
