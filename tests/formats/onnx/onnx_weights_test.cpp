#include "formats/onnx/onnx_weights.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/files/mapped_file.h"
#include "tests/support/capture_copy.h"
#include "tests/support/samples.h"
#include "tests/support/testing.h"

namespace crumb {
namespace {

using testing::says;

// Just enough of protobuf's writer, by hand, so that the reader is checked against the format and not against
// itself.

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value > 127; value >>= 7) bytes += static_cast<char>((value & 127u) | 128u);
  return bytes + static_cast<char>(value);
}

std::string number(unsigned field, std::uint64_t value) { return varint(field * 8) + varint(value); }
std::string bytes(unsigned field, const std::string& payload) {
  return varint(field * 8 + 2) + varint(payload.size()) + payload;
}
std::string fixed32(unsigned field, float value) {
  return varint(field * 8 + 5) + std::string(reinterpret_cast<const char*>(&value), 4);
}

template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string packed(const std::vector<std::int64_t>& values) {
  std::string run;
  for (const std::int64_t value : values) run += varint(static_cast<std::uint64_t>(value));
  return run;
}

/// A TensorProto; `data` are its data fields.
std::string tensor(const std::string& name, unsigned type, const std::vector<std::int64_t>& dims,
                   const std::string& data) {
  std::string message;
  for (const std::int64_t size : dims) message += number(1, static_cast<std::uint64_t>(size));
  return message + number(2, type) + (name.empty() ? "" : bytes(8, name)) + data;
}

std::string entry(const std::string& key, const std::string& value) {
  return bytes(13, bytes(1, key) + bytes(2, value));
}

std::string graph(const std::vector<std::string>& initializers, const std::string& rest = {}) {
  std::string message = bytes(2, "main");
  for (const std::string& initializer : initializers) message += bytes(5, initializer);
  return message + rest;
}

std::string model(const std::string& graph_message, const std::string& rest = {}) {
  return number(1, 8) + bytes(2, "a test") + bytes(7, graph_message) + bytes(8, number(2, 17)) + rest;
}

std::string model_of(const std::string& initializer) { return model(graph({initializer})); }

Result<TensorListing> list(const std::string& file) {
  return list_onnx_weights(std::as_bytes(std::span(file)));
}

std::string why(const std::string& file) {
  const Result<TensorListing> listing = list(file);
  return listing.ok() ? "no failure" : listing.failure().message;
}

bool looks(const std::string& file) { return looks_like_onnx(std::as_bytes(std::span(file))); }

std::string stored(const std::string& file, const StoredTensor& t) {
  return file.substr(t.place.offset, t.place.stored);
}

const std::vector<float> kSix = {1, -2, 3.5F, 4, 5, 6};

TEST_CASE("raw data are found where they lie, for every type that is ours") {
  struct Row {
    unsigned type;
    DType dtype;
  };
  for (const auto& [type, dtype] :
       {Row{1, DType::kF32},         Row{2, DType::kU8},      Row{3, DType::kI8},
        Row{4, DType::kU16},         Row{5, DType::kI16},     Row{6, DType::kI32},
        Row{7, DType::kI64},         Row{9, DType::kBool},    Row{10, DType::kF16},
        Row{11, DType::kF64},        Row{12, DType::kU32},    Row{13, DType::kU64},
        Row{14, DType::kC64},        Row{16, DType::kBF16},   Row{17, DType::kF8E4M3},
        Row{18, DType::kF8E4M3Fnuz}, Row{19, DType::kF8E5M2}, Row{20, DType::kF8E5M2Fnuz},
        Row{23, DType::kF4},         Row{24, DType::kF8E8M0}}) {
    CAPTURE_COPY(type);
    const std::string data(6 * dtype_bits(dtype) / 8, 'x');
    const std::string file = model_of(tensor("w", type, {2, 3}, bytes(9, data)));
    CHECK(looks(file));
    const TensorListing listing = list(file).take();
    REQUIRE(listing.tensors.size() == 1);
    const StoredTensor& t = listing.tensors[0];
    CHECK(t.name == "w");
    CHECK(t.dtype == dtype);
    CHECK(t.shape == std::vector<std::uint64_t>{2, 3});
    CHECK(t.place.coding == StorageCoding::kPlain);
    CHECK(t.place.decoded == data.size());
    CHECK(t.file.empty());
    CHECK(stored(file, t) == data);
    CHECK(
        says(why(model_of(tensor("w", type, {2, 3}, bytes(9, data + "x")))), {"'w'", "[2, 3]", "raw_data"}));
  }
}

