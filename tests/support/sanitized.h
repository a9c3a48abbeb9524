// Whether tests run under AddressSanitizer, which makes them take five times as long.
#pragma once

// clang tells by a feature what gcc tells by a macro.
#if defined(__SANITIZE_ADDRESS__)
#define CRUMB_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CRUMB_ADDRESS_SANITIZER 1
#endif
#endif
#ifndef CRUMB_ADDRESS_SANITIZER
#define CRUMB_ADDRESS_SANITIZER 0
#endif

namespace crumb::testing {

/// Sweeps that an optimized build makes whole (crumb_core_tests: tests/formats, tests/quant, tests/runtime)
/// are shorter here.
inline constexpr bool kSanitized = CRUMB_ADDRESS_SANITIZER != 0;

}  // namespace crumb::testing
