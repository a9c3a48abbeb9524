#include <doctest/doctest.h>

#include <random>
#include <string>

#include "formats/safetensors/safetensors.h"
#include "tests/formats/safetensors/samples.h"
#include "tests/support/samples.h"

namespace crumb {
namespace {

using testing::safetensors_file;

Result<SafetensorsHeader> parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file)));
}

std::string why(const std::string& file) {
  const Result<SafetensorsHeader> header = parse(file);
  return header.ok() ? "no failure" : header.failure().message;
}

using testing::says;

const std::string kGood = R"({"__metadata__":{"format":"pt"},)"
                          R"("b":{"dtype":"F16","shape":[2,3],"data_offsets":[24,36]},)"
                          R"("a.weight":{"shape":[2,3],"data_offsets":[0,24],"dtype":"F32"},)"
                          R"("empty":{"dtype":"I64","shape":[4,0],"data_offsets":[24,24]},)"
                          R"("scalar":{"dtype":"U8","shape":[],"data_offsets":[36,37]}}   )";

TEST_CASE("a legal file is listed in the order of its offsets") {
  const std::string file = safetensors_file(kGood, 37);
  CHECK(looks_like_safetensors(std::as_bytes(std::span(file)).first(16)));
  const SafetensorsHeader header = parse(file).take();
  REQUIRE(header.tensors.size() == 4);
  CHECK(header.tensors[0].name == "a.weight");
  CHECK(header.tensors[1].name == "empty");
  CHECK(header.tensors[2].name == "b");
  CHECK(header.tensors[3].name == "scalar");
  CHECK(header.tensors[0].dtype == DType::kF32);
  CHECK(header.tensors[0].shape == std::vector<std::uint64_t>{2, 3});
  CHECK(header.tensors[2].offset == header.data_offset + 24);
  CHECK(header.tensors[2].bytes == 12);
  CHECK(header.tensors[3].shape.empty());
  CHECK(header.data_offset == 8 + kGood.size());
  CHECK(header.metadata.at("format") == "pt");
  CHECK(parse(safetensors_file("{}", 0)).take().tensors.empty());
}

TEST_CASE("every rule of the format is kept, and the refusal says what and where") {
  const auto one = [](const std::string& entry, std::size_t data = 24) {
    return why(safetensors_file("{\"t\":" + entry + "}", data));
  };
  CHECK(says(one(R"({"dtype":"F32","shape":[2,3],"data_offsets":[0,20]})", 20),
             {"'t'", "[0, 20]", "hold 20 bytes", "F32 [2, 3] takes 24"}));
  CHECK(says(one(R"({"dtype":"F33","shape":[2,3],"data_offsets":[0,24]})"), {"'t'", "unknown dtype 'F33'"}));
  CHECK(says(one(R"({"dtype":"F32","shape":[2,3]})"), {"'t'", "'data_offsets' is missing"}));
  CHECK(says(one(R"({"dtype":"F32","shape":[2,3],"data_offsets":[0]})"), {"'t'", "holds 1 number,"}));
  CHECK(says(one(R"({"dtype":"F32","shape":[2,3],"data_offsets":[0,24,24]})"), {"'t'", "more than two"}));
  CHECK(
      says(one(R"({"dtype":"F32","shape":[2,3],"data_offsets":[24,0]})"), {"'t'", "end before they begin"}));
  CHECK(says(one(R"({"dtype":"F32","shape":[2,-3],"data_offsets":[0,24]})"), {"'t'", "'shape' holds -3"}));
  CHECK(says(one(R"({"dtype":"F32","shape":[2,3.0],"data_offsets":[0,24]})"), {"'t'", "'shape' holds 3.0"}));
  CHECK(says(one(R"({"dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,24]})"),
             {"'t'", "'shape' holds"}));
  CHECK(says(one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,24]})"),
             {"'t'", "64 bits"}));
  CHECK(says(one(R"({"dtype":"F4","shape":[3],"data_offsets":[0,1]})", 1), {"'t'", "whole number of bytes"}));
  CHECK(says(one(R"({"dtype":7,"shape":[2,3],"data_offsets":[0,24]})"), {"'t'", "'dtype' is 7"}));
  CHECK(says(one(R"({"dtype":"F32","shape":6,"data_offsets":[0,24]})"), {"'t'", "'shape' is 6"}));
  CHECK(
      says(one(R"({"dtype":"F32","shape":[[6]],"data_offsets":[0,24]})"), {"'t'", "'shape' holds an array"}));
  CHECK(says(one(R"({"dtype":"F32","shape":[6],"data_offsets":[0,24],"dtype":"F32"})"),
             {"'t'", "'dtype' occurs twice"}));
  CHECK(says(one(R"({"dtype":"F32","shape":[6],"data_offsets":[0,24],"x":1})"), {"'t'", "unknown key 'x'"}));
  CHECK(says(one("5"), {"'t'", "expected an object"}));
  CHECK(says(why(safetensors_file(R"({"__metadata__":{"a":1}})", 0)),
             {"'__metadata__'", "'a'", "expected a string"}));
  CHECK(says(why(safetensors_file(R"({"__metadata__":{"a":"","a":""}})", 0)), {"'a' occurs twice"}));
  CHECK(says(why(safetensors_file(R"({"__metadata__":{},"__metadata__":{}})", 0)),
             {"'__metadata__' occurs twice"}));
  CHECK(says(why(safetensors_file(R"({"a":{}} {})", 0)), {"damaged"}));

  const auto two = [](const std::string& first, const std::string& a, const std::string& second,
                      const std::string& b, std::size_t data) {
    return why(safetensors_file("{\"" + first + R"(":{"dtype":"U8","shape":[4],"data_offsets":)" + a +
                                    "},\"" + second + R"(":{"dtype":"U8","shape":[4],"data_offsets":)" + b +
                                    "}}",
                                data));
  };
  CHECK(two("a", "[4,8]", "b", "[0,4]", 8) == "no failure");
  CHECK(says(two("a", "[0,4]", "a", "[4,8]", 8), {"'a' occurs twice"}));
  CHECK(says(two("a", "[0,4]", "b", "[3,7]", 7), {"'b' begins at data offset 3, expected 4", "overlap"}));
  CHECK(says(two("a", "[0,4]", "b", "[0,4]", 4), {"'b'", "overlap"}));
  CHECK(says(two("a", "[0,4]", "b", "[5,9]", 9), {"'b' begins at data offset 5, expected 4", "hole"}));
  CHECK(says(two("a", "[1,5]", "b", "[5,9]", 9), {"'a' begins at data offset 1, expected 0", "hole"}));
  CHECK(says(two("a", "[0,4]", "b", "[4,8]", 9), {"1 byte at the end of the file belong to no tensor"}));
}

