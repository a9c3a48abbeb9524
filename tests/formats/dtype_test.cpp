#include "formats/dtype.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace crumb {
namespace {

std::vector<std::byte> to_bytes(const std::vector<int>& values) {
  std::vector<std::byte> bytes;
  bytes.reserve(values.size());
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

template <class T>
std::vector<float> widened(DType dtype, const std::vector<T>& values) {
  std::vector<float> out(values.size());
  widen_to_float(dtype, std::as_bytes(std::span(values)), out);
  return out;
}

float decoded(DType dtype, unsigned code) {
  const std::byte byte{static_cast<unsigned char>(code)};
  float out = 0;
  widen_to_float(dtype, {&byte, 1}, {&out, 1});
  return out;
}

TEST_CASE("every dtype is found by its name and only by that") {
  for (const DTypeInfo& info : kDTypes) {
    CHECK(dtype_from_name(info.name) == info.dtype);
    CHECK(dtype_name(info.dtype) == info.name);
  }
  CHECK_FALSE(dtype_from_name("f32"));
  CHECK_FALSE(dtype_from_name("F8_E4M3FN"));
  CHECK_FALSE(dtype_from_name(""));
}

TEST_CASE("byte sizes are exact and never overflow") {
  using Shape = std::vector<std::uint64_t>;
  CHECK(tensor_byte_size(DType::kF32, Shape{}).value() == 4);
  CHECK(tensor_byte_size(DType::kF32, Shape{2, 3}).value() == 24);
  CHECK(tensor_byte_size(DType::kF32, Shape{2, 0, 3}).value() == 0);
  CHECK(tensor_byte_size(DType::kF4, Shape{3, 2}).value() == 3);
  CHECK_FALSE(tensor_byte_size(DType::kF4, Shape{3}).ok());
  CHECK(tensor_byte_size(DType::kF6E2M3, Shape{4}).value() == 3);
  CHECK_FALSE(tensor_byte_size(DType::kF6E3M2, Shape{2}).ok());

  const std::uint64_t big = std::uint64_t{1} << 32;
  CHECK_FALSE(tensor_byte_size(DType::kU8, Shape{big, big}).ok());
  CHECK_FALSE(tensor_byte_size(DType::kU8, Shape{big, big, 0}).ok());
  CHECK_FALSE(tensor_byte_size(DType::kU8, Shape{0, big, big}).ok());
  CHECK_FALSE(tensor_byte_size(DType::kF32, Shape{big, big / 8}).ok());
  CHECK(element_count(Shape{big, big / 2}).value() == big / 2 * big);
  CHECK(element_count(Shape{0, big}).value() == 0);
}

TEST_CASE("float8 decodes as the OCP and FNUZ texts say") {
  CHECK(decoded(DType::kF8E4M3, 0x38) == 1.0F);
  CHECK(decoded(DType::kF8E4M3, 0x7e) == 448.0F);
  CHECK(decoded(DType::kF8E4M3, 0x01) == 0x1p-9F);
  CHECK(std::isnan(decoded(DType::kF8E4M3, 0x7f)));
  CHECK(std::isnan(decoded(DType::kF8E4M3, 0xff)));
  CHECK(decoded(DType::kF8E5M2, 0x7b) == 57344.0F);
  CHECK(decoded(DType::kF8E5M2, 0x7c) == INFINITY);
  CHECK(decoded(DType::kF8E5M2, 0xfc) == -INFINITY);
  CHECK(std::isnan(decoded(DType::kF8E5M2, 0x7d)));
  CHECK(decoded(DType::kF8E5M2, 0x01) == 0x1p-16F);
  CHECK(decoded(DType::kF8E4M3Fnuz, 0x7f) == 240.0F);
  CHECK(std::isnan(decoded(DType::kF8E4M3Fnuz, 0x80)));
  CHECK(decoded(DType::kF8E5M2Fnuz, 0x7f) == 57344.0F);
  CHECK(std::isnan(decoded(DType::kF8E5M2Fnuz, 0x80)));
  CHECK(decoded(DType::kF8E8M0, 127) == 1.0F);
  CHECK(decoded(DType::kF8E8M0, 0) == 0x1p-127F);
  CHECK(decoded(DType::kF8E8M0, 254) == 0x1p127F);
  CHECK(std::isnan(decoded(DType::kF8E8M0, 255)));
  CHECK(std::signbit(decoded(DType::kF8E4M3, 0x80)));
}

TEST_CASE("sub-byte floats unpack from the least significant bit, from any element on") {
  std::vector<float> two(2);
  widen_to_float(DType::kF4, to_bytes({0x72}), two);
  CHECK(two == std::vector<float>{1.0F, 6.0F});

  // Four codes of six bits, 1, 31, 32, 63, in three bytes.
  const unsigned packed = 1u | 31u << 6 | 32u << 12 | 63u << 18;
  const std::vector<std::byte> bytes =
      to_bytes({static_cast<int>(packed & 255u), static_cast<int>(packed >> 8 & 255u),
                static_cast<int>(packed >> 16)});
  std::vector<float> four(4);
  widen_to_float(DType::kF6E2M3, bytes, four);
  CHECK(four == std::vector<float>{0.125F, 7.5F, -0.0F, -7.5F});
  widen_to_float(DType::kF6E3M2, bytes, four);
  CHECK(four == std::vector<float>{0.0625F, 28.0F, -0.0F, -28.0F});
  for (std::uint64_t begin = 0; begin <= 4; ++begin) {
    std::vector<float> rest(4 - begin);
    widen_to_float(DType::kF6E3M2, bytes, begin, rest);
    CHECK(rest == std::vector<float>(four.begin() + static_cast<std::ptrdiff_t>(begin), four.end()));
  }
}

TEST_CASE("numbers widen to the nearest float32") {
  CHECK(widened<std::int8_t>(DType::kI8, {-128, 127}) == std::vector<float>{-128, 127});
  CHECK(widened<std::uint8_t>(DType::kBool, {0, 1, 2}) == std::vector<float>{0, 1, 1});
  CHECK(widened<std::int64_t>(DType::kI64, {16777217, -16777219}) == std::vector<float>{16777216, -16777220});
  CHECK(widened<double>(DType::kF64, {0.1, 1e300, -1e300, 1e-300}) ==
        std::vector<float>{0.1F, INFINITY, -INFINITY, 0.0F});
  CHECK(std::isnan(widened<double>(DType::kF64, {NAN})[0]));
  CHECK(widened<std::uint16_t>(DType::kBF16, {0x3f80, 0xc000}) == std::vector<float>{1, -2});
  CHECK(widened<std::uint16_t>(DType::kF16, {0x3c00, 1}) == std::vector<float>{1, 0x1p-24F});
  CHECK(widening_rounds(DType::kF64));
  CHECK_FALSE(widening_rounds(DType::kBF16));
  CHECK_THROWS_AS(widened<double>(DType::kC64, {0.0}), Error);
}

TEST_CASE("slices are the whole, and a range outside the tensor is refused") {
  std::mt19937 random(7);
  std::vector<std::byte> bytes(96);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  for (const DTypeInfo& info : kDTypes) {
    if (info.dtype == DType::kC64) continue;
    const std::size_t count = bytes.size() * 8 / info.bits;
    std::vector<float> whole(count);
    widen_to_float(info.dtype, bytes, whole);
    for (std::size_t begin = 0; begin < count; begin += 5) {
      std::vector<float> slice(std::min<std::size_t>(7, count - begin));
      widen_to_float(info.dtype, bytes, begin, slice);
      REQUIRE(std::memcmp(slice.data(), &whole[begin], slice.size() * 4) == 0);
    }
    std::vector<float> one(1);
    std::vector<float> none;
    CHECK_THROWS_AS(widen_to_float(info.dtype, bytes, count, one), Error);
    CHECK_THROWS_AS(widen_to_float(info.dtype, bytes, ~std::uint64_t{0}, one), Error);
    widen_to_float(info.dtype, bytes, count, none);
  }
}

}  // namespace
}  // namespace crumb
