#include "formats/npy/npy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>

#include "tests/formats/npy/samples.h"
#include "tests/support/testing.h"

namespace crumb {
namespace {

using testing::npy;
using testing::raw;

Result<NpyArray> parse(const std::string& file) { return parse_npy(std::as_bytes(std::span(file))); }

std::string npy_refusal(const std::string& file) {
  const Result<NpyArray> array = parse(file);
  return array.ok() ? "no failure" : array.failure().message;
}

TEST_CASE("every version, order and byte order gives the same array") {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  std::string swapped = raw(values);
  for (std::size_t i = 0; i < swapped.size(); i += 4) std::reverse(&swapped[i], &swapped[i] + 4);
  const std::string columns = raw<float>({1, 4, 2, 5, 3, 6});
  for (int version = 1; version <= 3; ++version) {
    for (const std::string& file :
         {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }          \n", raw(values),
              version),
          npy("{\"shape\":(2,3),\"descr\":\">f4\",'fortran_order':False}", swapped, version),
          npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2L, 3L)}\n", columns, version)}) {
      const NpyArray array = parse(file).take();
      CHECK(array.dtype == DType::kF32);
      CHECK(array.shape == std::vector<std::uint64_t>{2, 3});
      CHECK(array.to_floats() == values);
    }
  }
}

TEST_CASE("column-major arrays of any rank come out row-major") {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::uint64_t> shape;
    std::string text;
    std::uint64_t count = 1;
    for (std::size_t rank = 1 + random() % 4; rank > 0; --rank) {
      shape.push_back(random() % 5);
      count *= shape.back();
      text += std::to_string(shape.back()) + ",";
    }
    std::vector<std::int16_t> columns(count);
    std::vector<std::int16_t> rows(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint64_t rest = i;
      std::uint64_t column_major = 0;
      std::uint64_t stride = count;
      for (std::size_t axis = shape.size(); axis-- > 0;) {
        stride /= shape[axis];
        column_major += rest % shape[axis] * stride;
        rest /= shape[axis];
      }
      rows[i] = static_cast<std::int16_t>(random());
      columns[column_major] = rows[i];
    }
    const NpyArray array =
        parse(npy("{'descr': '<i2', 'fortran_order': True, 'shape': (" + text + "), }", raw(columns))).take();
    REQUIRE(array.data.size() == count * 2);
    REQUIRE((count == 0 || std::memcmp(array.data.data(), rows.data(), count * 2) == 0));
  }
}

