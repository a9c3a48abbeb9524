#include "formats/gguf/writer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <random>

#include "base/files/mapped_file.h"
#include "formats/gguf/code_blocks.h"
#include "formats/number/number_format.h"
#include "formats/number/scale_format.h"
#include "tests/support/testing.h"

namespace crumb {
namespace {

namespace fs = std::filesystem;

const GgmlType& gguf_type(std::string_view name) {
  for (const GgmlType& type : ggml_types())
    if (type.name == name) return type;
  throw Error("no such type");
}

std::vector<std::byte> some_bytes(std::mt19937_64& random, std::uint64_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// Whether the file holds what was written.
void expect_datum(const GgufValue& found, const GgufDatum& meant) {
  if (const auto* text = std::get_if<std::string>(&meant)) CHECK(gguf_text(found).take() == *text);
  if (const auto* flag = std::get_if<bool>(&meant)) CHECK(gguf_bool(found).take() == *flag);
  if (const auto* number = std::get_if<std::uint32_t>(&meant)) CHECK(gguf_natural(found).take() == *number);
  if (const auto* number = std::get_if<std::uint64_t>(&meant)) CHECK(gguf_natural(found).take() == *number);
  if (const auto* number = std::get_if<float>(&meant))
    CHECK(gguf_number(found).take() == static_cast<double>(*number));
  if (const auto* number = std::get_if<std::int32_t>(&meant)) CHECK(gguf_number(found).take() == *number);
  if (const auto* list = std::get_if<std::vector<std::string>>(&meant)) {
    std::vector<std::string> texts;
    gguf_for_each(found, GgufValueType::kText, [&](const GgufValue& value) -> Status {
      texts.emplace_back(gguf_text(value).take());
      return {};
    }).take();
    CHECK(texts == *list);
  }
  const auto expect_numbers = [&](GgufValueType type, const auto& numbers) {
    std::size_t at = 0;
    gguf_for_each(found, type, [&](const GgufValue& value) -> Status {
      CHECK(gguf_number(value).take() == static_cast<double>(numbers.at(at++)));
      return {};
    }).take();
    CHECK(at == numbers.size());
  };
  if (const auto* list = std::get_if<std::vector<float>>(&meant)) expect_numbers(GgufValueType::kF32, *list);
  if (const auto* list = std::get_if<std::vector<std::int32_t>>(&meant))
    expect_numbers(GgufValueType::kI32, *list);
}

GgufDatum some_datum(std::mt19937_64& random) {
  const auto text = [&] { return std::string(random() % 20, static_cast<char>('a' + random() % 26)); };
  switch (random() % 9) {
    case 0: return static_cast<std::uint32_t>(random());
    case 1: return static_cast<std::int32_t>(random());
    case 2: return static_cast<std::uint64_t>(random());
    case 3: return static_cast<float>(random() % 1000) / 8;
    case 4: return random() % 2 == 0;
    case 5: return text();
    case 6: return std::vector<std::int32_t>(random() % 9, static_cast<std::int32_t>(random()));
    case 7: return std::vector<float>(random() % 9, 0.5F);
    default: return std::vector<std::string>(random() % 9, text());
  }
}

TEST_CASE("a GGUF file that is written is read back, byte for byte") {
  const testing::TempDir folder;
  const fs::path path = folder.path() / "m.gguf";
  std::mt19937_64 random(3);
  for (int round = 0; round < 300; ++round) {
    GgufPlan plan;
    for (std::uint64_t i = random() % 6; i > 0; --i)
      plan.metadata.push_back({"key." + std::to_string(i), some_datum(random)});
    std::vector<std::byte> all;
    std::vector<std::vector<std::byte>> parts;
    for (std::uint64_t i = random() % 6; i > 0; --i) {
      const GgmlType& type = ggml_types()[random() % ggml_types().size()];
      GgufPlannedTensor tensor{"t" + std::to_string(i), &type, {}};
      for (std::uint64_t axis = random() % 4; axis > 0; --axis) tensor.shape.push_back(random() % 4);
      if (type.block_elements > 1 || random() % 2 == 0)
        tensor.shape.push_back(type.block_elements * (random() % 4));
      parts.push_back(some_bytes(random, gguf_tensor_bytes(type, tensor.shape).take()));
      all.insert(all.end(), parts.back().begin(), parts.back().end());
      plan.tensors.push_back(std::move(tensor));
    }
    GgufWriter writer(path, plan);
    for (std::size_t at = 0; at < all.size();) {
      const std::size_t count = std::min<std::size_t>(1 + random() % 100, all.size() - at);
      writer.append(std::span(all).subspan(at, count));
      at += count;
    }
    const std::uint64_t size = writer.finish();
    const MappedFile file = MappedFile::open(path).take();
    CHECK(size == file.bytes().size());
    const GgufHeader header = parse_gguf(file.bytes()).take();
    CHECK(header.version == 3);
    REQUIRE(header.metadata.size() == plan.metadata.size());
    for (const GgufPair& pair : plan.metadata) expect_datum(*header.find(pair.key), pair.value);
    REQUIRE(header.tensors.size() == plan.tensors.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      CHECK(header.tensors[i].name == plan.tensors[i].name);
      CHECK(header.tensors[i].shape == plan.tensors[i].shape);
      CHECK(header.tensors[i].type == plan.tensors[i].type);
      const auto found = file.bytes().subspan(header.tensors[i].offset, header.tensors[i].bytes);
      CHECK(std::ranges::equal(found, parts[i]));
    }
  }
}

TEST_CASE("what GGUF cannot hold is not written") {
  const testing::TempDir folder;
  const fs::path path = folder.path() / "m.gguf";
  const GgmlType* q4 = &gguf_type("Q4_0");
  const auto refused = [&](GgufPlan plan) {
    try {
      GgufWriter writer(path, std::move(plan));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refused({.metadata = {}, .tensors = {{"t", q4, {2, 40}}}}).find("multiple of 32") !=
        std::string::npos);
  CHECK(refused({.metadata = {}, .tensors = {{std::string(64, 'x'), q4, {32}}}}).find("at most 63") !=
        std::string::npos);
  CHECK(refused({.metadata = {}, .tensors = {{"t", q4, {32}}, {"t", q4, {32}}}}).find("twice") !=
        std::string::npos);
  CHECK(refused({.metadata = {{"k", 1U}, {"k", 1U}}, .tensors = {}}).find("twice") != std::string::npos);
  CHECK(refused({.metadata = {}, .tensors = {{"t", q4, {1, 1, 1, 1, 32}}}}).find("axes") !=
        std::string::npos);
  CHECK(refused({.metadata = {}, .tensors = {{"\xff", q4, {32}}}}).find("UTF-8") != std::string::npos);
  {
    GgufWriter writer(path, {.metadata = {}, .tensors = {{"t", q4, {32}}}});
    writer.append(std::vector<std::byte>(17));
    CHECK_THROWS_AS(writer.finish(), Error);
    CHECK_THROWS_AS(writer.append(std::vector<std::byte>(2)), Error);
  }
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("blocks of codes are taken apart and put together, and mean what their decoders say") {
  std::mt19937_64 random(5);
  const NumberFormat& e2m1 = *find_number_format("e2m1");
  for (const GgmlCodes& codes : ggml_code_types()) {
    const GgmlType& type = *find_ggml_type(codes.type);
    CAPTURE(type.name);
    REQUIRE(type.block_elements == codes.elements);
    for (int round = 0; round < 2000; ++round) {
      const std::vector<std::byte> block = some_bytes(random, type.block_bytes);
      std::array<std::uint8_t, kMostBlockCodes> split{};
      std::array<std::uint16_t, kMostBlockScales> scales{};
      codes.split(block.data(), split.data(), scales.data());
      std::vector<std::byte> again(type.block_bytes);
      codes.join(split.data(), scales.data(), again.data());
      CHECK(again == block);

      std::array<float, kMostBlockCodes> values{};
      type.decode(block.data(), values.data());
      for (unsigned i = 0; i < codes.elements; ++i) {
        CHECK(split[i] < 1u << codes.bits);
        const std::uint16_t bits = scales[i / codes.group];
        float meant = 0;
        if (codes.kind == GgmlCodes::Kind::kE2M1) {
          if (type.name == "MXFP4" && bits >= 254) continue;  // 2^128 is no float
          if (type.name == "NVFP4" && (bits >= 0x80 || (bits & 0x7f) == 0x7f)) continue;
          const ScaleFormat format = codes.group == 32 ? ScaleFormat::kE8M0 : ScaleFormat::kE4M3;
          meant = decode_scale(format, bits) * value_table(e2m1)[split[i]];
        } else {
          const float d = decode_scale(ScaleFormat::kF16, bits);
          const int whole = codes.is_signed ? static_cast<std::int8_t>(split[i]) : split[i];
          const float product = d * static_cast<float>(whole * codes.step - codes.zero);
          meant = codes.has_minimum() ? product + decode_scale(ScaleFormat::kF16, scales[1]) : product;
        }
        if (std::isnan(meant)) continue;
        CHECK(values[i] == meant);
      }
    }
  }
}

}  // namespace
}  // namespace crumb
