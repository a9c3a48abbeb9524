// The tile registers of AMX, and the products of them that Crumb uses: eight registers of up to sixteen rows
// of 64 bytes. Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18; volume 2,
// LDTILECFG, TILELOADD, TILESTORED, TDPBSSD, TDPBSUD, TDPBUSD.
//
// Kernels take the registers as a parameter: HardwareTiles, or EmulatedTiles, which does the same in C++, so
// that tests run the kernels on any processor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace crumb::runtime {

inline constexpr std::size_t kTileRegisters = 8;
inline constexpr std::size_t kRegisterRows = 16, kRegisterLine = 64;  ///< at most; bytes of a row

/// The shapes of the registers, as LDTILECFG reads them. Registers 0 to 3 hold sums, 4 and 5 rows of bytes, 6
/// and 7 vectors: four terms of each of sixteen columns.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0;
  std::array<std::uint8_t, 14> reserved{};
  std::array<std::uint16_t, 16> row_bytes{};
  std::array<std::uint8_t, 16> rows{};

  /// For products of sixteen rows of `terms` bytes with sixteen columns. Precondition: terms is a multiple of
  /// 4 from 4 to 64.
  static TileShapes of(std::size_t terms) {
    TileShapes made;
    for (std::size_t i = 0; i < kTileRegisters; ++i) {
      made.row_bytes[i] = static_cast<std::uint16_t>(i == 4 || i == 5 ? terms : kRegisterLine);
      made.rows[i] = static_cast<std::uint8_t>(i >= 6 ? terms / 4 : kRegisterRows);
    }
    return made;
  }
};
static_assert(sizeof(TileShapes) == 64);

#if defined(__x86_64__)
#define CRUMB_TILES __attribute__((target("amx-tile,amx-int8"), always_inline)) inline

/// This thread's registers, from construction to destruction. Precondition: may_use(Isa::kAmx).
///
/// Written as assembly: GCC 12's header tells the compiler that LDTILECFG reads eight bytes, and numbers of
/// registers cannot be template parameters there.
struct HardwareTiles {
  CRUMB_TILES explicit HardwareTiles(const TileShapes& shapes) { asm volatile("ldtilecfg %0" ::"m"(shapes)); }
  CRUMB_TILES ~HardwareTiles() { asm volatile("tilerelease" ::: "memory"); }
  HardwareTiles(const HardwareTiles&) = delete;
  HardwareTiles& operator=(const HardwareTiles&) = delete;

  template <int kTile>
  CRUMB_TILES void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
  }
  /// Rows in memory are `stride` bytes apart.
  template <int kTile>
  CRUMB_TILES void load(const void* from, std::size_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile>
  CRUMB_TILES void store(void* to, std::size_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(kTile) : "memory");
  }
  /// sums[m][n] += the sum over k and i of rows[m][4 * k + i] * vectors[k][4 * n + i], modulo 2^32. Bytes are
  /// of the types Row and Vector: std::int8_t, and one of them may be std::uint8_t.
  template <int kSums, int kRows, int kVectors, class Row = std::int8_t, class Vector = std::int8_t>
  CRUMB_TILES void add_products() {
    constexpr bool kSignedRow = std::is_signed_v<Row>, kSignedVector = std::is_signed_v<Vector>;
    static_assert(kSignedRow || kSignedVector);
    if constexpr (kSignedRow && kSignedVector) {
      asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kRows), "i"(kVectors));
    } else if constexpr (kSignedRow) {
      asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kRows), "i"(kVectors));
    } else {
      asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kRows), "i"(kVectors));
    }
  }
};
#undef CRUMB_TILES
#endif

/// The same in C++.
class EmulatedTiles {
 public:
  explicit EmulatedTiles(const TileShapes& shapes) : shapes_(shapes) {}

  template <int kTile>
  void zero() {
    tiles_[kTile].fill(0);
  }
  template <int kTile>
  void load(const void* from, std::size_t stride) {
    zero<kTile>();
    for (std::size_t r = 0; r < shapes_.rows[kTile]; ++r)
      std::memcpy(row<kTile>(r), static_cast<const std::int8_t*>(from) + r * stride,
                  shapes_.row_bytes[kTile]);
  }
  template <int kTile>
  void store(void* to, std::size_t stride) {
    for (std::size_t r = 0; r < shapes_.rows[kTile]; ++r)
      std::memcpy(static_cast<std::int8_t*>(to) + r * stride, row<kTile>(r), shapes_.row_bytes[kTile]);
  }
  template <int kSums, int kRows, int kVectors, class Row = std::int8_t, class Vector = std::int8_t>
  void add_products() {
    for (std::size_t m = 0; m < shapes_.rows[kSums]; ++m) {
      for (std::size_t n = 0; n < kRegisterLine / 4; ++n) {
        std::uint32_t sum = 0;
        std::memcpy(&sum, row<kSums>(m) + 4 * n, sizeof sum);
        for (std::size_t k = 0; k < shapes_.row_bytes[kRows]; ++k) {
          const auto a = static_cast<Row>(row<kRows>(m)[k]);
          const auto b = static_cast<Vector>(row<kVectors>(k / 4)[4 * n + k % 4]);
          sum += static_cast<std::uint32_t>(a * b);
        }
        std::memcpy(row<kSums>(m) + 4 * n, &sum, sizeof sum);
      }
    }
  }

 private:
  template <int kTile>
  std::int8_t* row(std::size_t r) {
    return tiles_[kTile].data() + r * kRegisterLine;
  }

  TileShapes shapes_;
  std::array<std::array<std::int8_t, kRegisterRows * kRegisterLine>, kTileRegisters> tiles_{};
};

}  // namespace crumb::runtime
