// Scale formats: every pattern decodes, encoding is the nearest pattern, and what does not fit saturates.
#include "formats/number/scale_format.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "formats/half.h"
#include "formats/number/minifloat.h"
#include "tests/formats/number/oracle.h"
#include "tests/support/testing.h"

using crumb::ScaleFormat;
using crumb::ScaleFormatRow;

namespace {

uint32_t largest_pattern(ScaleFormat format) {
  switch (format) {
    case ScaleFormat::kF32: return 0x7F7FFFFF;
    case ScaleFormat::kF16: return 0x7BFF;
    case ScaleFormat::kBF16: return 0x7F7F;
    case ScaleFormat::kE8M0: return 254;
    case ScaleFormat::kE4M3: return 0x7E;
  }
  return 0;
}

}  // namespace

TEST_CASE("scale formats: the table is indexed by the enumerator") {
  for (const ScaleFormatRow& row : crumb::kScaleFormats) CHECK(&crumb::scale_format_row(row.format) == &row);
}

TEST_CASE("scale formats: every finite pattern decodes to its value and encodes to itself") {
  for (const ScaleFormatRow& row : crumb::kScaleFormats) {
    CAPTURE(row.name);
    const uint32_t largest = largest_pattern(row.format);
    const uint32_t step = row.format == ScaleFormat::kF32 ? 65521 : 1;
    int wrong = 0;
    for (uint64_t p = 0; p <= largest; p += step) {
      const auto pattern = static_cast<uint32_t>(p);
      const float value = crumb::decode_scale(row.format, pattern);
      wrong += value != crumb::testing::oracle_scale(row.name, pattern);
      const crumb::StoredScale stored = crumb::encode_scale(row.format, value);
      wrong += stored.pattern != pattern || stored.saturated;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("scale formats: encoding takes the nearest pattern, ties to even") {
  std::mt19937 engine(4);
  for (const ScaleFormatRow& row : crumb::kScaleFormats) {
    CAPTURE(row.name);
    std::vector<float> scales;
    for (int i = 0; i < 20000; ++i) {
      const float v = std::bit_cast<float>(static_cast<uint32_t>(engine()) & 0x7FFFFFFF);
      if (std::isfinite(v) && v > 0) scales.push_back(v);
    }
    const uint32_t largest = largest_pattern(row.format);
    const uint32_t step = row.format == ScaleFormat::kF32 ? 1u << 20 : largest > 1000 ? 7 : 1;
    for (uint32_t p = 0; p < largest - step; p += step) {
      const double a = static_cast<double>(crumb::decode_scale(row.format, p));
      const double b = static_cast<double>(crumb::decode_scale(row.format, p + 1));
      const auto middle = static_cast<float>((a + b) / 2);
      for (const float v : {middle, std::nextafter(middle, 0.0F), std::nextafter(middle, HUGE_VALF)}) {
        if (v > 0) scales.push_back(v);
      }
    }
    for (const float scale : scales) {
      const uint32_t expected = crumb::testing::oracle_encode_scale(row.name, scale);
      const uint32_t found = crumb::encode_scale(row.format, scale).pattern;
      if (found != expected) {
        CAPTURE(scale);
        CHECK(found == expected);
        break;
      }
    }
  }
}

TEST_CASE("scale formats: what a format cannot hold saturates and says so; zero stays zero") {
  for (const ScaleFormatRow& row : crumb::kScaleFormats) {
    CAPTURE(row.name);
    const crumb::StoredScale zero = crumb::encode_scale(row.format, 0.0F);
    CHECK_FALSE(zero.saturated);
    const float back = crumb::decode_scale(row.format, zero.pattern);
    CHECK(std::bit_cast<uint32_t>(back) == 0);
    if (row.format == ScaleFormat::kF32) continue;
    const uint32_t least = row.format == ScaleFormat::kE8M0 ? 0 : 1;
    const crumb::StoredScale tiny = crumb::encode_scale(row.format, std::numeric_limits<float>::denorm_min());
    CHECK(tiny.pattern == least);
    CHECK(tiny.saturated);
    const crumb::StoredScale huge = crumb::encode_scale(row.format, std::numeric_limits<float>::max());
    CHECK(huge.pattern == largest_pattern(row.format));
    CHECK(huge.saturated);
    CHECK_FALSE(crumb::encode_scale(row.format, crumb::decode_scale(row.format, huge.pattern)).saturated);
  }
  CHECK(crumb::encode_scale(ScaleFormat::kE8M0, 0.0F).pattern == 255);
  // Half of e8m0's smallest power of two is the last that it holds, rounded.
  CHECK(crumb::encode_scale(ScaleFormat::kE8M0, 0x1p-128F).pattern == 0);
  CHECK_FALSE(crumb::encode_scale(ScaleFormat::kE8M0, 0x1p-128F).saturated);
  CHECK(crumb::encode_scale(ScaleFormat::kE8M0, std::nextafter(0x1p-128F, 0.0F)).saturated);
  CHECK(crumb::encode_scale(ScaleFormat::kF16, 65519.0F).pattern == 0x7BFF);
  CHECK_FALSE(crumb::encode_scale(ScaleFormat::kF16, 65519.0F).saturated);
  CHECK(crumb::encode_scale(ScaleFormat::kF16, 65520.0F).saturated);
  CHECK(crumb::encode_scale(ScaleFormat::kE4M3, 464.0F).pattern == 0x7E);
  CHECK_FALSE(crumb::encode_scale(ScaleFormat::kE4M3, 464.0F).saturated);
  CHECK(crumb::encode_scale(ScaleFormat::kE4M3, 465.0F).saturated);
}

TEST_CASE("scale formats: e4m3 scales are those of the general minifloat code, over a sweep of float32") {
  const crumb::NumberFormat& f = *crumb::find_number_format("e4m3fn");
  int wrong = 0;
  for (uint32_t p = 0; p < 256; ++p) {
    const float found = crumb::decode_scale(ScaleFormat::kE4M3, p);
    const float expected = crumb::decode_minifloat(f, static_cast<uint8_t>(p));
    wrong += std::bit_cast<uint32_t>(found) != std::bit_cast<uint32_t>(expected);
  }
  CHECK(wrong == 0);
  const auto differs = [&](uint32_t bits) {
    const auto scale = std::bit_cast<float>(bits);
    const uint8_t pattern = crumb::encode_minifloat(f, scale, crumb::Overflow::kSpecial);
    const bool saturates = pattern == 0 || pattern > 0x7E;
    const uint32_t expected = pattern == 0 ? 1 : std::min<uint32_t>(pattern, 0x7E);
    const crumb::StoredScale found = crumb::encode_scale(ScaleFormat::kE4M3, scale);
    return found.pattern != expected || found.saturated != saturates;
  };
  for (uint32_t bits = 1; bits < 0x7F800000; bits += crumb::testing::slow() ? 1 : 1009)
    wrong += differs(bits);
  // All that lies beside a multiple of half a unit of any binade: 2^-12 to 512.
  for (uint32_t bits = 0x39800000; bits < 0x44000000; bits += 1u << 19) {
    for (int beside = -2; beside <= 2; ++beside) wrong += differs(bits + static_cast<uint32_t>(beside));
  }
  CHECK(wrong == 0);
}

TEST_CASE("scale formats: float zero points keep their sign and saturate") {
  std::mt19937 engine(6);
  for (const ScaleFormatRow& row : crumb::kScaleFormats) {
    const ScaleFormat format = crumb::zero_point_format(row.format);
    CAPTURE(row.name);
    const std::string_view name = crumb::scale_format_row(format).name;
    CHECK(name == (row.name == "f16" || row.name == "bf16" ? row.name : "f32"));
    for (int i = 0; i < 5000; ++i) {
      const float v = std::bit_cast<float>(static_cast<uint32_t>(engine()));
      if (!std::isfinite(v) || v == 0) continue;
      const float found = crumb::decode_scale(format, crumb::encode_float(format, v));
      CHECK(std::signbit(found) == std::signbit(v));
      const float size =
          crumb::testing::oracle_scale(name, crumb::testing::oracle_encode_scale(name, std::fabs(v)));
      const bool to_zero = found == 0;  // scales never round to 0, zero points may
      if (!to_zero) CHECK(std::fabs(found) == size);
      if (to_zero) CHECK(std::fabs(v) <= crumb::decode_scale(format, 1) / 2);
    }
  }
}

TEST_CASE("scale formats: bytes decode together as one by one, at every distance") {
  std::array<std::byte, 1024> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  for (const auto format : {crumb::ScaleFormat::kE8M0, crumb::ScaleFormat::kE4M3}) {
    for (const auto& [step, behind] :
         {std::pair<size_t, size_t>{1, 0}, {1, 1}, {1, 7}, {2, 0}, {3, 5}, {16, 0}}) {
      std::vector<float> out(bytes.size() / step - behind);  // the last vector is whole or not
      crumb::decode_scale_bytes(format, bytes.data(), step, out);
      for (size_t i = 0; i < out.size(); ++i) {
        const float expected = crumb::decode_scale(format, static_cast<uint32_t>(i * step % 256));
        CHECK(std::bit_cast<uint32_t>(out[i]) == std::bit_cast<uint32_t>(expected));
      }
    }
  }
}

TEST_CASE("half floats: f16 and bf16 widen as their fields say and narrow to the nearest") {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto pattern = static_cast<uint16_t>(bits);
    if ((bits & 0x7C00) != 0x7C00) {
      const float f = crumb::f16_to_float(pattern);
      if (f != crumb::testing::oracle_f16(bits) || crumb::float_to_f16(f) != pattern) CHECK(bits == 0);
    }
    if ((bits & 0x7F80) != 0x7F80) {
      const float b = crumb::bf16_to_float(pattern);
      if (b != crumb::testing::oracle_bf16(bits) || crumb::float_to_bf16(b) != pattern) CHECK(bits == 0);
    }
  }
}
