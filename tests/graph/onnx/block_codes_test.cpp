// Codes as onnxruntime's MatMulNBits has them: the tensor that is made of them has exactly the values of the
// operator's definition, in the plainest spec that has them.
#include "graph/onnx/block_codes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "formats/half.h"
#include "quant/quant_spec.h"
#include "tests/support/samples.h"

namespace crumb::graph {
namespace {

using crumb::testing::says;

constexpr std::uint64_t kSeed = 20261129;

enum class DrawnZeros { kNone, kUsual, kHalf, kNought, kWhole, kWholeFloats, kFloats };

/// A matrix, its codes one by one, and what the definition makes of them.
struct DrawnBlocks {
  BlockCodes codes;
  DrawnZeros zeros = DrawnZeros::kNone;
  bool same_in_rows = false, has_zero_code = false, has_negative_scale = false;
  std::vector<float> values;
};

class BlockMaker {
 public:
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(n));
  }
  float uniform(float low, float high) { return std::uniform_real_distribution<float>(low, high)(engine_); }

  DrawnBlocks draw() {
    DrawnBlocks made;
    BlockCodes& to = made.codes;
    to.bits = 2 << below(3);
    to.block = std::int64_t{16} << below(3);
    to.rows = 1 + below(5);
    to.columns = 1 + below(150);
    made.zeros = static_cast<DrawnZeros>(below(7));
    made.same_in_rows = below(4) == 0;
    const bool least = below(2) == 0, negative = below(4) == 0;
    const ElementType type = below(3) == 0   ? ElementType::kFloat16
                             : below(3) == 0 ? ElementType::kBfloat16
                                             : ElementType::kFloat;
    const std::int64_t blocks = to.blocks(), blob = to.block / 8 * to.bits;
    to.row_bytes = blocks * blob;
    std::vector<std::byte> bytes(static_cast<std::size_t>(to.rows * to.row_bytes));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(below(256));
    std::vector<float> scales, zeros;
    for (std::int64_t n = 0; n < to.rows; ++n) {
      for (std::int64_t b = 0; b < blocks; ++b) {
        const bool again = made.same_in_rows && b > 0;
        scales.push_back(again ? scales.back() : rounded(type, uniform(negative ? -1.F : .01F, 1.F)));
        zeros.push_back(again ? zeros.back() : zero_of(made.zeros, to.bits, type));
      }
    }
    made.has_negative_scale = std::ranges::any_of(scales, [](float s) { return std::signbit(s); });
    for (std::int64_t n = 0; n < to.rows; ++n) {
      for (std::int64_t k = 0; k < to.columns; ++k) {
        int code = code_at(bytes, to, n, k);
        if (code == 0 && !least) put_code(bytes, to, n, k, code = 1);
        made.has_zero_code |= code == 0;
        const auto block = static_cast<std::size_t>(n * blocks + k / to.block);
        made.values.push_back((static_cast<float>(code) - zeros[block]) * scales[block]);
      }
    }
    to.codes = Tensor(ElementType::kUint8, {to.rows, blocks, blob}, std::move(bytes));
    const std::vector<std::int64_t> shape =
        below(2) == 0 ? std::vector{to.rows, blocks} : std::vector{to.rows * blocks};
    to.scales = numbers(type, shape, scales);
    put_zeros(made, shape, zeros, type);
    return made;
  }

 private:
  static int code_at(const std::vector<std::byte>& bytes, const BlockCodes& of, std::int64_t n,
                     std::int64_t k) {
    const std::int64_t bit = k * of.bits;
    const auto byte = std::to_integer<int>(bytes[static_cast<std::size_t>(n * of.row_bytes + bit / 8)]);
    return byte >> bit % 8 & ((1 << of.bits) - 1);
  }
  static void put_code(std::vector<std::byte>& bytes, const BlockCodes& of, std::int64_t n, std::int64_t k,
                       int code) {
    const std::int64_t bit = k * of.bits;
    std::byte& byte = bytes[static_cast<std::size_t>(n * of.row_bytes + bit / 8)];
    const int mask = ((1 << of.bits) - 1) << bit % 8;
    byte = static_cast<std::byte>((std::to_integer<int>(byte) & ~mask) | code << bit % 8);
  }

