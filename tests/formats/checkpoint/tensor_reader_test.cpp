// Tensors read front to back in pieces of odd sizes, whatever their file does to them: coded, big-endian, views,
// with checksums that hold and that do not.
#include "formats/checkpoint/tensor_reader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "tests/formats/zip/samples.h"
#include "tests/support/samples.h"
#include "tests/support/testing.h"

using crumb::DType;
using crumb::InputFile;
using crumb::StorageCoding;
using crumb::StoredTensor;
using crumb::TensorReader;
using crumb::testing::deflated;
using crumb::testing::says;

namespace {

std::string random_text(size_t size, uint64_t seed, int bits = 8) {
  std::mt19937_64 engine(seed);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(engine() % (1u << bits));
  return text;
}

uint32_t crc_of(const std::string& text) { return crumb::crc32_of(crumb::testing::bytes_of(text)); }

/// A file of one tensor, with something before and behind its storage.
class Sample {
 public:
  Sample(const std::string& stored, StoredTensor tensor) : tensor_(std::move(tensor)) {
    tensor_.name = "some.weight";
    tensor_.place.offset = 13;
    tensor_.place.stored = stored.size();
    if (tensor_.place.decoded == 0) tensor_.place.decoded = stored.size();
    write(std::string(13, 'x') + stored + "behind");
    file_ = InputFile::open(path()).take();
  }

  std::filesystem::path path() const { return dir_.path() / "file"; }
  void write(const std::string& text) const { std::ofstream(path(), std::ios::binary) << text; }
  StoredTensor& tensor() { return tensor_; }
  TensorReader reader() const { return {*file_, tensor_}; }

  size_t bytes() const {
    uint64_t count = 1;
    for (const uint64_t axis : tensor_.shape) count *= axis;
    return count * crumb::dtype_bits(tensor_.dtype) / 8;
  }

  /// All of it in pieces of about so many bytes; throws what reading meets.
  std::string read(TensorReader& reader, size_t piece) const {
    const size_t element = std::max<size_t>(1, crumb::dtype_bits(tensor_.dtype) / 8);
    piece = std::max(element, piece / element * element);
    std::string all;
    while (all.size() < bytes()) {
      std::string part(std::min(piece, bytes() - all.size()), '?');
      reader.read(std::as_writable_bytes(std::span(part))).take();
      all += part;
    }
    return all;
  }

  /// Whether every way of reading gives these bytes.
  bool gives(const std::string& expected) const {
    for (const size_t piece : {1, 7, 100, 4099, 70000, 1 << 20}) {
      if (piece * 2000 < expected.size()) continue;  // every read opens the file
      TensorReader from = reader();
      if (read(from, piece) != expected) return false;
      from.rewind();
      if (read(from, piece + 3) != expected) return false;
      from.rewind();  // also in the middle
      std::string part(expected.size() / 2 / 8 * 8, '?');
      if (!from.read(std::as_writable_bytes(std::span(part))).ok()) return false;
      if (part != expected.substr(0, part.size())) return false;
      from.rewind();
      if (read(from, piece) != expected) return false;
    }
    return true;
  }

  std::string failure(size_t piece = 4096) const {
    TensorReader from = reader();
    try {
      read(from, piece);
    } catch (const crumb::Error& error) {
      return error.what();
    }
    return "nothing";
  }

 private:
  crumb::testing::TempDir dir_;
  StoredTensor tensor_;
  std::optional<InputFile> file_;
};

std::string swapped(std::string text, size_t size) {
  for (size_t at = 0; at < text.size(); at += size)
    std::reverse(text.begin() + static_cast<ptrdiff_t>(at), text.begin() + static_cast<ptrdiff_t>(at + size));
  return text;
}

std::string varint(uint64_t value) {
  std::string text;
  for (; value > 127; value >>= 7) text += static_cast<char>((value & 127) | 128);
  return text + static_cast<char>(value);
}

/// A view by its definition, element by element.
std::string view_of(const std::string& storage, const StoredTensor& tensor) {
  const size_t size = crumb::dtype_bits(tensor.dtype) / 8;
  std::vector<uint64_t> index(tensor.shape.size());
  std::string out;
  for (;;) {
    uint64_t element = tensor.place.first;
    for (size_t axis = 0; axis < index.size(); ++axis) element += index[axis] * tensor.place.strides[axis];
    out += storage.substr(tensor.place.skip + element * size, size);
    size_t axis = index.size();
    while (axis > 0 && ++index[axis - 1] == tensor.shape[axis - 1]) index[--axis] = 0;
    if (axis == 0) return out;
  }
}

}  // namespace

