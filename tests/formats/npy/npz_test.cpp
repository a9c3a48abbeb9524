#include "formats/npy/npz.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>

#include "base/files/mapped_file.h"
#include "formats/zip/zip.h"
#include "tests/formats/npy/samples.h"
#include "tests/formats/zip/samples.h"
#include "tests/support/testing.h"

namespace crumb {
namespace {

using testing::bytes_of;
using testing::deflated_member;
using testing::npy;
using testing::plain_member;
using testing::zip_file;
using testing::ZipSample;

std::string dict(const std::string& descr, bool fortran, std::span<const std::uint64_t> shape) {
  std::string text =
      "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': (";
  for (const std::uint64_t size : shape) text += std::to_string(size) + ",";
  return text + "), }";
}

const std::uint64_t kTwo[] = {2};

std::string good_npy() { return npy(dict("<f4", false, kTwo), "12345678"); }

std::string npz_refusal(const std::string& file) {
  const Result<TensorListing> listing = list_npz(bytes_of(file));
  return listing.ok() ? "no failure" : listing.failure().message;
}

std::string npz_refusal(const ZipSample& member) { return npz_refusal(zip_file({member})); }

bool says(const std::string& message, const char* part) {
  if (message.find(part) == std::string::npos) MESSAGE(message);
  return message.find(part) != std::string::npos;
}

/// The storage that a place names, decoded, with its checksum looked at.
std::string storage_of(const std::string& file, const TensorPlace& place) {
  const ZipMember member{.name = "storage",
                         .offset = place.offset,
                         .stored = place.stored,
                         .size = place.decoded,
                         .coding = place.coding,
                         .crc = place.crc.value_or(0)};
  const std::vector<std::byte> bytes =
      read_zip_member(bytes_of(file), member, 1 << 20, place.crc.has_value()).take();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A tensor's elements as its place says, little-endian and row-major, gathered one by one.
std::string elements_of(const std::string& file, const StoredTensor& tensor) {
  const std::string storage = storage_of(file, tensor.place).substr(tensor.place.skip);
  const std::size_t element = dtype_bits(tensor.dtype) / 8;
  const std::size_t word = tensor.dtype == DType::kC64 ? 4 : element;
  std::vector<std::uint64_t> strides = tensor.place.strides;
  if (strides.empty()) {
    strides.assign(tensor.shape.size(), 1);
    for (std::size_t axis = tensor.shape.size(); axis-- > 1;)
      strides[axis - 1] = strides[axis] * tensor.shape[axis];
  }
  REQUIRE(strides.size() == tensor.shape.size());
  std::string out;
  const std::uint64_t count = element_count(tensor.shape).take();
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t rest = i;
    std::uint64_t at = tensor.place.first;
    for (std::size_t axis = tensor.shape.size(); axis-- > 0;) {
      at += rest % tensor.shape[axis] * strides[axis];
      rest /= tensor.shape[axis];
    }
    REQUIRE((at + 1) * element <= storage.size());
    std::string value = storage.substr(at * element, element);
    if (tensor.place.big_endian)
      for (std::size_t w = 0; w < element; w += word) std::reverse(&value[w], &value[w] + word);
    out += value;
  }
  return out;
}

struct Sample {
  DType dtype;
  std::vector<std::uint64_t> shape;
  std::string file;      ///< as numpy would write it
  std::string elements;  ///< little-endian, row-major
};

Sample random_sample(std::mt19937& random) {
  Sample sample;
  const DTypeInfo* info = nullptr;
  do {
    info = &kDTypes[random() % kDTypes.size()];
  } while (info->numpy.empty());
  sample.dtype = info->dtype;
  const bool fortran = random() % 2 == 0;
  const char order = info->bits == 8 ? '|' : random() % 2 == 0 ? '>' : '<';
  for (std::size_t rank = random() % 5; rank > 0; --rank)
    sample.shape.push_back(random() % 12 == 0 ? 0 : 1 + random() % 4);
  const std::size_t element = info->bits / 8;
  const std::size_t word = info->dtype == DType::kC64 ? 4 : element;
  const std::uint64_t count = element_count(sample.shape).take();
  for (std::uint64_t i = 0; i < count * element; ++i) sample.elements += static_cast<char>(random());
  std::string data = sample.elements;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::string value = sample.elements.substr(i * element, element);
    if (order == '>')
      for (std::size_t w = 0; w < element; w += word) std::reverse(&value[w], &value[w] + word);
    std::uint64_t to = i;
    if (fortran) {
      to = 0;
      std::uint64_t rest = i;
      std::uint64_t below = count;
      for (std::size_t axis = sample.shape.size(); axis-- > 0;) {
        below /= sample.shape[axis];
        to += rest % sample.shape[axis] * below;
        rest /= sample.shape[axis];
      }
    }
    data.replace(to * element, element, value);
  }
  sample.file = npy(dict(order + std::string(info->numpy), fortran, sample.shape), data,
                    1 + static_cast<int>(random() % 3));
  return sample;
}

TEST_CASE("all types, orders, byte orders and versions, stored and deflated, alone and in an archive") {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<Sample> samples;
    std::vector<ZipSample> members;
    for (std::size_t i = 0; i < 5; ++i) {
      samples.push_back(random_sample(random));
      const std::string name = "a." + std::to_string(i) + ".npy";
      members.push_back(random() % 2 == 0 ? plain_member(name, samples[i].file)
                                          : deflated_member(name, samples[i].file));
    }
    const std::string file = zip_file(members);
    const TensorListing listing = list_npz(bytes_of(file)).take();
    REQUIRE(listing.skipped.empty());
    REQUIRE(listing.tensors.size() == samples.size());
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const StoredTensor& tensor = listing.tensors[i];
      REQUIRE(tensor.name == "a." + std::to_string(i));
      REQUIRE(tensor.dtype == samples[i].dtype);
      REQUIRE(tensor.shape == samples[i].shape);
      REQUIRE(tensor.file.empty());
      REQUIRE(tensor.place.crc.has_value());
      REQUIRE((tensor.place.coding == StorageCoding::kDeflate) == (members[i].method == 8));
      REQUIRE(elements_of(file, tensor) == samples[i].elements);

      const TensorListing alone = list_npy(bytes_of(samples[i].file), "stem").take();
      REQUIRE(alone.tensors.size() == 1);
      REQUIRE(alone.tensors[0].name == "stem");
      REQUIRE(alone.tensors[0].dtype == samples[i].dtype);
      REQUIRE(alone.tensors[0].shape == samples[i].shape);
      REQUIRE(alone.tensors[0].place.offset == 0);
      REQUIRE_FALSE(alone.tensors[0].place.crc.has_value());
      REQUIRE(elements_of(samples[i].file, alone.tensors[0]) == samples[i].elements);
    }
  }
}