  static float rounded(ElementType type, float x) {
    if (type == ElementType::kFloat16) return f16_to_float(float_to_f16(x));
    if (type == ElementType::kBfloat16) return bf16_to_float(float_to_bf16(x));
    return x;
  }

  float zero_of(DrawnZeros kind, int bits, ElementType type) {
    const auto codes = static_cast<float>(1 << bits);
    switch (kind) {
      case DrawnZeros::kNone:
      case DrawnZeros::kUsual: return codes / 2;
      case DrawnZeros::kHalf: return (codes - 1) / 2;
      case DrawnZeros::kNought: return 0;
      case DrawnZeros::kWhole:
      case DrawnZeros::kWholeFloats: return static_cast<float>(below(1 << bits));
      case DrawnZeros::kFloats: return rounded(type, uniform(0, codes));
    }
    return 0;
  }

  static Tensor numbers(ElementType type, const std::vector<std::int64_t>& shape,
                        const std::vector<float>& values) {
    if (type == ElementType::kFloat) return Tensor::floats(shape, values);
    std::vector<std::byte> bytes(values.size() * 2);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint16_t bits =
          type == ElementType::kFloat16 ? float_to_f16(values[i]) : float_to_bf16(values[i]);
      std::memcpy(bytes.data() + i * 2, &bits, 2);
    }
    return {type, shape, std::move(bytes)};
  }

  static void put_zeros(DrawnBlocks& made, const std::vector<std::int64_t>& shape,
                        const std::vector<float>& zeros, ElementType type) {
    BlockCodes& to = made.codes;
    if (made.zeros == DrawnZeros::kNone) return;
    if (made.zeros == DrawnZeros::kHalf || made.zeros == DrawnZeros::kWholeFloats ||
        made.zeros == DrawnZeros::kFloats) {
      to.zeros = numbers(type, shape, zeros);
      return;
    }
    const std::int64_t blocks = to.blocks(), row = (blocks * to.bits + 7) / 8;
    std::vector<std::byte> bytes(static_cast<std::size_t>(to.rows * row));
    for (std::int64_t n = 0; n < to.rows; ++n) {
      for (std::int64_t b = 0; b < blocks; ++b) {
        const auto code = static_cast<int>(zeros[static_cast<std::size_t>(n * blocks + b)]);
        bytes[static_cast<std::size_t>(n * row + b * to.bits / 8)] |=
            static_cast<std::byte>(code << b * to.bits % 8);
      }
    }
    to.zeros = Tensor(ElementType::kUint8, {to.rows * row}, std::move(bytes));
  }

  std::mt19937_64 engine_{kSeed};
};

/// The number format that the header promises.
std::string promised_number(const DrawnBlocks& drawn) {
  const std::string bits = std::to_string(drawn.codes.bits);
  switch (drawn.zeros) {
    case DrawnZeros::kNone:
    case DrawnZeros::kUsual: return "int" + bits;
    case DrawnZeros::kHalf: return drawn.codes.bits == 8 ? "uint8" : "int" + bits + "h";
    default: return "uint" + bits;
  }
}