TEST_CASE("a damaged frame is told apart from a damaged header") {
  CHECK(says(why(""), {"cut short", "0 bytes"}));
  CHECK(says(why("1234567"), {"cut short", "7 bytes"}));
  CHECK(says(why(std::string(8, '\0')), {"header length", "is 0"}));
  CHECK(says(why(std::string(7, '\0') + "\1{}"), {"header length", "at most 100000000"}));
  CHECK(says(why(std::string("\2\0\0\0\0\0\0\0[]", 10)), {"begins with '['", "expected '{'"}));
  CHECK(says(why(std::string("\5\0\0\0\0\0\0\0{}", 10)), {"3 bytes are missing"}));
  CHECK(says(why(safetensors_file("{\"a\xff\":1}", 0)), {"not JSON at byte"}));
  CHECK(says(why(safetensors_file("{" + std::string(50, '['), 0)), {"damaged"}));
}

TEST_CASE("a file cut short anywhere is refused and the missing bytes are counted") {
  const std::string file = safetensors_file(kGood, 37);
  for (std::size_t length = 0; length < file.size(); ++length) {
    const std::string message = why(file.substr(0, length));
    REQUIRE(message.find("cut short") != std::string::npos);
    if (length >= file.size() - 37)
      REQUIRE(message.find(std::to_string(file.size() - length) + " byte") != std::string::npos);
  }
}

TEST_CASE("thousands of random corruptions are refused or leave a consistent file") {
  std::mt19937 random(11);
  const std::string good = safetensors_file(kGood, 37);
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string file = good;
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < changes && !file.empty(); ++i) {
      const std::size_t at = random() % std::min<std::size_t>(file.size(), 8 + kGood.size());
      switch (random() % 4) {
        case 0: file[at] = static_cast<char>(file[at] ^ (1 << (random() % 8))); break;
        case 1: file[at] = "{}[]\",:0123456789-."[random() % 19]; break;
        case 2: file.erase(at, 1 + random() % 9); break;
        default: file.insert(at, 1, static_cast<char>(random()));
      }
    }
    const Result<SafetensorsHeader> header = parse(file);
    if (!header.ok()) {
      ++refused;
      REQUIRE_FALSE(header.failure().message.empty());
      continue;
    }
    std::uint64_t end = header.value().data_offset;
    for (const SafetensorsTensor& tensor : header.value().tensors) {
      REQUIRE(tensor.offset == end);
      REQUIRE(tensor_byte_size(tensor.dtype, tensor.shape).value() == tensor.bytes);
      end += tensor.bytes;
    }
    REQUIRE(end == file.size());
  }
  CHECK(refused > 15'000);
}

TEST_CASE("a header cannot ask for much more memory than its own length") {
  std::string sizes = "1";
  for (int i = 0; i < 5'000'000; ++i) sizes += ",1";
  CHECK(says(
      why(safetensors_file("{\"t\":{\"dtype\":\"U8\",\"shape\":[" + sizes + "],\"data_offsets\":[0,1]}}", 1)),
      {"of memory can list"}));
  const std::string name(5'000'000, 'n');
  CHECK(says(why(safetensors_file("{\"" + name + "\":{}}", 0)), {"longer than"}));
}

}  // namespace
}  // namespace crumb
