// Products of integer matrices whose elements are bytes: codes, which are not negative, times weights, which
// have a sign.
//
// One operand lies in rows, the other in vectors: 16 columns by 4 terms in 64 bytes, column by column, which
// is what one instruction of every set takes (vpdpbusd with 512 bits; half of it with AVX2) against four
// terms of a row. In a convolution the rows are weights and the columns of vectors are output positions; in a
// matrix product the rows are codes and the columns are output channels.
//
// Sums are those modulo 2^32, so a sum that itself fits 32 bits is exact even where partial sums do not.
// Narrower registers are used only where it is proven that they hold every partial sum (Way).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace crumb::runtime::integer {

inline constexpr std::size_t kLanes = 16;  ///< columns of a vector
inline constexpr std::size_t kGroup = 4;   ///< terms of a vector
inline constexpr std::size_t kVectorBytes = kLanes * kGroup;
inline constexpr std::size_t kTileGroups = 16;  ///< groups that a tile takes at a time

constexpr std::size_t groups_of(std::size_t terms) { return (terms + kGroup - 1) / kGroup; }
constexpr std::size_t vectors_of(std::size_t columns) { return (columns + kLanes - 1) / kLanes; }

/// Which operand lies in vectors.
enum class InVectors : std::uint8_t { kWeights, kCodes };

/// y[r * y_stride + 16 * v + lane] = start + the sum over g and i of row[r][4 * g + i] *
/// vector[v][g][lane][i], for r < rows, v < vectors, g < groups.
struct ByteProducts {
  std::size_t rows = 0;
  std::size_t vectors = 0;
  std::size_t groups = 0;
  const std::byte* row = nullptr;       ///< std::uint8_t of codes, std::int8_t of weights
  std::size_t row_stride = 0;           ///< bytes
  const std::byte* vector = nullptr;    ///< of `groups` times 64 bytes each
  std::size_t vector_stride = 0;        ///< bytes from one to the next; 0: one after the other
  const std::int32_t* start = nullptr;  ///< one for each output of the weights: row, or lane of all vectors
  std::int32_t* y = nullptr;
  std::size_t y_stride = 0;

  std::size_t vector_step() const { return vector_stride > 0 ? vector_stride : groups * kVectorBytes; }
};

/// How products are computed: an instruction set, and the width of the registers that sums are added up in.
struct Way {
  enum class Kind : std::uint8_t {
    kReference,
    kWords,  ///< AVX2: products of 16 bits by 16, pairs of them added up in 32 bits (vpmaddwd)
    kPairs,  ///< AVX2: pairs of products in 16 bits (vpmaddubsw), added up in 16 bits over a span of groups
    kQuads,  ///< AVX-512 VNNI: four products at a time are added up in 32 bits (vpdpbusd)
    kTiles,  ///< AMX: the same, sixteen rows by sixteen columns by 64 terms at a time (tdpbusd)
  };
  Kind kind = Kind::kReference;
  std::size_t span = 0;  ///< of kPairs: groups after which 16 bits are added to 32

  /// Whether one 16-bit register takes all products of a sum.
  bool is_all_in_16_bits(std::size_t groups) const { return kind == Kind::kPairs && span >= groups; }
};

/// For vpmaddubsw with 16-bit sums, weights in rows of 4 * groups and codes up to `most`: the number of
/// groups over which no sum of products in one register passes 16 bits; 0 where the sum of a pair may.
std::size_t span_in_16_bits(std::span<const std::int8_t> rows, std::size_t groups, int most);

/// The fastest way on this processor that holds whatever the bytes are.
Way way_of_any_bytes(std::size_t groups);

/// The fastest way on this processor for such weights and codes.
Way way_of(std::span<const std::int8_t> rows, std::size_t groups, int most);

/// Describes for people how wide the registers are that sums are added up in, and why: "int16, vpmaddubsw:
/// sums are proven to stay in [-450, 450]". `least` and `most` bound the sums for any codes.
std::string registers_of(const Way& way, std::size_t groups, std::int64_t least, std::int64_t most);

/// " in [-450, 450]"
std::string range_of(std::int64_t least, std::int64_t most);

/// The reference, by the definition.
void multiply_bytes_ref(InVectors which, const ByteProducts& products);

/// On this thread. Precondition: the way is what way_of() returned for these weights and codes, or one that
/// the processor has and that needs narrower bounds.
void multiply_bytes(const Way& way, InVectors which, const ByteProducts& products);

/// Precondition: may_use(Isa::kAvx2).
void multiply_words_avx2(InVectors which, const ByteProducts& products);
void multiply_pairs_avx2(InVectors which, const ByteProducts& products, std::size_t span);
/// Precondition: may_use(Isa::kVnni).
void multiply_quads_vnni(InVectors which, const ByteProducts& products);
/// Precondition: may_use(Isa::kAmx).
void multiply_tiles_amx(InVectors which, const ByteProducts& products);

}  // namespace crumb::runtime::integer