TEST_CASE("codes of MatMulNBits: the tensor has every value of the definition, in a plain spec") {
  BlockMaker maker;
  int channels = 0, signed_scales = 0, refused = 0;
  for (int round = 0; round < 4000; ++round) {
    const DrawnBlocks drawn = maker.draw();
    const BlockCodes& from = drawn.codes;
    CAPTURE(round);
    CAPTURE(from.bits);
    CAPTURE(from.block);
    CAPTURE(from.columns);
    auto result = tensor_of_blocks(from);
    if (!result.ok()) {  // the complement of a float needs more than float32
      REQUIRE((drawn.has_negative_scale && drawn.zeros == DrawnZeros::kFloats));
      REQUIRE(says(result.failure().message, {"is negative, and", "is no float32"}));
      ++refused;
      continue;
    }
    const QuantizedTensor made = result.take();
    CAPTURE(made.spec);
    const RowDecoder decoder(made.view());
    std::vector<float> values(drawn.values.size());
    decoder.flat_values(0, values);
    REQUIRE(std::ranges::equal(values, drawn.values));
    const QuantSpec spec = QuantSpec::parse(made.spec);
    REQUIRE(spec.encoding(made.shape) == made.encoding);
    REQUIRE(made.codes.size() == made.layout.codes_bytes);
    REQUIRE(made.zeros.size() == made.layout.zeros_bytes);
    const bool is_half = drawn.zeros == DrawnZeros::kHalf;  // which is its own complement
    const bool is_fixed = drawn.zeros <= DrawnZeros::kNought && (!drawn.has_negative_scale || is_half);
    if (is_fixed) {
      REQUIRE(spec.number->name == promised_number(drawn));
      REQUIRE((spec.zero == ZeroPoint::kNone || from.bits == 8));
    }
    if (drawn.zeros <= DrawnZeros::kUsual && is_fixed)
      REQUIRE((spec.range == Range::kFull) == drawn.has_zero_code);
    if (drawn.same_in_rows || from.blocks() == 1) REQUIRE(spec.granularity == Granularity::kChannel);
    channels += spec.granularity == Granularity::kChannel;
    signed_scales += drawn.has_negative_scale;
  }
  CHECK(channels > 500);
  CHECK(signed_scales > 500);
  CHECK(refused < 200);
}

TEST_CASE("codes of MatMulNBits: sizes and numbers that do not fit are said") {
  BlockMaker maker;
  for (int round = 0; round < 500; ++round) {
    const DrawnBlocks drawn = maker.draw();
    const auto why = [&](auto&& change) {
      BlockCodes changed = drawn.codes;
      change(changed);
      const auto made = tensor_of_blocks(changed);
      REQUIRE_FALSE(made.ok());
      return made.failure().message;
    };
    const std::int64_t scales = drawn.codes.scales.size();
    const auto floats = [&](std::int64_t count, float last) {
      std::vector<float> all(static_cast<std::size_t>(count), 1.F);
      all.back() = last;
      return Tensor::floats({count}, all);
    };
    REQUIRE(says(why([&](BlockCodes& b) { b.scales = floats(scales + 1, 1); }),
                 {"scales are float", "expected", std::to_string(scales).c_str()}));
    REQUIRE(says(
        why([&](BlockCodes& b) { b.scales = Tensor::ints({scales}, std::vector<std::int64_t>(scales, 1)); }),
        {"scales are int64"}));
    REQUIRE(says(why([&](BlockCodes& b) { b.row_bytes += 1; }), {"codes are uint8"}));
    REQUIRE(says(why([&](BlockCodes& b) {
                   b.scales = floats(scales, std::numeric_limits<float>::infinity());
                   b.zeros.reset();
                 }),
                 {"scale", "inf", "finite"}));
    REQUIRE(says(why([&](BlockCodes& b) {
                   b.scales = floats(scales, 1);
                   b.zeros = floats(scales, std::numeric_limits<float>::quiet_NaN());
                 }),
                 {"zero point", "nan", "finite"}));
    REQUIRE(says(why([&](BlockCodes& b) {
                   b.scales = floats(scales, 1);
                   b.zeros = floats(scales + 1, 1);
                 }),
                 {"zero points are float"}));
    REQUIRE(says(why([&](BlockCodes& b) { b.zeros = Tensor(ElementType::kUint8, {0}, {}); }),
                 {"packed zero points"}));
    REQUIRE(says(why([&](BlockCodes& b) { b.zeros = Tensor::ints({1}, std::vector<std::int64_t>{1}); }),
                 {"zero points are int64", "uint8"}));
  }
}

}  // namespace
}  // namespace crumb::graph