TEST_CASE("plain tensors") {
  const std::string text = random_text(200000, 1);
  CHECK(Sample(text, {.dtype = DType::kU8, .shape = {200000}}).gives(text));
  CHECK(Sample(text, {.dtype = DType::kF32, .shape = {50, 1000}}).gives(text));
  CHECK(Sample(text, {.dtype = DType::kF64, .shape = {25000}}).gives(text));
  // A part of its storage, after the header of an .npy.
  StoredTensor part{.dtype = DType::kF16, .shape = {100, 70}};
  part.place.skip = 128;
  part.place.first = 11;
  CHECK(Sample(text, part).gives(text.substr(128 + 22, 14000)));
}

TEST_CASE("plain tensors with a checksum") {
  const std::string text = random_text(200000, 2);
  StoredTensor tensor{.dtype = DType::kF32, .shape = {50000}};
  tensor.place.crc = crc_of(text);
  CHECK(Sample(text, tensor).gives(text));
  // Of the whole storage, of which the tensor is the end: it is looked at, too.
  StoredTensor end{.dtype = DType::kF32, .shape = {40000}};
  end.place.crc = crc_of(text);
  end.place.first = 10000;
  CHECK(Sample(text, end).gives(text.substr(40000)));
  for (StoredTensor* wrong : {&tensor, &end}) {
    *wrong->place.crc ^= 1;
    for (const size_t piece : {16, 4096, 1 << 20})
      CHECK(
          says(Sample(text, *wrong).failure(piece), {"/file'", "'some.weight'", "checksum does not match"}));
  }
}

TEST_CASE("deflated tensors") {
  for (const int bits : {1, 4, 8}) {
    for (const int level : {0, 1, 9}) {
      const std::string text = random_text(300000, 3, bits);
      StoredTensor tensor{.dtype = DType::kF32, .shape = {75000}};
      tensor.place.coding = StorageCoding::kDeflate;
      tensor.place.decoded = text.size();
      tensor.place.crc = crc_of(text);
      const Sample sample(deflated(text, level), tensor);
      CHECK(sample.gives(text));
      StoredTensor part = tensor;
      part.shape = {1000};
      part.place.skip = 80;
      part.place.first = 60000;
      CHECK(Sample(deflated(text, level), part).gives(text.substr(80 + 240000, 4000)));
      *tensor.place.crc ^= 1;
      CHECK(says(Sample(deflated(text, level), tensor).failure(), {"'some.weight'", "checksum"}));
    }
  }
}

TEST_CASE("deflated data that is damaged or too short") {
  const std::string text = random_text(100000, 4, 5);
  const std::string whole = deflated(text);
  StoredTensor tensor{.dtype = DType::kU8, .shape = {100000}};
  tensor.place.coding = StorageCoding::kDeflate;
  tensor.place.decoded = text.size();
  CHECK(says(Sample(whole.substr(0, whole.size() / 2), tensor).failure(), {"'some.weight'", "too early"}));
  CHECK(says(Sample(deflated(text.substr(0, 70000)), tensor).failure(),
             {"'some.weight'", "30000 bytes too early"}));
  CHECK(says(Sample("", tensor).failure(), {"'some.weight'", "too early"}));
  std::string damaged = whole;
  for (size_t at = 1000; at < 1100; ++at) damaged[at] = '\xff';
  CHECK(says(Sample(damaged, tensor).failure(), {"'some.weight'"}));
}

TEST_CASE("varints") {
  std::mt19937_64 engine(5);
  std::string stored, half, word, longest;
  for (int i = 0; i < 30000; ++i) {
    const uint64_t value = engine() >> (engine() % 64);
    stored += varint(value);
    half += crumb::testing::le(value, 2);
    word += crumb::testing::le(value, 4);
    longest += crumb::testing::le(value, 8);
  }
  const auto sample = [&](DType dtype, const std::string& bytes) {
    StoredTensor tensor{.dtype = dtype, .shape = {30000}};
    tensor.place.coding = StorageCoding::kVarints;
    tensor.place.decoded = bytes.size();
    return Sample(stored, tensor).gives(bytes);
  };
  CHECK(sample(DType::kF16, half));
  CHECK(sample(DType::kI32, word));
  CHECK(sample(DType::kU64, longest));
  // One is missing, one ends in the middle, one never ends.
  StoredTensor tensor{.dtype = DType::kU8, .shape = {3}};
  tensor.place.coding = StorageCoding::kVarints;
  tensor.place.decoded = 3;
  CHECK(says(Sample("\x01\x02", tensor).failure(), {"'some.weight'", "ends inside"}));
  CHECK(says(Sample("\x01\x02\x80", tensor).failure(), {"'some.weight'", "ends inside"}));
  CHECK(says(Sample("\x01" + std::string(20, '\xff'), tensor).failure(), {"'some.weight'", "ten bytes"}));
}

