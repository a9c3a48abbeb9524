#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>

#include "base/files/mapped_file.h"
#include "formats/npy/npz.h"
#include "formats/zip/zip.h"
#include "tests/support/testing.h"

namespace crumb {
namespace {

std::vector<NpyArray> read_back(const MappedFile& file, std::span<const NamedArray> expected) {
  std::vector<NpyArray> arrays;
  const std::vector<ZipMember> members = parse_zip(file.bytes()).take();
  REQUIRE(members.size() == expected.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    CHECK(members[i].name == expected[i].name + ".npy");
    arrays.push_back(parse_npy(read_zip_member(file.bytes(), members[i], 1 << 24).take()).take());
  }
  return arrays;
}

TEST_CASE("an archive of every type that numpy has is read back, stored and deflated") {
  const testing::TempDir dir;
  const std::filesystem::path path = dir.path() / "x.npz";
  std::mt19937 random(21);
  for (const bool deflate : {false, true}) {
    std::vector<std::vector<std::byte>> data;
    std::vector<NamedArray> arrays;
    for (const DTypeInfo& info : kDTypes) {
      if (info.numpy.empty()) continue;
      for (const std::vector<std::uint64_t>& shape :
           std::vector<std::vector<std::uint64_t>>{{}, {0, 3}, {17}, {3, 1, 5}, {70, 1000}}) {
        data.emplace_back(tensor_byte_size(info.dtype, shape).take());
        for (std::byte& byte : data.back()) byte = static_cast<std::byte>(random() % 5);
        arrays.push_back({"layer/" + std::string(info.name) + ".é." + std::to_string(shape.size()) +
                              std::to_string(data.back().size()),
                          info.dtype,
                          shape,
                          {}});
      }
    }
    for (std::size_t i = 0; i < data.size(); ++i) arrays[i].data = data[i];
    write_npz(path, arrays, deflate);
    const MappedFile file = MappedFile::open(path).take();
    const std::vector<NpyArray> read = read_back(file, arrays);
    for (std::size_t i = 0; i < read.size(); ++i) {
      CHECK(read[i].dtype == arrays[i].dtype);
      CHECK(read[i].shape == arrays[i].shape);
      CHECK(read[i].data == data[i]);
    }
    const TensorListing listing = list_npz(file.bytes()).take();
    REQUIRE(listing.tensors.size() == arrays.size());
    CHECK(listing.tensors[0].name == arrays[0].name);
    write_npz(dir.path() / "again.npz", arrays, deflate);
    const MappedFile again = MappedFile::open(dir.path() / "again.npz").take();
    CHECK(std::ranges::equal(file.bytes(), again.bytes()));
  }
}

TEST_CASE("empty archives, and more members than the old records can count") {
  const testing::TempDir dir;
  write_npz(dir.path() / "none.npz", {});
  const MappedFile none = MappedFile::open(dir.path() / "none.npz").take();
  CHECK(none.size() == 22);
  CHECK(list_npz(none.bytes()).take().tensors.empty());
  std::vector<NamedArray> arrays;
  const std::vector<std::byte> one(1);
  for (int i = 0; i < 65'535; ++i) arrays.push_back({"m" + std::to_string(i), DType::kU8, {1}, one});
  write_npz(dir.path() / "many.npz", arrays);
  const MappedFile many = MappedFile::open(dir.path() / "many.npz").take();
  CHECK(list_npz(many.bytes()).take().tensors.size() == arrays.size());
}

TEST_CASE("the bytes of an archive that NumPy and Python's zipfile were seen to read") {
  const testing::TempDir dir;
  const float a[] = {1.5F, -2};
  const std::int16_t e = 258;
  const NamedArray arrays[] = {{"a", DType::kF32, {2}, std::as_bytes(std::span(a))},
                               {"é", DType::kI16, {}, std::as_bytes(std::span(&e, 1))}};
  write_npz(dir.path() / "x.npz", arrays);
  const MappedFile file = MappedFile::open(dir.path() / "x.npz").take();
  std::string hex;
  for (const std::byte byte : file.bytes()) {
    hex += "0123456789abcdef"[std::to_integer<unsigned>(byte) >> 4];
    hex += "0123456789abcdef"[std::to_integer<unsigned>(byte) & 15u];
  }
  const auto spaces = [](std::size_t count) {
    std::string text;
    while (count-- > 0) text += "20";
    return text;
  };
  CHECK(hex ==
        "504b030414000000000000002100d6434b05880000008800000005000000612e6e7079934e554d5059010076007b2764"
        "65736372273a20273c6634272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028"
        "322c292c207d" +
            spaces(60) +
            "0a0000c03f000000c0504b0304140000080000000021009565b963820000008200000006000000c3a92e6e7079934e55"
            "4d5059010076007b276465736372273a20273c6932272c2027666f727472616e5f6f72646572273a2046616c73652c20"
            "277368617065273a2028292c207d" +
            spaces(62) +
            "0a0201504b0102140014000000000000002100d6434b0588000000880000000500000000000000000000000000000000"
            "00612e6e7079504b01021400140000080000000021009565b96382000000820000000600000000000000000000000000"
            "ab000000c3a92e6e7079504b0506000000000200020067000000510100000000");
}

TEST_CASE("arrays that cannot be written are refused before anything is") {
  const testing::TempDir dir;
  const std::vector<std::byte> data(8);
  const auto why = [&](std::vector<NamedArray> arrays) -> std::string {
    try {
      write_npz(dir.path() / "x.npz", arrays);
      return "no error";
    } catch (const Error& error) {
      return error.what();
    }
  };
  const auto says = [](const std::string& message, const char* part) {
    if (message.find(part) == std::string::npos) MESSAGE(message);
    return message.find(part) != std::string::npos;
  };
  const NamedArray good{"w", DType::kF32, {2}, data};
  CHECK(says(why({good, {"v", DType::kF32, {2}, data}, good}), "two arrays have the name 'w'"));
  CHECK(says(why({{"", DType::kF32, {2}, data}}), "an array has no name"));
  CHECK(says(why({{"\xff", DType::kF32, {2}, data}}), "is not UTF-8"));
  CHECK(says(why({{std::string("a\0b", 3), DType::kF32, {2}, data}}), "cannot stand in a zip archive"));
  CHECK(says(why({{std::string(65'532, 'a'), DType::kF32, {2}, data}}), "cannot stand in a zip archive"));
  CHECK(says(why({{"w", DType::kBF16, {4}, data}}), "'w': numpy has no type for BF16"));
  CHECK(says(why({{"w", DType::kF32, {3}, data}}), "8 bytes given for the 12 bytes"));
  CHECK(says(why({{"w", DType::kF32, std::vector<std::uint64_t>(65, 1), std::span(data).first(4)}}),
             "65 axes, at most 64"));
  CHECK(std::filesystem::is_empty(dir.path()));
}

TEST_CASE("members and offsets beyond 4 GiB") {
  if (!testing::slow()) return testing::skip_slow();
  const testing::TempDir dir;
  constexpr std::uint64_t kBig = (std::uint64_t{1} << 32) + 12'345;
  if (std::filesystem::space(dir.path()).available < 3 * kBig)
    return testing::skip("13 GB of free disk needed");
  // Pages that were never written are all the system's one page of zeros.
  void* zeros = mmap(nullptr, kBig, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(zeros != MAP_FAILED);
  const float last[] = {1, 2};
  const NamedArray arrays[] = {{"big", DType::kU8, {kBig}, {static_cast<const std::byte*>(zeros), kBig}},
                               {"last", DType::kF32, {2}, std::as_bytes(std::span(last))}};
  for (const bool deflate : {true, false}) {
    write_npz(dir.path() / "big.npz", arrays, deflate);
    const MappedFile file = MappedFile::open(dir.path() / "big.npz").take();
    const std::vector<ZipMember> members = parse_zip(file.bytes()).take();
    REQUIRE(members.size() == 2);
    CHECK(members[0].size == kBig + 128);
    CHECK((file.size() > kBig) == !deflate);
    const TensorListing listing = list_npz(file.bytes()).take();
    CHECK(listing.tensors.at(0).shape == std::vector<std::uint64_t>{kBig});
    const NpyArray read = parse_npy(read_zip_member(file.bytes(), members[1], 1000).take()).take();
    CHECK(read.to_floats() == std::vector<float>{1, 2});
  }
  munmap(zeros, kBig);
}

}  // namespace
}  // namespace crumb
