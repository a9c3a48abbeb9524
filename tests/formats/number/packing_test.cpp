// Bit packing: identity, the fast path against the scalar one, and the bytes that a stranger would write.
#include "formats/number/packing.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

namespace {

std::vector<uint8_t> random_codes(size_t count, int bits, uint32_t seed) {
  std::mt19937 engine(seed);
  std::vector<uint8_t> codes(count);
  for (uint8_t& code : codes) code = static_cast<uint8_t>(engine() & ((1u << bits) - 1));
  return codes;
}

}  // namespace

TEST_CASE("packing: identity for all bits and lengths, and fast equals scalar") {
  for (int bits = 1; bits <= 8; ++bits) {
    for (size_t count = 0; count <= 330; ++count) {
      CAPTURE(bits);
      CAPTURE(count);
      const std::vector<uint8_t> codes = random_codes(count, bits, static_cast<uint32_t>(count * 8) + 1);
      const uint64_t bytes = crumb::packed_bytes(count, bits);
      REQUIRE(bytes == (count * static_cast<size_t>(bits) + 7) / 8);
      // Exactly these bytes are written: what was there is overwritten, and the sanitizer sees a byte too
      // many.
      std::vector<uint8_t> fast(bytes, 0xFF), plain(bytes, 0xAA);
      crumb::pack_codes(codes, bits, fast.data());
      crumb::pack_codes_ref(codes, bits, plain.data());
      REQUIRE(fast == plain);
      std::vector<uint8_t> back(count), back_plain(count);
      crumb::unpack_codes(fast.data(), bits, 0, back);
      crumb::unpack_codes_ref(fast.data(), bits, 0, back_plain);
      REQUIRE(back == codes);
      REQUIRE(back_plain == codes);
      // Padding bits are zero.
      if (const size_t rest = count * static_cast<size_t>(bits) % 8; rest != 0)
        REQUIRE((fast.back() >> rest) == 0);
    }
  }
}

TEST_CASE("packing: any stretch of a row unpacks") {
  for (int bits = 1; bits <= 8; ++bits) {
    CAPTURE(bits);
    const std::vector<uint8_t> codes = random_codes(53, bits, 9);
    std::vector<uint8_t> bytes(crumb::packed_bytes(codes.size(), bits));
    crumb::pack_codes(codes, bits, bytes.data());
    for (size_t first = 0; first <= codes.size(); ++first) {
      for (size_t count = 0; first + count <= codes.size(); ++count) {
        std::vector<uint8_t> fast(count), plain(count);
        crumb::unpack_codes(bytes.data(), bits, first, fast);
        crumb::unpack_codes_ref(bytes.data(), bits, first, plain);
        const std::vector<uint8_t> expected(codes.begin() + static_cast<ptrdiff_t>(first),
                                            codes.begin() + static_cast<ptrdiff_t>(first + count));
        REQUIRE(fast == expected);
        REQUIRE(plain == expected);
      }
    }
  }
}

TEST_CASE("packing: little-endian bit order, written out") {
  std::vector<uint8_t> bytes(2);
  crumb::pack_codes(std::vector<uint8_t>{1, 2, 3}, 4, bytes.data());
  CHECK(bytes == std::vector<uint8_t>{0x21, 0x03});
  // 3-bit codes 5, 6, 7: bits 101 011 111, least significant first.
  crumb::pack_codes(std::vector<uint8_t>{5, 6, 7}, 3, bytes.data());
  CHECK(bytes == std::vector<uint8_t>{0xF5, 0x01});
}