TEST_CASE("big-endian tensors") {
  const std::string text = random_text(80000, 6);
  const struct {
    DType dtype;
    size_t number, element;
  } kinds[] = {
      {DType::kU8, 1, 1}, {DType::kF16, 2, 2}, {DType::kF32, 4, 4}, {DType::kF64, 8, 8}, {DType::kC64, 4, 8}};
  for (const auto& [dtype, number, element] : kinds) {
    StoredTensor tensor{.dtype = dtype, .shape = {80000 / element}};
    tensor.place.big_endian = true;
    CHECK(Sample(swapped(text, number), tensor).gives(text));
    tensor.place.coding = StorageCoding::kDeflate;
    tensor.place.decoded = text.size();
    CHECK(Sample(deflated(swapped(text, number)), tensor).gives(text));
    if (element == 8) {
      tensor.shape = {10, 1000};
      tensor.place.strides = {1, 10};
      CHECK(Sample(deflated(swapped(text, number)), tensor).gives(view_of(text, tensor)));
    }
  }
}

TEST_CASE("views") {
  const std::string text = random_text(48000, 7);
  const struct {
    std::vector<uint64_t> shape;
    uint64_t first;
    std::vector<uint64_t> strides;
  } views[] = {
      {{40, 50}, 0, {1, 40}},                          // transposed
      {{50, 20}, 3, {120, 4}},                         // every fourth
      {{30, 70}, 5, {0, 1}},                           // one row, thirty times
      {{70, 30}, 5, {1, 0}},                           // each value thirty times
      {{4, 5, 6}, 0, {1, 4, 20}},                      // reversed axes
      {{5, 1, 7}, 11999 - 6 * 3 - 4, {1, 999999, 3}},  // to the storage's last
      {{1}, 17, {5}},
      {{}, 100, {}},
  };
  for (const auto& [shape, first, strides] : views) {
    StoredTensor tensor{.dtype = DType::kF32, .shape = shape};
    tensor.place.first = first;
    tensor.place.strides = strides;
    const std::string expected = view_of(text, tensor);
    CHECK(Sample(text, tensor).gives(expected));
    tensor.place.crc = crc_of(text);
    CHECK(Sample(text, tensor).gives(expected));
    tensor.place.coding = StorageCoding::kDeflate;
    tensor.place.decoded = text.size();
    CHECK(Sample(deflated(text), tensor).gives(expected));
    *tensor.place.crc ^= 4;
    if (first + 1 < 12000 && !strides.empty())
      CHECK(says(Sample(deflated(text), tensor).failure(), {"'some.weight'", "checksum"}));
  }
}

TEST_CASE("a file that changes, shrinks or vanishes under way") {
  const std::string text = random_text(100000, 8);
  for (const bool coded : {false, true}) {
    StoredTensor tensor{.dtype = DType::kF32, .shape = {25000}};
    if (coded) tensor.place.coding = StorageCoding::kDeflate;
    tensor.place.decoded = text.size();
    for (const char* what : {"changed", "shrunk", "gone"}) {
      const Sample sample(coded ? deflated(text, 0) : text, tensor);
      TensorReader reader = sample.reader();
      std::string part(4000, '?');
      REQUIRE(reader.read(std::as_writable_bytes(std::span(part))).ok());
      CHECK(part == text.substr(0, 4000));
      if (*what == 'c') sample.write("something else");
      if (*what == 's') std::filesystem::resize_file(sample.path(), 50000);
      if (*what == 'g') std::filesystem::remove(sample.path());
      std::string rest(96000, '?');
      const crumb::Status status = reader.read(std::as_writable_bytes(std::span(rest)));
      REQUIRE(!status.ok());
      CHECK(says(status.failure().message, {"/file'", *what == 'g' ? "No such file" : "changed while"}));
    }
  }
}
