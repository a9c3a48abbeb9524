#include "formats/number/packing.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/processor.h"

namespace crumb {
namespace {

/// The low `bits` bits of each of the fields of `width` bits that a word has.
constexpr uint64_t low_bits(int width, int bits) {
  uint64_t mask = 0;
  for (int at = 0; at < 64; at += width) mask |= ((uint64_t{1} << bits) - 1) << at;
  return mask;
}

/// Eight codes of `kBits` bits make kBits bytes. They start as the bytes of a word, whose gaps close in three
/// steps: bytes into pairs, pairs into fours, fours into eight.
template <int kBits>
void pack_eights(const uint8_t* __restrict codes, uint64_t eights, uint8_t* __restrict out) {
  static_assert(std::endian::native == std::endian::little);
  for (uint64_t i = 0; i < eights; ++i, codes += 8, out += kBits) {
    uint64_t word;
    std::memcpy(&word, codes, 8);
    if constexpr (kBits < 8) {
      word = (word & low_bits(16, kBits)) | ((word >> (8 - kBits)) & (low_bits(16, kBits) << kBits));
      word = (word & low_bits(32, 2 * kBits)) |
             ((word >> (16 - 2 * kBits)) & (low_bits(32, 2 * kBits) << (2 * kBits)));
      word = (word & low_bits(64, 4 * kBits)) |
             ((word >> (32 - 4 * kBits)) & (low_bits(64, 4 * kBits) << (4 * kBits)));
    }
    std::memcpy(out, &word, kBits);
  }
}

/// The same backwards. Where as many bytes follow, a whole word is loaded: one that is put together in memory
/// from three bytes makes the load wait.
template <int kBits>
void unpack_eights(const uint8_t* __restrict in, uint64_t eights, uint8_t* __restrict codes) {
  const uint64_t whole =
      eights > 8 / kBits ? eights - 8 / kBits : 0;  // those behind take at least 8 - kBits bytes
  for (uint64_t i = 0; i < eights; ++i, in += kBits, codes += 8) {
    uint64_t word = 0;
    if (i < whole) {
      std::memcpy(&word, in, 8);
      if constexpr (kBits < 8) word &= (uint64_t{1} << 8 * kBits) - 1;
    } else {
      std::memcpy(&word, in, kBits);
    }
    if constexpr (kBits < 8) {
      constexpr uint64_t kFours = low_bits(64, 4 * kBits), kPairs = low_bits(32, 2 * kBits),
                         kOnes = low_bits(16, kBits);
      word = (word & kFours) | ((word & (kFours << (4 * kBits))) << (32 - 4 * kBits));
      word = (word & kPairs) | ((word & (kPairs << (2 * kBits))) << (16 - 2 * kBits));
      word = (word & kOnes) | ((word & (kOnes << kBits)) << (8 - kBits));
    }
    std::memcpy(codes, &word, 8);
  }
}

// Four bits are half a byte: plain loops, which the compiler makes into vectors.
template <>
void pack_eights<4>(const uint8_t* __restrict codes, uint64_t eights, uint8_t* __restrict out) {
  for (uint64_t i = 0; i < 4 * eights; ++i)
    out[i] = static_cast<uint8_t>(codes[2 * i] | codes[2 * i + 1] << 4);
}
template <>
void unpack_eights<4>(const uint8_t* __restrict in, uint64_t eights, uint8_t* __restrict codes) {
  for (uint64_t i = 0; i < 4 * eights; ++i) {
    codes[2 * i] = in[i] & 15;
    codes[2 * i + 1] = in[i] >> 4;
  }
}

constexpr void (*kPackEights[])(const uint8_t*, uint64_t, uint8_t*) = {
    nullptr,        pack_eights<1>, pack_eights<2>, pack_eights<3>, pack_eights<4>,
    pack_eights<5>, pack_eights<6>, pack_eights<7>, pack_eights<8>};
constexpr void (*kUnpackEights[])(const uint8_t*, uint64_t, uint8_t*) = {
    nullptr,          unpack_eights<1>, unpack_eights<2>, unpack_eights<3>, unpack_eights<4>,
    unpack_eights<5>, unpack_eights<6>, unpack_eights<7>, unpack_eights<8>};

}  // namespace

void pack_codes_ref(std::span<const uint8_t> codes, int bits, uint8_t* out) {
  std::fill_n(out, packed_bytes(codes.size(), bits), uint8_t{0});
  for (uint64_t i = 0; i < codes.size(); ++i) {
    for (int b = 0; b < bits; ++b) {
      const uint64_t bit = i * static_cast<uint64_t>(bits) + static_cast<uint64_t>(b);
      out[bit / 8] = static_cast<uint8_t>(out[bit / 8] | ((codes[i] >> b) & 1) << (bit % 8));
    }
  }
}

void unpack_codes_ref(const uint8_t* in, int bits, uint64_t first, std::span<uint8_t> codes) {
  for (uint64_t i = 0; i < codes.size(); ++i) {
    int code = 0;
    for (int b = 0; b < bits; ++b) {
      const uint64_t bit = (first + i) * static_cast<uint64_t>(bits) + static_cast<uint64_t>(b);
      code |= ((in[bit / 8] >> (bit % 8)) & 1) << b;
    }
    codes[i] = static_cast<uint8_t>(code);
  }
}

void pack_codes(std::span<const uint8_t> codes, int bits, uint8_t* out) {
  const uint64_t eights = codes.size() / 8;
  const uint64_t fast =
      bits < 8 && may_use(Isa::kAvx2) ? pack_eights_avx2(codes.data(), bits, eights, out) : 0;
  kPackEights[bits](codes.data() + fast * 8, eights - fast, out + fast * static_cast<uint64_t>(bits));
  const uint64_t done = eights * 8;
  pack_codes_ref(codes.subspan(done), bits, out + eights * static_cast<uint64_t>(bits));
}

void unpack_codes(const uint8_t* in, int bits, uint64_t first, std::span<uint8_t> codes) {
  // Codes before the next multiple of eight, then whole eights, then the rest.
  const uint64_t lead = std::min<uint64_t>((8 - first % 8) % 8, codes.size());
  unpack_codes_ref(in, bits, first, codes.first(lead));
  const uint64_t start = (first + lead) / 8 * static_cast<uint64_t>(bits);
  const uint64_t eights = (codes.size() - lead) / 8;
  const uint64_t fast =
      bits < 8 && may_use(Isa::kAvx2) ? unpack_eights_avx2(in + start, bits, eights, codes.data() + lead) : 0;
  if (eights > fast)
    kUnpackEights[bits](in + start + fast * static_cast<uint64_t>(bits), eights - fast,
                        codes.data() + lead + fast * 8);
  const uint64_t done = lead + eights * 8;
  unpack_codes_ref(in, bits, first + done, codes.subspan(done));
}

}  // namespace crumb