TEST_CASE("typed data: fixed numbers in place, the others as a run of varints") {
  const std::string doubles = raw<double>({1, 2});
  const std::string run = packed({1, -1, 300, 0, 127, 128});
  const std::string file = model(graph({
      tensor("f", 1, {6}, bytes(4, raw(kSix))),
      tensor("d", 11, {2}, bytes(10, doubles)),
      tensor("c", 14, {3}, bytes(4, raw(kSix))),
      tensor("h", 10, {2, 3}, bytes(5, run)),
      tensor("l", 7, {6}, bytes(7, run)),
      tensor("u", 12, {6}, bytes(11, run)),
      tensor("e2m1", 23, {4}, bytes(5, packed({0x7f, 0xf0}))),
      tensor("scalar", 1, {}, fixed32(4, 2.5F)),
      tensor("one", 7, {1}, number(7, 5)),
      tensor("none", 7, {0, 3}, ""),
  }));
  const TensorListing listing = list(file).take();
  REQUIRE(listing.tensors.size() == 10);
  CHECK(listing.skipped.empty());
  const auto& t = listing.tensors;
  for (const std::size_t i : {0, 2}) {
    CHECK(t[i].place.coding == StorageCoding::kPlain);
    CHECK(stored(file, t[i]) == raw(kSix));
  }
  CHECK(stored(file, t[1]) == doubles);
  for (const std::size_t i : {3, 4, 5}) {
    CHECK(t[i].place.coding == StorageCoding::kVarints);
    CHECK(stored(file, t[i]) == run);
    CHECK(t[i].place.decoded == 6 * dtype_bits(t[i].dtype) / 8);
  }
  CHECK(t[6].dtype == DType::kF4);
  CHECK(t[6].place.decoded == 2);
  CHECK(stored(file, t[7]) == raw<float>({2.5F}));
  CHECK(t[8].place.coding == StorageCoding::kVarints);
  CHECK(stored(file, t[8]) == "\5");
  CHECK(t[9].place.decoded == 0);
}

TEST_CASE("shapes may be packed, and fields may come in any order") {
  const std::string backwards = bytes(9, raw(kSix)) + bytes(12, "a doc string") + bytes(8, "w") +
                                number(2, 1) + bytes(1, packed({2, 3}));
  const std::string file =
      bytes(7, bytes(5, backwards) + bytes(2, "late name")) + bytes(6, "doc") + number(1, 9);
  CHECK(looks(file));
  const TensorListing listing = list(file).take();
  REQUIRE(listing.tensors.size() == 1);
  CHECK(listing.tensors[0].shape == std::vector<std::uint64_t>{2, 3});
  CHECK(stored(file, listing.tensors[0]) == raw(kSix));
}

