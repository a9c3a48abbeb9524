#include "formats/number/number_format.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/number/minifloat.h"

namespace crumb {
namespace {

constexpr NumberFormat integer(std::string_view name, int bits) {
  return {.name = name, .grid = Grid::kInteger, .bits = bits, .is_signed = true};
}
constexpr NumberFormat unsigned_integer(std::string_view name, int bits) {
  return {.name = name, .grid = Grid::kInteger, .bits = bits, .is_signed = false};
}
constexpr NumberFormat half_integer(std::string_view name, int bits) {
  return {.name = name, .grid = Grid::kHalfInteger, .bits = bits, .is_signed = true};
}
constexpr NumberFormat minifloat(std::string_view name, int e, int m, Specials specials = Specials::kNone) {
  return {.name = name,
          .grid = Grid::kMinifloat,
          .bits = 1 + e + m,
          .is_signed = true,
          .exponent_bits = e,
          .mantissa_bits = m,
          .bias = (1 << (e - 1)) - (specials == Specials::kFnuz ? 0 : 1),
          .specials = specials};
}
constexpr NumberFormat palette(std::string_view name, int bits) {
  return {.name = name, .grid = Grid::kCodebook, .bits = bits, .is_signed = true, .learned = true};
}

constexpr NumberFormat kFormats[] = {
    integer("int2", 2),
    integer("int3", 3),
    integer("int4", 4),
    integer("int5", 5),
    integer("int6", 6),
    integer("int7", 7),
    integer("int8", 8),
    unsigned_integer("uint1", 1),
    unsigned_integer("uint2", 2),
    unsigned_integer("uint3", 3),
    unsigned_integer("uint4", 4),
    unsigned_integer("uint5", 5),
    unsigned_integer("uint6", 6),
    unsigned_integer("uint7", 7),
    unsigned_integer("uint8", 8),
    half_integer("int2h", 2),
    half_integer("int3h", 3),
    half_integer("int4h", 4),
    {.name = "binary", .grid = Grid::kBinary, .bits = 1, .is_signed = true},
    integer("ternary", 2),
    minifloat("e1m1", 1, 1),
    minifloat("e2m0", 2, 0),
    minifloat("e1m2", 1, 2),
    minifloat("e2m1", 2, 1),
    minifloat("e3m0", 3, 0),
    minifloat("e1m3", 1, 3),
    minifloat("e2m2", 2, 2),
    minifloat("e3m1", 3, 1),
    minifloat("e4m0", 4, 0),
    minifloat("e1m4", 1, 4),
    minifloat("e2m3", 2, 3),
    minifloat("e3m2", 3, 2),
    minifloat("e4m1", 4, 1),
    minifloat("e5m0", 5, 0),
    minifloat("e1m5", 1, 5),
    minifloat("e2m4", 2, 4),
    minifloat("e3m3", 3, 3),
    minifloat("e4m2", 4, 2),
    minifloat("e5m1", 5, 1),
    minifloat("e6m0", 6, 0),
    minifloat("e1m6", 1, 6),
    minifloat("e2m5", 2, 5),
    minifloat("e3m4", 3, 4),
    minifloat("e4m3", 4, 3),
    minifloat("e5m2", 5, 2, Specials::kIeee),
    minifloat("e6m1", 6, 1),
    minifloat("e7m0", 7, 0),
    minifloat("e4m3fn", 4, 3, Specials::kFn),
    minifloat("e4m3fnuz", 4, 3, Specials::kFnuz),
    minifloat("e5m2fnuz", 5, 2, Specials::kFnuz),
    {.name = "nf4", .grid = Grid::kCodebook, .bits = 4, .is_signed = true},
    palette("palette1", 1),
    palette("palette2", 2),
    palette("palette3", 3),
    palette("palette4", 4),
    palette("palette5", 5),
    palette("palette6", 6),
    palette("palette7", 7),
    palette("palette8", 8),
    {.name = "e8m0",
     .grid = Grid::kExponent,
     .bits = 8,
     .is_signed = false,
     .exponent_bits = 8,
     .bias = 127,
     .scale_only = true},
};

// As published in QLoRA, appendix E. The construction of its section 3 gives them within 2e-7 (a test
// recomputes it): eight normal quantiles of [1/2, offset] for the positive half and seven mirrored for the
// negative one, offset = (1 - 1/32 + 1 - 1/30) / 2, divided by the largest, with zero between them.
constexpr float kNf4[16] = {-1.0F,
                            -0.6961928009986877F,
                            -0.5250730514526367F,
                            -0.39491748809814453F,
                            -0.28444138169288635F,
                            -0.18477343022823334F,
                            -0.09105003625154495F,
                            0.0F,
                            0.07958029955625534F,
                            0.16093020141124725F,
                            0.24611230194568634F,
                            0.33791524171829224F,
                            0.44070982933044434F,
                            0.5626170039176941F,
                            0.7229568362236023F,
                            1.0F};

}  // namespace

std::span<const NumberFormat> number_formats() { return kFormats; }

const NumberFormat* find_number_format(std::string_view name) {
  for (const NumberFormat& format : kFormats) {
    if (format.name == name) return &format;
  }
  return nullptr;
}

std::span<const float> nf4_values() { return kNf4; }

Range NumberFormat::default_range() const {
  return grid == Grid::kInteger && is_signed ? Range::kNarrow : Range::kFull;
}

int NumberFormat::least_code(Range range) const {
  if (grid == Grid::kHalfInteger) return -(1 << (bits - 1));
  if (grid != Grid::kInteger || !is_signed) return 0;
  return range == Range::kNarrow ? 1 - (1 << (bits - 1)) : -(1 << (bits - 1));
}

int NumberFormat::greatest_code(Range range) const {
  if (grid == Grid::kHalfInteger || (grid == Grid::kInteger && is_signed)) return (1 << (bits - 1)) - 1;
  if (grid == Grid::kInteger && range == Range::kNarrow) return (1 << bits) - 2;
  return (1 << bits) - 1;
}

int NumberFormat::code_of(uint8_t pattern) const {
  const bool twos_complement = is_signed && (grid == Grid::kInteger || grid == Grid::kHalfInteger);
  return twos_complement && (pattern >> (bits - 1)) & 1 ? pattern - (1 << bits) : pattern;
}

float NumberFormat::largest_value(Range range) const {
  switch (grid) {
    case Grid::kInteger:
      // "8 with range=full": the largest magnitude on the grid.
      return static_cast<float>(std::max(-least_code(range), greatest_code(range)));
    case Grid::kHalfInteger: return static_cast<float>(greatest_code(range)) + 0.5F;
    case Grid::kMinifloat: return decode_minifloat(*this, largest_finite_pattern(*this));
    case Grid::kBinary:
    case Grid::kCodebook: return 1.0F;
    case Grid::kExponent: break;
  }
  return 0x1p127F;
}

std::array<float, 256> value_table(const NumberFormat& format, std::span<const float> codebook) {
  std::array<float, 256> values{};
  const std::span<const float> book = format.learned ? codebook : nf4_values();
  for (int i = 0; i < 1 << format.bits; ++i) {
    const auto pattern = static_cast<uint8_t>(i);
    float& value = values[pattern];
    switch (format.grid) {
      case Grid::kInteger: value = static_cast<float>(format.code_of(pattern)); break;
      case Grid::kHalfInteger: value = static_cast<float>(format.code_of(pattern)) + 0.5F; break;
      case Grid::kBinary: value = i == 1 ? 1.0F : -1.0F; break;
      case Grid::kMinifloat: value = decode_minifloat(format, pattern); break;
      case Grid::kCodebook: value = book[pattern]; break;
      case Grid::kExponent:
        value = i == 255 ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0F, i - format.bias);
        break;
    }
  }
  return values;
}

}  // namespace crumb
