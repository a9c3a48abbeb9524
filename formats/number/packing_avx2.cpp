// pack_codes() and unpack_codes() with AVX2: 32 codes at a time. Packing joins neighbours: codes to pairs and
// pairs to fours by products with powers of two, fours to eights by a shift; a shuffle drops the bytes
// between the eights. Unpacking: a code is in two neighbouring bytes, which a shuffle brings to the 16 bits
// of the code; a product moves its field to their top, a shift to their bottom. The instruction set is named
// function by function, so that nothing inline of the standard library is compiled for it.
#include "formats/number/packing.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define CRUMB_AVX2 __attribute__((target("avx2")))

namespace crumb {
namespace {

constexpr uint64_t kLoad = 16, kTogether = 4;  // bytes of a load, eights of a step

struct Fields {
  alignas(32) uint8_t bytes[32];  // those of 16 codes, which two eights make
  alignas(32) uint16_t factors[16];
};

constexpr Fields fields_of(int bits) {
  Fields made{};
  for (int code = 0; code < 16; ++code) {
    const int first = code / 8 * bits + code % 8 * bits / 8, from = code % 8 * bits % 8;
    made.bytes[2 * code] = static_cast<uint8_t>(first);
    made.bytes[2 * code + 1] = static_cast<uint8_t>(first + 1);
    made.factors[code] = static_cast<uint16_t>(1U << (16 - bits - from));
  }
  return made;
}

constexpr Fields kFields[] = {{},           fields_of(1), fields_of(2), fields_of(3),
                              fields_of(4), fields_of(5), fields_of(6), fields_of(7)};

CRUMB_AVX2 inline __m256i two_eights(const uint8_t* in, __m256i bytes, __m256i factors, __m128i down) {
  const __m256i both = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in)));
  return _mm256_srl_epi16(_mm256_mullo_epi16(_mm256_shuffle_epi8(both, bytes), factors), down);
}

}  // namespace

CRUMB_AVX2 uint64_t unpack_eights_avx2(const uint8_t* in, int bits, uint64_t eights, uint8_t* codes) {
  const auto step = static_cast<uint64_t>(bits);
  const __m256i bytes = _mm256_load_si256(reinterpret_cast<const __m256i*>(kFields[bits].bytes));
  const __m256i factors = _mm256_load_si256(reinterpret_cast<const __m256i*>(kFields[bits].factors));
  const __m128i down = _mm_cvtsi32_si128(16 - bits);
  uint64_t done = 0;
  for (; (eights - done) * step >= 2 * step + kLoad && eights - done >= kTogether; done += kTogether) {
    const __m256i low = two_eights(in, bytes, factors, down),
                  high = two_eights(in + 2 * step, bytes, factors, down);
    const __m256i all = _mm256_permute4x64_epi64(_mm256_packus_epi16(low, high), 0xD8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes), all);
    in += kTogether * step;
    codes += kTogether * 8;
  }
  return done;
}

CRUMB_AVX2 uint64_t pack_eights_avx2(const uint8_t* codes, int bits, uint64_t eights, uint8_t* out) {
  const auto step = static_cast<uint64_t>(bits);
  alignas(32) int8_t kept[32];
  for (int i = 0; i < 32; ++i) {
    const int byte = i % 16;
    kept[i] = static_cast<int8_t>(byte < bits ? byte : byte < 2 * bits ? 8 + byte - bits : -1);
  }
  const __m256i shuffle = _mm256_load_si256(reinterpret_cast<const __m256i*>(kept));
  const __m256i ones = _mm256_set1_epi16(static_cast<int16_t>(1 | 1 << (8 + bits)));
  const __m256i pairs = _mm256_set1_epi32(1 | 1 << (16 + 2 * bits));
  const __m256i low_half = _mm256_set1_epi64x(0xFFFFFFFF);
  const __m128i back = _mm_cvtsi32_si128(32 - 4 * bits);
  uint64_t done = 0;
  // Each half of a step writes 16 bytes, of which the first 2 * bits stay.
  for (; (eights - done) * step >= 2 * step + kLoad && eights - done >= kTogether; done += kTogether) {
    const __m256i each = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
    const __m256i fours = _mm256_madd_epi16(_mm256_maddubs_epi16(ones, each), pairs);
    const __m256i upper = _mm256_srl_epi64(_mm256_andnot_si256(low_half, fours), back);
    const __m256i all =
        _mm256_shuffle_epi8(_mm256_or_si256(_mm256_and_si256(fours, low_half), upper), shuffle);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_castsi256_si128(all));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 2 * step), _mm256_extracti128_si256(all, 1));
    codes += kTogether * 8;
    out += kTogether * step;
  }
  return done;
}

}  // namespace crumb
#else
namespace crumb {
uint64_t pack_eights_avx2(const uint8_t*, int, uint64_t, uint8_t*) { return 0; }
uint64_t unpack_eights_avx2(const uint8_t*, int, uint64_t, uint8_t*) { return 0; }
}  // namespace crumb
#endif