TEST_CASE("column-major arrays that lie row by row all the same have no strides") {
  const auto strides = [](std::vector<std::uint64_t> shape) {
    const std::string file = npy(dict("|u1", true, shape), std::string(element_count(shape).take(), 'x'));
    return list_npy(bytes_of(file), "x").take().tensors.at(0).place.strides;
  };
  CHECK(strides({}).empty());
  CHECK(strides({5}).empty());
  CHECK(strides({1, 5, 1}).empty());
  CHECK(strides({5, 0, 2}).empty());
  CHECK(strides({2, 1, 3}) == std::vector<std::uint64_t>{1, 2, 2});
  CHECK(strides(std::vector<std::uint64_t>(64, 1)).empty());
}

TEST_CASE("what is no array of ours is skipped and named") {
  const std::string objects = npy(dict("|O", false, kTwo), "a pickle");
  const std::string records =
      npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", "12345678");
  const std::string file =
      zip_file({plain_member("readme.txt", "hello"), plain_member("w.npy", good_npy()),
                plain_member("o.npy", objects), deflated_member("r.npy", records), plain_member("f/", "")});
  const TensorListing listing = list_npz(bytes_of(file)).take();
  REQUIRE(listing.tensors.size() == 1);
  CHECK(listing.tensors[0].name == "w");
  REQUIRE(listing.skipped.size() == 3);
  CHECK(listing.skipped[0].name == "readme.txt");
  CHECK(listing.skipped[0].what == "no .npy file");
  CHECK(listing.skipped[1].name == "o");
  CHECK(listing.skipped[1].what == "an array of Python objects ('|O')");
  CHECK(listing.skipped[2].name == "r");
  CHECK(listing.skipped[2].what == "an array of records (a structured 'descr')");

  CHECK(says(list_npy(bytes_of(objects), "o").failure().message, "Python objects ('|O') is not supported"));
  CHECK(says(list_npy(bytes_of(records), "o").failure().message, "records"));
}

