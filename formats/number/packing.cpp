#include "formats/number/packing.h"

#include <algorithm>
#include <cstring>

namespace crumb {
namespace {

/// Eight codes of `kBits` bits make kBits bytes: gathered in one 64-bit word, then stored.
template <int kBits>
void pack_eights(const uint8_t* codes, uint64_t eights, uint8_t* out) {
  for (uint64_t i = 0; i < eights; ++i, codes += 8, out += kBits) {
    uint64_t word = 0;
    for (int k = 0; k < 8; ++k) word |= static_cast<uint64_t>(codes[k]) << (k * kBits);
    std::memcpy(out, &word, kBits);
  }
}

template <int kBits>
void unpack_eights(const uint8_t* in, uint64_t eights, uint8_t* codes) {
  constexpr uint64_t kMask = (1u << kBits) - 1;
  for (uint64_t i = 0; i < eights; ++i, in += kBits, codes += 8) {
    uint64_t word = 0;
    std::memcpy(&word, in, kBits);
    for (int k = 0; k < 8; ++k) codes[k] = static_cast<uint8_t>((word >> (k * kBits)) & kMask);
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
  kPackEights[bits](codes.data(), eights, out);
  const uint64_t done = eights * 8;
  pack_codes_ref(codes.subspan(done), bits, out + eights * static_cast<uint64_t>(bits));
}

void unpack_codes(const uint8_t* in, int bits, uint64_t first, std::span<uint8_t> codes) {
  // Codes before the next multiple of eight, then whole eights, then the rest.
  const uint64_t lead = std::min<uint64_t>((8 - first % 8) % 8, codes.size());
  unpack_codes_ref(in, bits, first, codes.first(lead));
  const uint64_t start = (first + lead) / 8 * static_cast<uint64_t>(bits);
  const uint64_t eights = (codes.size() - lead) / 8;
  if (eights > 0) kUnpackEights[bits](in + start, eights, codes.data() + lead);
  const uint64_t done = lead + eights * 8;
  unpack_codes_ref(in, bits, first + done, codes.subspan(done));
}

}  // namespace crumb