TEST_CASE("scalars, booleans, complex numbers") {
  CHECK(parse(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (), }", raw<double>({0.5})))
            .take()
            .to_floats() == std::vector<float>{0.5F});
  CHECK(parse(npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", raw<char>({1, 0})))
            .take()
            .to_floats() == std::vector<float>{1, 0});
  const NpyArray complex = parse(npy("{'descr': '>c8', 'fortran_order': False, 'shape': (1,), }",
                                     std::string("\x3f\x80\0\0\xc0\0\0\0", 8)))
                               .take();
  float pair[2];
  std::memcpy(pair, complex.data.data(), 8);
  CHECK(pair[0] == 1.0F);
  CHECK(pair[1] == -2.0F);
}

TEST_CASE("types that are none of ours are told apart from damage") {
  const auto foreign = [](const std::string& descr) {
    const std::string file =
        npy("{'descr': " + descr + ", 'fortran_order': False, 'shape': (2,), }", "anything", 3);
    const NpyHeader header = parse_npy_header(std::as_bytes(std::span(file)), file.size()).take();
    const Result<NpyHeader> whole = parse_npy_header(std::as_bytes(std::span(file)));
    REQUIRE_FALSE(whole.ok());
    CHECK(whole.failure().message.starts_with("an array of " + header.foreign + " is not supported"));
    return header.foreign;
  };
  CHECK(foreign("'|O'") == "Python objects ('|O')");
  CHECK(foreign("'<U7'") == "strings ('<U7')");
  CHECK(foreign("'|S7'") == "byte strings ('|S7')");
  CHECK(foreign("'<M8[s]'") == "dates ('<M8[s]')");
  CHECK(foreign("'<m8'") == "spans of time ('<m8')");
  CHECK(foreign("'<c16'") == "other complex numbers ('<c16')");
  CHECK(foreign("'<f16'") == "other floats ('<f16')");
  CHECK(foreign("'<f1'") == "other floats ('<f1')");
  CHECK(foreign("'<V2'") == "raw bytes, as bfloat16 and float8 come out of NumPy ('<V2')");
  CHECK(foreign("'quux'") == "elements of the unknown type 'quux'");
  CHECK(foreign("[('\xc3\xa9', '<f4'), ('b', [('c', '<i2', (2,))])]") == "records (a structured 'descr')");
}

TEST_CASE("the header's length is told from the first twelve bytes") {
  for (int version = 1; version <= 3; ++version) {
    const std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
    const std::string file = npy(dict, "12345678", version);
    const std::span<const std::byte> start = std::as_bytes(std::span(file)).first(kNpyStart);
    const std::uint64_t bytes = npy_header_bytes(start, file.size()).take();
    CHECK(bytes == file.size() - 8);
    CHECK_FALSE(npy_header_bytes(start, bytes - 1).ok());
    CHECK(npy_header_bytes(start, bytes).ok());
    CHECK(parse_npy_header(std::as_bytes(std::span(file)).first(bytes), file.size()).take().data_bytes == 8);
    CHECK_FALSE(parse_npy_header(std::as_bytes(std::span(file)).first(bytes - 1), file.size()).ok());
    CHECK_FALSE(parse_npy_header(std::as_bytes(std::span(file)).first(bytes), file.size() - 1).ok());
    CHECK_FALSE(parse_npy_header(std::as_bytes(std::span(file)).first(bytes), file.size() + 1).ok());
  }
}

TEST_CASE("bad files are refused with a reason") {
  const auto dict = [](const std::string& text, std::size_t data = 0) {
    return npy_refusal(npy(text, std::string(data, 'x')));
  };
  const auto says = [](const std::string& message, const char* part) {
    if (message.find(part) == std::string::npos) MESSAGE(message);
    return message.find(part) != std::string::npos;
  };
  CHECK(says(npy_refusal(""), "not a .npy file"));
  CHECK(says(npy_refusal("\x93NUMPY\1"), "cut short"));
  CHECK(says(npy_refusal(npy("{}", "", 4)), "version 4.0"));
  CHECK(says(dict("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 23),
             "1 byte missing of the 24 bytes"));
  CHECK(says(dict("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 25),
             "1 byte follows the array"));
  CHECK(
      says(dict("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", 16), "('|O') is not supported"));
  CHECK(says(dict("{'descr': '<f16', 'fortran_order': False, 'shape': (2,), }", 32),
             "('<f16') is not supported"));
  CHECK(
      says(dict("{'descr': '|f4', 'fortran_order': False, 'shape': (1,), }", 4), "('|f4') is not supported"));
  CHECK(says(dict("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", 8), "records"));
  CHECK(says(dict("{'descr': '<f4', 'fortran_order': False}"), "'shape' is missing"));
  CHECK(says(dict("{'descr': '<f4', 'descr': '<f4'}"), "'descr' occurs twice"));
  CHECK(says(dict("{'descr': '<f4', 'x': 1}"), "unknown key 'x'"));
  CHECK(
      says(dict("{'descr': '<f4', 'fortran_order': 0, 'shape': (2,), }"), "expected True or False at byte"));
  CHECK(says(dict("{'descr': '<f4', 'fortran_order': False, 'shape': (2), }", 8), "expected ','"));
  CHECK(says(dict("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }"), "expected a size"));
  CHECK(says(dict("{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551616,), }"),
             "below 2^64"));
  CHECK(
      says(dict("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }"), "64 bits"));
  CHECK(says(dict("{'descr': '<f4', 'fortran_order': False, 'shape': (0,), } x"), "nothing more"));
  std::string long_header = npy("", "", 2);
  long_header[11] = '\x7f';
  CHECK(says(npy_refusal(long_header), "header length"));
}

TEST_CASE("random damage never crashes") {
  std::mt19937 random(17);
  const std::string good =
      npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3, 2), }        \n", std::string(48, 'x'));
  for (int round = 0; round < 20'000; ++round) {
    std::string file = good;
    for (std::size_t i = 1 + random() % 3; i > 0 && !file.empty(); --i) {
      const std::size_t at = random() % file.size();
      switch (random() % 4) {
        case 0: file[at] = static_cast<char>(random()); break;
        case 1: file[at] = "{}()',:0123456789"[random() % 17]; break;
        case 2: file.erase(at, 1 + random() % 9); break;
        default: file.resize(at);
      }
    }
    const Result<NpyArray> array = parse(file);
    if (array.ok())
      REQUIRE(tensor_byte_size(array.value().dtype, array.value().shape).value() ==
              array.value().data.size());
  }
}

TEST_CASE("a written matrix has numpy's own bytes and is read back") {
  const testing::TempDir dir;
  const std::vector<float> values = {1.5F, -2, 0, 1e-40F, 3, 4};
  write_npy(dir.path() / "y.npy", values, 3, 2);
  const NpyArray array = read_npy(dir.path() / "y.npy").take();
  CHECK(array.shape == std::vector<std::uint64_t>{3, 2});
  CHECK(array.to_floats() == values);
  const std::uint64_t shape[] = {3, 2};
  const std::string header = npy_header(DType::kF32, shape);
  CHECK(header.size() == 128);
  CHECK(header.substr(0, 69) ==
        std::string("\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }",
                    69));
  CHECK(header.back() == '\n');
  const std::uint64_t one[] = {7};
  CHECK(npy_header(DType::kU8, one).find("'|u1', 'fortran_order': False, 'shape': (7,), }") !=
        std::string::npos);
  CHECK(npy_header(DType::kF32, {}).find("'shape': (), }") != std::string::npos);
  CHECK_THROWS_AS(npy_header(DType::kBF16, one), Error);
  CHECK_THROWS_AS(write_npy(dir.path() / "z.npy", values, 3, 3), Error);
  write_npy(dir.path() / "none.npy", {}, 0, 384);
  CHECK(read_npy(dir.path() / "none.npy").take().shape == std::vector<std::uint64_t>{0, 384});
}

TEST_CASE("arrays of every type that numpy has are written and read back") {
  const testing::TempDir dir;
  std::mt19937 random(3);
  for (const DTypeInfo& info : kDTypes) {
    for (const std::vector<std::uint64_t>& shape : std::vector<std::vector<std::uint64_t>>{
             {}, {1}, {7}, {0, 3}, {3, 0}, {2, 3, 5}, std::vector<std::uint64_t>(64, 1)}) {
      const Result<std::uint64_t> bytes = tensor_byte_size(info.dtype, shape);
      if (info.numpy.empty()) {
        CHECK_THROWS_AS(write_npy(dir.path() / "x.npy", info.dtype, shape, std::vector<std::byte>(1)), Error);
        continue;
      }
      std::vector<std::byte> data(bytes.value());
      for (std::byte& byte : data) byte = static_cast<std::byte>(random());
      write_npy(dir.path() / "x.npy", info.dtype, shape, data);
      const NpyArray array = read_npy(dir.path() / "x.npy").take();
      CHECK(array.dtype == info.dtype);
      CHECK(array.shape == shape);
      CHECK(array.data == data);
      data.emplace_back();
      CHECK_THROWS_AS(write_npy(dir.path() / "y.npy", info.dtype, shape, data), Error);
    }
  }
  CHECK_FALSE(std::filesystem::exists(dir.path() / "y.npy"));
}

}  // namespace
}  // namespace crumb
