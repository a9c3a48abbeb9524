#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "base/files/mapped_file.h"
#include "formats/safetensors/safetensors.h"
#include "tests/support/testing.h"

namespace crumb {
namespace {

/// Random descriptions: every dtype, ranks 0 to 3, empty tensors too.
std::vector<TensorDescription> random_tensors(std::mt19937& random) {
  std::vector<TensorDescription> tensors;
  for (std::size_t i = random() % 12; i > 0; --i) {
    TensorDescription tensor;
    tensor.name =
        "t" + std::to_string(random() % 1000) + "." + std::to_string(i) + (i % 3 == 0 ? "\"\n\xc3\xa9" : "");
    tensor.dtype = kDTypes[random() % kDTypes.size()].dtype;
    for (std::size_t rank = random() % 4; rank > 0; --rank) tensor.shape.push_back(random() % 4);
    if (dtype_bits(tensor.dtype) < 8) tensor.shape.push_back(4);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

TEST_CASE("what is written is read back, in any chunks, and twice the same bytes") {
  const testing::TempDir dir;
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    const std::vector<TensorDescription> tensors = random_tensors(random);
    std::map<std::string, std::vector<std::byte>> contents;
    for (const TensorDescription& tensor : tensors) {
      auto& bytes = contents[tensor.name];
      bytes.resize(tensor_byte_size(tensor.dtype, tensor.shape).value());
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    }
    const auto write = [&](const char* name) {
      SafetensorsWriter writer(dir.path() / name, tensors, {{"format", "pt"}});
      for (const TensorDescription& tensor : writer.tensors()) {
        std::span<const std::byte> rest = contents.at(tensor.name);
        while (!rest.empty()) {
          const std::size_t part = std::min<std::size_t>(rest.size(), 1 + random() % 17);
          writer.write(tensor.name, rest.first(part));
          rest = rest.subspan(part);
        }
      }
      writer.commit();
      return read_text_file(dir.path() / name, 1 << 20).take();
    };
    const std::string file = write("a");
    REQUIRE(file == write("b"));
    const SafetensorsHeader header = parse_safetensors(std::as_bytes(std::span(file))).take();
    REQUIRE(header.data_offset % 8 == 0);
    REQUIRE(header.metadata.at("format") == "pt");
    REQUIRE(header.tensors.size() == tensors.size());
    for (const SafetensorsTensor& tensor : header.tensors) {
      const auto expected = std::as_bytes(std::span(contents.at(tensor.name)));
      const auto found = std::as_bytes(std::span(file)).subspan(tensor.offset, tensor.bytes);
      REQUIRE(std::equal(found.begin(), found.end(), expected.begin(), expected.end()));
    }
  }
}

TEST_CASE("the header is that of the reference writer") {
  std::vector<TensorDescription> tensors = {
      {"a", DType::kU8, {3}}, {"b", DType::kF32, {2, 1}}, {"c", DType::kF32, {}}, {"d", DType::kBF16, {1}}};
  sort_for_safetensors(tensors);
  const std::string header = safetensors_header(tensors, {{"format", "pt"}});
  const std::string expected =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
      R"("c":{"dtype":"F32","shape":[],"data_offsets":[8,12]},"d":{"dtype":"BF16","shape":[1],"data_offsets":[12,14]},)"
      R"("a":{"dtype":"U8","shape":[3],"data_offsets":[14,17]}})";
  const std::string text = header.substr(8);
  CHECK(text.size() % 8 == 0);
  CHECK(text.substr(0, expected.size()) == expected);
  CHECK(text.find_first_not_of(' ', expected.size()) == std::string::npos);
  CHECK(safetensors_header({}) == std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
}

TEST_CASE("misuse is refused and leaves no file") {
  const testing::TempDir dir;
  const std::vector<std::byte> bytes(8);
  const auto open = [&](std::vector<TensorDescription> tensors) {
    return SafetensorsWriter(dir.path() / "out", std::move(tensors));
  };
  CHECK_THROWS_AS(open({{"a", DType::kU8, {1}}, {"a", DType::kU8, {1}}}), Error);
  CHECK_THROWS_AS(open({{"__metadata__", DType::kU8, {1}}}), Error);
  CHECK_THROWS_AS(open({{"\xff", DType::kU8, {1}}}), Error);
  CHECK_THROWS_AS(open({{"a", DType::kF4, {1}}}), Error);
  {
    SafetensorsWriter writer = open({{"a", DType::kU8, {4}}, {"b", DType::kU8, {4}}, {"e", DType::kU8, {0}}});
    CHECK_THROWS_AS(writer.write("b", std::span(bytes).first(4)), Error);
    CHECK_THROWS_AS(writer.write("a", bytes), Error);
    writer.write("a", std::span(bytes).first(4));
    CHECK_THROWS_AS(writer.commit(), Error);
    writer.write("b", std::span(bytes).first(3));
    CHECK_THROWS_AS(writer.commit(), Error);
  }
  CHECK(std::filesystem::is_empty(dir.path()));
}

}  // namespace
}  // namespace crumb