TEST_CASE("damaged arrays are refused with the member's name") {
  const std::string good = good_npy();
  for (const auto make : {plain_member, deflated_member}) {
    CHECK(npz_refusal(make("x.npy", good)) == "no failure");
    CHECK(says(npz_refusal(make("x.npy", good + "!")), "'x.npy': 1 byte follows the array"));
    CHECK(says(npz_refusal(make("x.npy", good.substr(0, good.size() - 1))), "1 byte missing"));
    CHECK(says(npz_refusal(make("x.npy", good.substr(0, 20))), "missing of the header"));
    CHECK(says(npz_refusal(make("x.npy", good.substr(0, 11))), "missing of the header"));
    CHECK(says(npz_refusal(make("x.npy", good.substr(0, 8))), "2 bytes missing of the header"));
    CHECK(says(npz_refusal(make("x.npy", "")), "'x.npy': this is not a .npy file"));
    CHECK(says(npz_refusal(make("x.npy", "hello, this is text")), "not a .npy file"));
    CHECK(says(npz_refusal(make(".npy", good)), "has no name"));
    CHECK(says(npz_refusal(make("\xff.npy", good)), "not UTF-8"));
    CHECK(says(npz_refusal(make("x.npy", npy("{'descr': '<f4'}", ""))), "'fortran_order' is missing"));
  }
  ZipSample cut = deflated_member("x.npy", good);
  cut.stored.resize(10);
  CHECK(says(npz_refusal(cut), "compressed data ends too early"));
  ZipSample damaged = deflated_member("x.npy", good);
  damaged.stored[0] = '\7';
  CHECK(says(npz_refusal(damaged), "'x.npy': the compressed data is damaged"));
  ZipSample larger = deflated_member("x.npy", good);
  ++larger.size;
  CHECK(says(npz_refusal(larger), "1 byte follows the array"));
  CHECK(says(npz_refusal("PK\3\4 and nothing"), "no end record"));
}

TEST_CASE("only the start of a deflated member is decoded for its header") {
  std::mt19937 random(9);
  const std::uint64_t shape[] = {300'000};
  std::string data(300'000, '\0');
  for (char& c : data) c = static_cast<char>(random());
  ZipSample member = deflated_member("x.npy", npy(dict("|u1", false, shape), data));
  for (std::size_t i = 1000; i < member.stored.size(); ++i) member.stored[i] = '\xff';
  const std::string file = zip_file({member});
  const TensorListing listing = list_npz(bytes_of(file)).take();
  REQUIRE(listing.tensors.size() == 1);
  CHECK(listing.tensors[0].shape == std::vector<std::uint64_t>{300'000});
  CHECK_THROWS_AS(storage_of(file, listing.tensors[0].place), Error);
}

TEST_CASE("truncation and flipped bits do no harm") {
  const std::uint64_t shape[] = {2, 3};
  const std::string array = npy(dict(">i2", true, shape), "0123456789ab", 2);
  const std::string file = zip_file({plain_member("a.npy", array), deflated_member("b.npy", array),
                                     deflated_member("c.npy", npy(dict("<U1", true, kTwo), "12345678"))});
  const auto expect_no_harm = [](const std::string& damaged) {
    const std::vector<std::byte> copy(bytes_of(damaged).begin(), bytes_of(damaged).end());
    const Result<TensorListing> listing = list_npz(copy);
    if (!listing.ok()) return;
    for (const StoredTensor& tensor : listing.value().tensors) {
      const TensorPlace& place = tensor.place;
      REQUIRE(place.offset <= copy.size());
      REQUIRE(place.stored <= copy.size() - place.offset);
      REQUIRE(place.skip <= place.decoded);
      REQUIRE(tensor_byte_size(tensor.dtype, tensor.shape).value() == place.decoded - place.skip);
      if (!place.strides.empty()) REQUIRE(place.strides.size() == tensor.shape.size());
    }
  };
  for (std::size_t size = 0; size < file.size(); ++size) {
    expect_no_harm(file.substr(0, size));
    REQUIRE_FALSE(list_npz(bytes_of(file.substr(0, size))).ok());
  }
  for (std::size_t bit = 0; bit < file.size() * 8; ++bit) {
    std::string flipped = file;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    expect_no_harm(flipped);
  }
  for (std::size_t size = 0; size < array.size(); ++size)
    REQUIRE_FALSE(list_npy(bytes_of(array.substr(0, size)), "x").ok());
}

}  // namespace
}  // namespace crumb
