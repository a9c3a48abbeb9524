#include "formats/npy/npy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>

#include "tests/support/testing.h"

namespace crumb {
namespace {

Result<NpyArray> parse(const std::string& file) { return parse_npy(std::as_bytes(std::span(file))); }

std::string why(const std::string& file) {
  const Result<NpyArray> array = parse(file);
  return array.ok() ? "no failure" : array.failure().message;
}

std::string npy(const std::string& dict, const std::string& data, int version = 1) {
  std::string file = "\x93NUMPY";
  file += {static_cast<char>(version), '\0'};
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) file += static_cast<char>((dict.size() >> (8 * i)) & 255u);
  return file + dict + data;
}

template <class T>
std::string raw(std::vector<T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
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
            .to_floats() == std::vector<float>{0.5f});
  CHECK(parse(npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", raw<char>({1, 0})))
            .take()
            .to_floats() == std::vector<float>{1, 0});
  const NpyArray complex = parse(npy("{'descr': '>c8', 'fortran_order': False, 'shape': (1,), }",
                                     std::string("\x3f\x80\0\0\xc0\0\0\0", 8)))
                               .take();
  float pair[2];
  std::memcpy(pair, complex.data.data(), 8);
  CHECK(pair[0] == 1.0f);
  CHECK(pair[1] == -2.0f);
}

TEST_CASE("bad files are refused with a reason") {
  const auto dict = [](const std::string& text, std::size_t data = 0) {
    return why(npy(text, std::string(data, 'x')));
  };
  const auto says = [](const std::string& message, const char* part) {
    if (message.find(part) == std::string::npos) MESSAGE(message);
    return message.find(part) != std::string::npos;
  };
  CHECK(says(why(""), "not a .npy file"));
  CHECK(says(why("\x93NUMPY\1"), "cut short"));
  CHECK(says(why(npy("{}", "", 4)), "version 4.0"));
  CHECK(says(dict("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 23),
             "1 byte missing of the 24 bytes"));
  CHECK(says(dict("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 25),
             "1 byte follow the array"));
  CHECK(says(dict("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", 16), "('|O') is not supported"));
  CHECK(says(dict("{'descr': '<f16', 'fortran_order': False, 'shape': (2,), }", 32),
             "('<f16') is not supported"));
  CHECK(says(dict("{'descr': '|f4', 'fortran_order': False, 'shape': (1,), }", 4), "'|f4' is not supported"));
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
  CHECK(says(why(long_header), "header length"));
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
  const std::vector<float> values = {1.5f, -2, 0, 1e-40f, 3, 4};
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

}  // namespace
}  // namespace crumb