TEST_CASE("data that do not fit are refused by name") {
  const auto one = [](unsigned type, const std::vector<std::int64_t>& dims, const std::string& data) {
    return why(model_of(tensor("w", type, dims, data)));
  };
  CHECK(says(one(1, {2, 3}, ""), {"'w'", "float [2, 3]", "no data", "24 bytes"}));
  CHECK(says(one(1, {2, 3}, bytes(4, raw(kSix) + "1234")), {"'w'", "float_data", "28 bytes", "24"}));
  CHECK(says(one(1, {6}, bytes(5, packed({1, 2, 3, 4, 5, 6}))), {"int32_data", "raw_data or float_data"}));
  CHECK(says(one(10, {6}, bytes(4, raw(kSix))), {"float_data", "raw_data or int32_data"}));
  CHECK(says(one(1, {6}, bytes(4, raw(kSix)) + bytes(9, raw(kSix))), {"twice", "raw_data", "float_data"}));
  CHECK(says(one(7, {4}, bytes(7, packed({1, 2, 3}))), {"3 bytes", "4 numbers"}));
  CHECK(says(one(7, {1}, bytes(7, packed({-1, 2}))), {"11 bytes", "1 number"}));
  CHECK(says(one(7, {0}, bytes(7, packed({1}))), {"0 numbers"}));
  CHECK(says(one(7, {2}, bytes(7, "\1\xff")), {"end inside a number"}));
  CHECK(says(one(1, {2}, fixed32(4, 1) + fixed32(4, 2)), {"'w'", "2 pieces", "one packed run"}));
  CHECK(says(one(7, {3}, bytes(7, packed({1, 2})) + number(7, 3)), {"2 pieces"}));
  CHECK(says(one(1, {-1}, bytes(9, "")), {"'w'", "the size -1"}));
  CHECK(says(one(1, std::vector<std::int64_t>(65, 1), bytes(9, "1234")), {"more than 64 axes"}));
  CHECK(says(one(1, {1LL << 40, 1LL << 40}, bytes(9, "1234")), {"'w'", "64 bits"}));
  CHECK(says(one(0, {1}, bytes(9, "1234")), {"'w'", "no data type"}));
  CHECK(says(one(1, {1}, bytes(9, "1234") + bytes(3, number(1, 0))), {"'w'", "segment"}));
  CHECK(says(why(model_of(tensor("", 1, {1}, bytes(9, "1234")))), {"no name"}));
  CHECK(says(why(model_of(tensor("\xff", 1, {1}, bytes(9, "1234")))), {"not UTF-8"}));
  CHECK(
      says(why(model_of(tensor(std::string(70'000, 'n'), 1, {1}, bytes(9, "1234")))), {"longer than 65536"}));
  const std::string w = tensor("w", 1, {1}, bytes(9, "1234"));
  const std::string v = tensor("v", 1, {1}, bytes(9, "1234"));
  CHECK(says(why(model(graph({w, v, w}))), {"two initializers", "'w'"}));
  CHECK(says(why(model(graph({w})) + model(graph({v}))), {"two graphs"}));
  CHECK(says(why(number(1, 8)), {"no graph"}));
}

TEST_CASE("external data") {
  const auto place = [](const std::string& entries) {
    return list(model_of(tensor("w", 1, {2, 3}, entries + number(14, 1))));
  };
  const auto refused = [&](const std::string& entries) {
    const Result<TensorListing> listing = place(entries);
    return listing.ok() ? "no failure" : listing.failure().message;
  };
  const TensorListing plain = place(entry("location", "w.bin")).take();
  CHECK(plain.tensors[0].file == "w.bin");
  CHECK(plain.tensors[0].place.offset == 0);
  CHECK(plain.tensors[0].place.stored == 24);
  const TensorListing all = place(entry("offset", "4096") + entry("length", "24") + entry("checksum", "x") +
                                  entry("location", "./data//w.bin"))
                                .take();
  CHECK(all.tensors[0].file == "data/w.bin");
  CHECK(all.tensors[0].place.offset == 4096);
  CHECK(all.tensors[0].place.decoded == 24);

  for (const char* outside :
       {"/etc/passwd", "../w.bin", "a/../../w.bin", "..", "", ".", "a/", "C:/w.bin", "c:\\w.bin",
        "\\\\server\\w.bin", "\\w.bin", "..\\w.bin", "a\\..\\..\\w.bin", "a\\../w.bin"})
    CHECK(says(refused(entry("location", outside)), {"'w'", "inside the model's folder"}));
  CHECK(says(refused(entry("location", std::string("a\0b", 3))), {"inside the model's folder"}));
  CHECK(says(refused(""), {"'w'", "no location"}));
  const std::string here = entry("location", "w");
  CHECK(says(refused(here + here), {"two entries 'location'"}));
  CHECK(says(refused(here + entry("length", "23")), {"length is '23'", "24"}));
  for (const char* offset : {"-1", "1x", "", " 1", "9223372036854775807", "99999999999999999999"})
    CHECK(says(refused(here + entry("offset", offset)), {"'w'", "external offset"}));
  CHECK(says(refused(bytes(13, "\x0a\x09")), {"'w'", "external_data"}));

  // Entries without data_location are only a remark.
  const std::string inside = tensor("w", 1, {2, 3}, here + bytes(9, raw(kSix)));
  CHECK(list(model_of(inside)).take().tensors[0].file.empty());
}

TEST_CASE("what is no weight of the main graph is listed as skipped") {
  const std::string matrix = tensor("inner", 1, {2, 3}, bytes(9, raw(kSix)));
  const std::string vector = tensor("small", 1, {6}, bytes(9, raw(kSix)));
  const auto constant = [](const std::string& output, const std::string& value) {
    return bytes(1, bytes(5, bytes(1, "value") + bytes(5, value)) + bytes(2, output) + bytes(4, "Constant"));
  };
  const std::string branch =
      bytes(5, bytes(1, "then_branch") + bytes(6, graph({matrix, vector}, constant("deep", matrix))));
  const std::string file = model(
      graph({tensor("text", 8, {1}, bytes(6, "a")), tensor("nibbles", 22, {2, 2}, bytes(9, "ab")),
             tensor("odd", 23, {3}, bytes(9, "ab")), tensor("new", 99, {3}, bytes(9, "ab")),
             tensor("complex", 15, {1}, bytes(9, std::string(16, 'x')))},
            bytes(15, bytes(1, tensor("sparse", 1, {1}, bytes(9, "1234")))) + constant("big", matrix) +
                constant("tiny", vector) + bytes(1, bytes(2, "y") + bytes(4, "If") + branch) +
                bytes(1, bytes(5, bytes(5, matrix)) + bytes(4, "ConstantOfShape"))),
      bytes(25, bytes(1, "f") +
                    bytes(7, bytes(2, "in_function") + bytes(4, "Constant") + bytes(5, bytes(5, matrix)))) +
          bytes(20, bytes(1, graph({matrix}))));
  const TensorListing listing = list(file).take();
  CHECK(listing.tensors.empty());
  std::vector<std::string> lines;
  for (const SkippedEntry& skipped : listing.skipped) lines.push_back(skipped.name + ": " + skipped.what);
  const std::vector<std::string> expected = {
      "text: a tensor of type string [1]",        "nibbles: a tensor of type int4 [2, 2]",
      "odd: a tensor of type float4e2m1 [3]",     "new: a tensor of the unknown type 99 [3]",
      "complex: a tensor of type complex128 [1]", "sparse: a sparse tensor",
      "big: a Constant node's tensor [2, 3]",     "inner: an initializer of a subgraph [2, 3]",
      "deep: a Constant node's tensor [2, 3]",    "in_function: a Constant node's tensor [2, 3]",
      "training_info: graphs for training"};
  CHECK(lines == expected);
}

TEST_CASE("graphs inside graphs end at a limit, in time linear in the file") {
  std::string nested = graph({});
  for (int depth = 0; depth < 32; ++depth) nested = graph({}, bytes(1, bytes(5, bytes(6, nested))));
  CHECK(why(model(nested)) == "no failure");
  for (int depth = 0; depth < 20'000; ++depth) nested = bytes(1, bytes(5, bytes(6, nested)));
  const auto start = std::chrono::steady_clock::now();
  CHECK(says(why(model(nested)), {"more than 32 deep"}));
  looks(model(nested));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
}

TEST_CASE("a file cannot ask for many times its own size") {
  std::string many;
  for (int i = 0; i < 300'000; ++i)
    many += bytes(5, bytes(8, std::to_string(i)) + number(2, 1) + number(1, 0));
  CHECK(says(why(model(many)), {"more than 250000 tensors"}));
}

std::string rich_model() {
  const std::string matrix = tensor("inner", 1, {2, 3}, bytes(9, raw(kSix)));
  return model(graph({tensor("w", 1, {2, 3}, bytes(9, raw(kSix))),
                      tensor("h", 10, {4}, bytes(5, packed({1, 2, -3, 4}))),
                      tensor("x", 1, {3}, entry("location", "d/x") + entry("offset", "8") + number(14, 1)),
                      tensor("l", 7, {2}, bytes(7, packed({1, 300})))},
                     bytes(1, bytes(2, "c") + bytes(4, "Constant") + bytes(5, bytes(5, matrix))) +
                         bytes(1, bytes(4, "If") + bytes(5, bytes(6, graph({matrix}))))),
               bytes(25, bytes(7, bytes(4, "Constant") + bytes(5, bytes(5, matrix)))));
}

/// What any listing promises, whatever the bytes were.
void check_consistent(const std::string& file, const TensorListing& listing) {
  for (const StoredTensor& t : listing.tensors) {
    REQUIRE_FALSE(t.name.empty());
    REQUIRE(tensor_byte_size(t.dtype, t.shape).take() == t.place.decoded);
    if (!t.file.empty()) {
      REQUIRE(t.file.front() != '/');
      REQUIRE(t.file.find("..") == std::string::npos);
      continue;
    }
    REQUIRE(t.place.offset <= file.size());
    REQUIRE(t.place.stored <= file.size() - t.place.offset);
    if (t.place.coding == StorageCoding::kPlain) REQUIRE(t.place.stored == t.place.decoded);
  }
}

TEST_CASE("a model cut short anywhere is refused or complete so far") {
  const std::string file = rich_model();
  REQUIRE(list(file).take().tensors.size() == 4);
  REQUIRE(looks(file));
  for (std::size_t length = 0; length < file.size(); ++length) {
    const std::string cut = file.substr(0, length);
    looks(cut);
    const Result<TensorListing> listing = list(cut);
    if (listing.ok())
      check_consistent(cut, listing.value());
    else
      REQUIRE_FALSE(listing.failure().message.empty());
  }
}

TEST_CASE("every change of one byte, and thousands of others, are refused or leave a consistent listing") {
  const std::string good = rich_model();
  int refused = 0;
  const auto check = [&](const std::string& file) {
    looks(file);
    const Result<TensorListing> listing = list(file);
    if (listing.ok()) return check_consistent(file, listing.value());
    ++refused;
    REQUIRE_FALSE(listing.failure().message.empty());
  };
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string file = good;
    for (int value = 0; value < 256; ++value) {
      file[at] = static_cast<char>(value);
      check(file);
    }
  }
  std::mt19937 random(7);
  for (int round = 0; round < 20'000; ++round) {
    std::string file = good;
    for (unsigned changes = 1 + random() % 4; changes > 0 && !file.empty(); --changes) {
      const std::size_t at = random() % file.size();
      switch (random() % 4) {
        case 0: file[at] = static_cast<char>(file[at] ^ (1 << (random() % 8))); break;
        case 1: file.erase(at, 1 + random() % 9); break;
        case 2: file.insert(at, file.substr(random() % file.size(), random() % 20)); break;
        default: file.insert(at, 1, static_cast<char>(random()));
      }
    }
    check(file);
  }
  CHECK(refused > 15'000);
}

TEST_CASE("numbers and wire types that protobuf does not have are damage") {
  CHECK(says(why(std::string("\x07\x01")), {"byte 0", "no protobuf tag"}));
  CHECK(says(why(number(1, 8) + "\x0b"), {"byte 2", "wire type 3"}));
  CHECK(says(why(number(1, 8) + "\x3a"), {"byte 3", "inside a number"}));
  CHECK(says(why("\x08" + std::string(10, '\xff') + "\1"), {"byte 1", "more than ten bytes"}));
  CHECK(says(why("\x3a\x64" + std::string("short")), {"byte 2", "field 7", "100 bytes", "5 are left"}));
}

TEST_CASE("other files do not look like ONNX") {
  for (const std::string& other :
       {std::string(), std::string("{\"a\": 1}"), std::string("PK\3\4 and a zip"), std::string("\x89PNG\r\n"),
        std::string("\x7f"
                    "ELF"),
        std::string("GGUF\3\0\0\0", 8), std::string("plain text\n"), std::string(64, '\0'),
        std::string("\x80\2}q"), std::string("\x93NUMPY\1\0", 8), bytes(7, ""), number(1, 8) + bytes(2, "x"),
        number(1, 8) + bytes(7, "abc"), bytes(1, "a node") + bytes(7, graph({})),
        model(graph({})).substr(0, 15)})
    CHECK_FALSE(looks(other));
}

TEST_CASE("published models: every initializer is listed, and no byte is out of place") {
  const auto networks = testing::qonnx_networks();
  if (!networks) return testing::skip("qonnx is not installed (scripts/setup tests)");
  int models = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(*networks)) {
    if (file.path().extension() != ".onnx") continue;
    CAPTURE(file.path().filename().string());
    const MappedFile mapped = MappedFile::open(file.path()).take();
    CHECK(looks_like_onnx(mapped.bytes()));
    const TensorListing listing = list_onnx_weights(mapped.bytes()).take();
    for (const StoredTensor& t : listing.tensors) {
      REQUIRE(t.place.offset + t.place.stored <= mapped.size());
      if (t.place.coding == StorageCoding::kPlain) REQUIRE(t.place.stored == t.place.decoded);
    }
    ++models;
  }
  CHECK(models > 5);
}

}  // namespace
}  // namespace crumb
