// Bit packing: code i of a row occupies bits [b*i, b*i + b) of the row's little-endian bit stream, least
// significant bit first; a row is padded with zero bits to whole bytes.
#pragma once

#include <cstdint>
#include <span>

namespace crumb {

/// Bytes of a packed row of `count` codes of `bits` bits. Precondition: count * bits does not overflow.
inline uint64_t packed_bytes(uint64_t count, int bits) {
  return (count * static_cast<uint64_t>(bits) + 7) / 8;
}

/// Packs codes.size() codes (each below 2^bits) into exactly packed_bytes() bytes at `out`.
void pack_codes(std::span<const uint8_t> codes, int bits, uint8_t* out);

/// Unpacks codes [first, first + codes.size()) of a packed row that starts at `in`.
void unpack_codes(const uint8_t* in, int bits, uint64_t first, std::span<uint8_t> codes);

/// Scalar twins of the two, one code at a time.
void pack_codes_ref(std::span<const uint8_t> codes, int bits, uint8_t* out);
void unpack_codes_ref(const uint8_t* in, int bits, uint64_t first, std::span<uint8_t> codes);

/// Unpacks codes of one to seven bits eight by eight, as many of `eights` as it can without reading behind
/// their bytes, and returns how many that are. Precondition: may_use(Isa::kAvx2).
uint64_t unpack_eights_avx2(const uint8_t* in, int bits, uint64_t eights, uint8_t* codes);

/// Packs codes of one to seven bits eight by eight, as many of `eights` as it can without writing behind
/// their bytes, and returns how many that are. Precondition: may_use(Isa::kAvx2).
uint64_t pack_eights_avx2(const uint8_t* codes, int bits, uint64_t eights, uint8_t* out);

}  // namespace crumb
