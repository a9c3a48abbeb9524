#include "formats/gguf/gguf.h"

#include <doctest/doctest.h>

#include <random>

#include "formats/gguf/model.h"
#include "tests/formats/gguf/samples.h"

namespace crumb {
namespace {

using testing::gguf_file;
using testing::gguf_text_bytes;
using testing::little;

std::span<const std::byte> bytes_of_gguf(const std::string& file) { return std::as_bytes(std::span(file)); }

std::string gguf_refusal(const std::string& file) {
  const Result<GgufHeader> header = parse_gguf(bytes_of_gguf(file));
  return header.ok() ? "no failure" : header.failure().message;
}

bool mentions(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

std::string small_gguf() {
  return gguf_file(
      {{"general.architecture", 8, gguf_text_bytes("odd")},
       {"a.number", 4, little<std::uint32_t>(7)},
       {"a.list", 9,
        little<std::uint32_t>(8) + little<std::uint64_t>(2) + gguf_text_bytes("x") + gguf_text_bytes("yz")},
       {"a.nest", 9,
        little<std::uint32_t>(9) + little<std::uint64_t>(1) + little<std::uint32_t>(0) +
            little<std::uint64_t>(3) + "abc"}},
      {{"one", {4, 2}, 0, std::string(32, '\1')}, {"two", {32}, 2, std::string(18, '\2')}});
}

TEST_CASE("a GGUF header is read") {
  const std::string file = small_gguf();
  const GgufHeader header = parse_gguf(bytes_of_gguf(file)).take();
  CHECK(header.version == 3);
  CHECK(gguf_natural(*header.find("a.number")).take() == 7);
  CHECK(gguf_text(*header.find("general.architecture")).take() == "odd");
  CHECK(header.find("absent") == nullptr);
  CHECK_FALSE(gguf_text(*header.find("a.number")).ok());
  std::string joined;
  gguf_for_each(*header.find("a.list"), GgufValueType::kText, [&](const GgufValue& value) -> Status {
    joined += gguf_text(value).take();
    return {};
  }).take();
  CHECK(joined == "xyz");
  CHECK(header.tensors.size() == 2);
  CHECK(header.tensors[0].shape == std::vector<std::uint64_t>{2, 4});
  CHECK(header.tensors[1].type->name == "Q4_0");
  CHECK(header.tensors[1].offset + 18 == file.size());
}

TEST_CASE("what is wrong with a GGUF file is said") {
  CHECK(mentions(gguf_refusal("GGUF" + little<std::uint32_t>(0x03000000)), "big-endian"));
  CHECK(mentions(gguf_refusal("GGUF" + little<std::uint32_t>(1)), "version 1"));
  CHECK(mentions(gguf_refusal("GGML"), "expected 'GGUF'"));
  CHECK(mentions(gguf_refusal(gguf_file({{"k", 7, "\2"}}, {})), "expected 0 or 1"));
  CHECK(mentions(gguf_refusal(gguf_file({{"k", 13, "x"}}, {})), "unknown value type 13"));
  CHECK(mentions(gguf_refusal(gguf_file({{"k", 0, "x"}, {"k", 0, "y"}}, {})), "occurs twice"));
  CHECK(mentions(gguf_refusal(gguf_file({{"general.alignment", 4, little<std::uint32_t>(24)}}, {})),
                 "power of two"));
  CHECK(mentions(gguf_refusal(gguf_file({}, {{"t", {33}, 2, ""}})), "multiple of 32"));
  CHECK(mentions(gguf_refusal(gguf_file({}, {{"t", {4}, 99, ""}})), "no ggml type"));
  CHECK(mentions(gguf_refusal(gguf_file({}, {{"t", {1ull << 40, 1ull << 40}, 0, ""}})), "64 bits"));
  CHECK(mentions(gguf_refusal(gguf_file({}, {{"t", {4}, 0, ""}})), "behind the end"));
  CHECK(
      mentions(gguf_refusal(gguf_file({}, {{"t", {1}, 0, "abcd"}, {"t", {1}, 0, "abcd"}})), "occurs twice"));
  const Result<GgufModel> model =
      read_gguf_model(bytes_of_gguf(gguf_file({}, {{"t", {256}, 16, std::string(66, 'x')}})));
  CHECK((!model.ok() && mentions(model.failure().message, "IQ2_XXS")));
}

/// A value of type `type`, or an array of such, drawn to any depth: the bytes.
std::string drawn_value(std::mt19937& draw, std::uint32_t type, int depth) {
  constexpr std::size_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  std::string bytes;
  if (type == 8) return gguf_text_bytes(std::string(draw() % 4, 'x'));
  if (type == 9) {
    const auto element = static_cast<std::uint32_t>(depth > 2 ? draw() % 9 : draw() % 13);
    const std::uint64_t count = draw() % 4;
    bytes = little(element) + little(count);
    for (std::uint64_t i = 0; i < count; ++i) bytes += drawn_value(draw, element, depth + 1);
    return bytes;
  }
  // Bools that are none, now and then.
  const bool is_bool = type == 7 && draw() % 8 != 0;
  for (std::size_t i = 0; i < kBytes[type]; ++i)
    bytes += static_cast<char>(is_bool ? draw() % 2 : draw() % 256);
  return bytes;
}

/// Whether all elements can be read, however deep.
bool can_be_read(const GgufValue& value) {
  if (value.type != GgufValueType::kArray) return value.type != GgufValueType::kBool || gguf_bool(value).ok();
  std::uint64_t count = 0;
  const Status status = gguf_for_each(value, value.element, [&](const GgufValue& element) -> Status {
    ++count;
    if (can_be_read(element)) return {};
    return Failure{"an element"};
  });
  return status.ok() && count == value.count;
}

TEST_CASE("what a sound GGUF header holds can be read, element for element") {
  std::mt19937 draw(8);
  int sound = 0, refused = 0;
  for (int round = 0; round < 20000; ++round) {
    const auto type = static_cast<std::uint32_t>(draw() % 2 == 0 ? 9 : draw() % 13);
    const std::string file = gguf_file({{"k", type, drawn_value(draw, type, 0)}}, {});
    const Result<GgufHeader> header = parse_gguf(bytes_of_gguf(file));
    if (!header.ok()) {
      ++refused;
      REQUIRE(mentions(header.failure().message, "expected 0 or 1"));
      continue;
    }
    ++sound;
    REQUIRE(can_be_read(*header.value().find("k")));
  }
  CHECK(sound > 10000);
  CHECK(refused > 100);
}

TEST_CASE("every cut of a GGUF file, and any number in its header, is read or refused") {
  const std::string whole = small_gguf();
  for (std::size_t size = 0; size < whole.size(); ++size)
    CHECK_FALSE(parse_gguf(bytes_of_gguf(whole.substr(0, size))).ok());
  for (std::size_t at = 0; at + 8 <= whole.size(); ++at) {
    for (const std::uint64_t number :
         {0ull, 1ull, 255ull, 1ull << 31, 1ull << 32, 1ull << 63, ~0ull, ~0ull - 31}) {
      std::string file = whole;
      file.replace(at, 8, little<std::uint64_t>(number));
      const Result<GgufModel> model = read_gguf_model(bytes_of_gguf(file));
      CHECK((model.ok() || !model.failure().message.empty()));
    }
  }
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::string file = whole;
    for (unsigned i = 0; i < 1 + random() % 4; ++i)
      file[random() % file.size()] = static_cast<char>(random());
    const Result<GgufModel> model = read_gguf_model(bytes_of_gguf(file));
    CHECK((model.ok() || !model.failure().message.empty()));
  }
}

}  // namespace
}  // namespace crumb
