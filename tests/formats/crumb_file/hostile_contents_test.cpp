// Packed files whose blobs are hostile: what compressed bytes come to, and contents that no quantizer writes.
#include <doctest/doctest.h>
#include <zstd.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "formats/number/packing.h"
#include "quant/quantized_tensor.h"
#include "tests/formats/crumb_file/damage.h"
#include "tests/formats/crumb_file/samples.h"
#include "tests/support/testing.h"

namespace crumb {
namespace {

using testing::bounded_verdict;
using testing::Json;
using testing::kMany;
using testing::says;
using testing::Taken;
using testing::TempDir;
using testing::verdict;
using testing::Wanted;
using testing::write_sample;

std::string compress(std::string_view raw, int window_log = 0) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  if (window_log) ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
  std::string out(ZSTD_compressBound(raw.size()) + 64, '\0');
  ZSTD_inBuffer in{raw.data(), raw.size(), 0};
  ZSTD_outBuffer to{out.data(), out.size(), 0};
  if (window_log)
    ZSTD_compressStream2(context, &to, &in, ZSTD_e_continue);  // no size is promised: the window stays
  REQUIRE(ZSTD_compressStream2(context, &to, &in, ZSTD_e_end) == 0);
  ZSTD_freeCCtx(context);
  out.resize(to.pos);
  return out;
}

TEST_CASE("packed file, hostile: compressed blobs that are not what they say") {
  const TempDir folder;
  const auto path = folder.path() / "m.crumb";
  const std::string good = write_sample(path, {{"w", {40, 200}, "int8:channel"}}, 3);
  const auto with = [&](auto change) {
    Taken taken(good);
    change(taken.blob("w", "codes"));
    return bounded_verdict(path, taken.build());
  };
  const std::string raw(8000, '\1');
  CHECK(with([&](std::string& b) { b = compress(raw); }) == "");
  CHECK(with([&](std::string& b) { b = compress(raw, 23); }) == "");
  CHECK(says(with([&](std::string& b) { b = compress(raw, 24); }), {"'w'", "codes"}));
  CHECK(says(with([&](std::string& b) { b = compress(raw, 27); }), {"'w'", "codes"}));
  CHECK(says(with([&](std::string& b) { b = compress(raw + "x"); }), {"'w'", "codes", "8000"}));
  CHECK(says(with([&](std::string& b) { b = compress(raw.substr(1)); }), {"'w'", "codes", "7999", "8000"}));
  CHECK(says(with([&](std::string& b) { b = compress(std::string(300 << 20, '\1')); }),
             {"'w'", "codes", "8000"}));
  CHECK(says(with([&](std::string& b) { b = compress(raw) + "y"; }), {"'w'", "codes", "1 byte"}));
  CHECK(says(with([&](std::string& b) { b = compress(raw.substr(4000)) + compress(raw.substr(4000)); }),
             {"'w'", "codes"}));
  CHECK(says(with([&](std::string& b) { b = std::string("\x50\x2A\x4D\x18\x04\0\0\0abcd", 12); }),
             {"'w'", "codes"}));
  CHECK(says(with([](std::string& b) { b.clear(); }), {"'w'", "codes"}));
  CHECK(says(with([](std::string& b) { b = "not zstd at all"; }), {"'w'", "codes"}));
  CHECK(says(with([](std::string& b) { b.resize(b.size() - 1); }), {"'w'", "codes"}));

  std::mt19937_64 engine(7);
  for (int round = 0; round < (testing::slow() ? 20000 : 500); ++round) {
    const std::string message =
        with([&](std::string& b) { b[engine() % b.size()] ^= static_cast<char>(1 << engine() % 8); });
    // zstd frames have no checksum of their own: a change may well decompress to other codes of the right
    // length, whose checksum build() gives.
    REQUIRE((message.empty() || says(message, {"'w'", "codes"})));
  }

  // A blob that is legal and grows ten thousand times is checked in the memory that any other takes.
  Taken large(write_sample(path, {{"w", {2, 4}, "uint8:tensor"}}, 3));
  large.header["tensors"][0]["shape"] = Json::array({1u << 14, 1u << 14});
  large.header["tensors"][0]["encoding"]["block"] = Json::array({1u << 14, 1u << 14});
  large.header["tensors"][0]["codes"]["raw"] = 1u << 28;
  large.header["tensors"][0]["codes"]["codec"] = "zstd";
  large.blob("w", "codes") = compress(std::string(size_t{1} << 28, '\0'));
  const std::string content = large.build();
  REQUIRE(content.size() < 100000);
  CHECK(bounded_verdict(path, content) == "");
  large.header["tensors"][0]["encoding"]["block"] = Json::array({1, 1});  // now the scales are too few
  CHECK(says(bounded_verdict(path, large.build()), {"'w'", "scales"}));
}

TEST_CASE("packed file, hostile: contents that no quantizer writes are named with tensor and place") {
  const TempDir folder;
  const auto path = folder.path() / "m.crumb";
  for (const int level : {0, 3}) {
    std::vector<Wanted> wanted = kMany;
    const std::string good = write_sample(path, wanted, 0);
    const auto with = [&](const char* tensor, const char* part, auto change) {
      Taken taken(good);
      std::string& blob = taken.blob(tensor, part);
      change(blob);
      if (level > 0) {
        const size_t index = taken.index(tensor, part);
        Taken::descriptions(taken.header)[index]->at("codec") = "zstd";
        blob = compress(blob);
      }
      return verdict(path, taken.build());
    };
    const auto code = [&](const char* tensor, uint64_t row, uint64_t cols, uint64_t col, int bits,
                          uint8_t pattern) {
      return with(tensor, "codes", [&](std::string& blob) {
        auto* bytes = reinterpret_cast<uint8_t*>(blob.data()) + row * packed_bytes(cols, bits);
        std::vector<uint8_t> codes(cols);
        unpack_codes(bytes, bits, 0, codes);
        codes[col] = pattern;
        pack_codes(codes, bits, bytes);
      });
    };
    CHECK(with("a", "codes", [](std::string&) {}) == "");
    CHECK(says(code("a", 2, 10, 7, 4, 8), {"'a'", "codes", "-8", "row 2", "column 7", "-7"}));
    CHECK(code("a", 2, 10, 7, 4, 9) == "");
    CHECK(says(code("ternary", 1, 5, 4, 2, 2), {"'ternary'", "codes", "-2", "row 1", "column 4"}));
    CHECK(says(code("fp8", 0, 6, 5, 8, 0x7F), {"'fp8'", "codes", "127", "row 0", "column 5"}));
    CHECK(says(code("fp8", 1, 6, 0, 8, 0xFF), {"'fp8'", "codes", "255", "row 1", "column 0"}));
    CHECK(says(code("half", 1, 6, 3, 8, 0x7C), {"'half'", "codes", "row 1", "column 3"}));
    CHECK(says(code("half", 1, 6, 3, 8, 0xFE), {"'half'", "codes"}));
    CHECK(says(code("narrow", 1, 6, 3, 4, 15), {"'narrow'", "codes", "15", "row 1", "column 3", "14"}));

    const auto last_bit = [](std::string& blob) { blob.back() = static_cast<char>(blob.back() | 0x80); };
    CHECK(says(with("ternary", "codes", last_bit), {"'ternary'", "codes", "padding", "row 1"}));
    CHECK(says(with("palette", "codes", last_bit), {"'palette'", "codes", "padding", "row 3"}));
    CHECK(says(with("ternary", "codes", [](std::string& b) { b[1] = static_cast<char>(b[1] | 4); }),
               {"'ternary'", "codes", "padding", "row 0"}));

    const auto put = [](size_t index, auto value) {
      return
          [=](std::string& blob) { std::memcpy(blob.data() + index * sizeof value, &value, sizeof value); };
    };
    const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    for (const float bad : {inf, -inf, nan, -1.0F, -0.0F}) {
      CAPTURE(bad);
      CHECK(says(with("ternary", "scales", put(1, bad)), {"'ternary'", "scales", "scale 1"}));
      CHECK(says(with("b", "tensor_scale", put(0, bad)), {"'b'", "tensor_scale"}));
    }
    CHECK(with("ternary", "scales", put(1, 0.0F)) == "");
    for (const uint16_t bad : {uint16_t{0x7C00}, uint16_t{0x7E00}, uint16_t{0xBC00}, uint16_t{0x8000}}) {
      CHECK(says(with("a", "scales", put(3, bad)), {"'a'", "scales", "scale 3"}));
    }
    CHECK(says(with("b", "scales", put(1, uint8_t{0x7F})), {"'b'", "scales", "scale 1"}));
    CHECK(says(with("b", "scales", put(0, uint8_t{0x88})), {"'b'", "scales", "scale 0"}));
    CHECK(says(with("b", "tensor_scale", put(0, 3e38F)), {"'b'", "scales", "inf"}));  // the product
    CHECK(with("powers", "scales", put(0, uint8_t{0xFF})) == "");                     // scale zero
    CHECK(says(with("a", "zeros", put(2, uint8_t{0x88})), {"'a'", "zeros", "-8"}));
    CHECK(says(with("narrow", "zeros", put(0, uint8_t{0xF0})), {"'narrow'", "zeros", "15", "index 1"}));
    for (const uint16_t bad : {uint16_t{0x7F80}, uint16_t{0xFF80}, uint16_t{0x7FC0}}) {
      CHECK(says(with("float zero", "zeros", put(1, bad)), {"'float zero'", "zeros", "1"}));
    }
    CHECK(says(with("palette", "codebook", put(1, 100.0F)), {"'palette'", "codebook", "entry 2"}));
    CHECK(says(with("palette", "codebook", put(3, nan)), {"'palette'", "codebook", "entry 3"}));
    CHECK(says(with("palette", "codebook", put(0, -inf)), {"'palette'", "codebook", "entry 0"}));
  }
  // Zero points are packed like one row: bits after the last are zero.
  Taken odd(write_sample(path, {{"w", {3, 5}, "int3:zero=int"}}));
  odd.blob("w", "zeros").back() = static_cast<char>(odd.blob("w", "zeros").back() | 0x80);
  CHECK(says(verdict(path, odd.build()), {"'w'", "zeros", "padding"}));
}

}  // namespace
}  // namespace crumb
