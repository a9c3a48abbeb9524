// Packed files that are damaged or hostile: each is refused in words, in bounded memory; nothing crashes.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>
#include <zstd.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
// Of <sanitizer/allocator_interface.h>, which gcc does not install.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void*, size_t),  // NOLINT
                                                         void (*)(const volatile void*));
extern "C" size_t __sanitizer_get_allocated_size(const volatile void*);  // NOLINT
#endif

#include "formats/number/packing.h"
#include "quant/quantized_tensor.h"
#include "tests/formats/crumb_file/samples.h"
#include "tests/support/testing.h"

namespace crumb {
namespace {

using testing::header_of;
using testing::Json;
using testing::Taken;
using testing::TempDir;
using testing::verdict;
using testing::Wanted;
using testing::write_sample;

constexpr int64_t kMostExtra = 64 << 20;  // beyond the file's size, while opening and verifying

/// Bytes allocated at most since it was made. Counts under AddressSanitizer only; 0 elsewhere (tests/cli
/// limits the memory of a whole process there).
class AllocationPeak {
 public:
#if defined(__SANITIZE_ADDRESS__)
  AllocationPeak() {
    static const int installed = __sanitizer_install_malloc_and_free_hooks(
        [](const volatile void*, size_t size) {
          if (!counting) return;
          const int64_t now = live += static_cast<int64_t>(size);
          int64_t most = peak;
          while (now > most && !peak.compare_exchange_weak(most, now)) {
          }
        },
        [](const volatile void* block) {
          if (counting && block) live -= static_cast<int64_t>(__sanitizer_get_allocated_size(block));
        });
    REQUIRE(installed != 0);
    live = peak = 0;
    counting = true;
  }
  ~AllocationPeak() { counting = false; }
#endif
  int64_t bytes() const { return peak; }

 private:
  static inline std::atomic<bool> counting{false};
  static inline std::atomic<int64_t> live{0}, peak{0};
};

/// The verdict, with a check of the memory that it took.
std::string bounded_verdict(const std::filesystem::path& path, std::string_view content) {
  testing::write_all(path, content);
  const AllocationPeak peak;
  std::string message = verdict(path);
  CHECK(peak.bytes() <= std::ssize(content) + kMostExtra);
  return message;
}

bool says(const std::string& message, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) {
    if (message.find(part) != std::string::npos) continue;
    MESSAGE("'" << message << "' does not say '" << part << "'");
    return false;
  }
  return true;
}

const std::vector<Wanted> kSmall = {
    {"a.weight", {3, 10}, "int4:group=5:zero=int"}, {"b", {2, 16}, "nvfp4"}, {"c", {3}, ""}};
const std::string kCompressible(300, ' ');  // the other blobs are too small to compress

const std::vector<Wanted> kMany = {{"a", {3, 10}, "int4:group=5:zero=int"},
                                   {"b", {2, 16}, "nvfp4"},
                                   {"palette", {4, 9}, "palette2:group=3"},
                                   {"ternary", {2, 5}, "ternary"},
                                   {"fp8", {2, 6}, "e4m3fn"},
                                   {"half", {2, 6}, "e5m2:scale=f16"},
                                   {"narrow", {2, 6}, "uint4:range=narrow:zero=int"},
                                   {"float zero", {2, 6}, "uint3:zero=float:scale=bf16"},
                                   {"powers", {2, 6}, "int3h:scale=e8m0"},
                                   {"empty", {0, 5}, "int8"},
                                   {"kept", {2, 2}, ""}};

/// Every tensor's and every file's bytes, decompressed; nothing where a file is refused.
std::optional<std::string> contents(const std::filesystem::path& path) {
  const Result<CrumbFile> file = CrumbFile::open(path);
  if (!file.ok() || !check_packed_file(file.value()).ok()) return std::nullopt;
  std::string all(header_of(testing::read_all(path)));
  const auto add = [&](const Blob& blob) {
    const BlobBytes bytes = file.value().load(blob, "a blob").take();
    all.append(reinterpret_cast<const char*>(bytes.bytes().data()), bytes.bytes().size());
  };
  for (const PackedTensor& tensor : file.value().header().tensors) {
    for (const auto& part : tensor.parts)
      if (part) add(*part);
  }
  for (const PackedFile& entry : file.value().header().files) add(entry.blob);
  return all;
}

TEST_CASE("packed file, damaged: one flipped bit, wherever it is, is found or changes nothing that is read") {
  const TempDir folder;
  const auto path = folder.path() / "m.crumb";
  for (const int level : {0, 5}) {
    std::string content = write_sample(path, kSmall, level, 1, kCompressible);
    REQUIRE(content.size() < 4096);
    REQUIRE((header_of(content).find("zstd") != std::string::npos) == (level > 0));
    REQUIRE(verdict(path) == "");
    const auto meant = contents(path);
    const int fd = ::open(path.c_str(), O_WRONLY);
    size_t sound = 0, silent = 0;
    for (size_t i = 0; i < content.size(); ++i) {
      for (int bit = 0; bit < 8; ++bit) {
        const char flipped = static_cast<char>(content[i] ^ (1 << bit));
        REQUIRE(::pwrite(fd, &flipped, 1, static_cast<off_t>(i)) == 1);
        const std::string message = verdict(path);
        if (message.empty()) {
          ++sound;  // bits of a frame that decoders do not look at
          REQUIRE(contents(path) == meant);
        }
        silent += message == "(an empty message)";
      }
      REQUIRE(::pwrite(fd, &content[i], 1, static_cast<off_t>(i)) == 1);
    }
    ::close(fd);
    CHECK(sound <= (level == 0 ? 0 : 16));
    CHECK(silent == 0);
    CHECK(verdict(path) == "");
  }
}

TEST_CASE("packed file, damaged: cut short anywhere, or longer than it should be") {
  const TempDir folder;
  const auto path = folder.path() / "m.crumb";
  for (const int level : {0, 5}) {
    const std::string content = write_sample(path, kSmall, level, 1, kCompressible);
    for (size_t size = content.size(); size-- > 0;) {
      std::filesystem::resize_file(path, size);
      const Result<CrumbFile> file = CrumbFile::open(path);
      REQUIRE(!file.ok());
      REQUIRE(!file.failure().message.empty());
    }
    for (const size_t more : {1, 63, 64, 65, 5000}) {
      CHECK(
          says(verdict(path, content + std::string(more, '\0')), {"follow", std::to_string(content.size())}));
    }
  }
}

TEST_CASE("packed file, damaged: the preamble says what it is") {
  const TempDir folder;
  const auto path = folder.path() / "m.crumb";
  const std::string good = write_sample(path, kSmall);
  const auto with = [&](size_t offset, auto value) {
    std::string content = good;
    std::memcpy(content.data() + offset, &value, sizeof value);
    const uint32_t crc = crc32_of(testing::bytes_of(content).first(36));
    std::memcpy(content.data() + 36, &crc, sizeof crc);
    return verdict(path, content);
  };
  CHECK(says(with(8, uint32_t{1}), {"unknown key 'layout'"}));  // it says that it is older than it is
  CHECK(says(with(8, uint32_t{3}), {"version 3", "versions 1 to 2"}));
  CHECK(says(with(8, uint32_t{0}), {"version 0"}));
  CHECK(says(with(8, ~uint32_t{0}), {"version 4294967295"}));
  CHECK(says(with(12, uint32_t{1}), {"12"}));
  for (const uint64_t length : {uint64_t{0}, uint64_t{1}, uint64_t{64}, good.size(), good.size() - 64,
                                ~uint64_t{0}, uint64_t{1} << 63, ~uint64_t{0} - 63}) {
    CHECK(with(16, length) != "");
    CHECK(says(with(24, length == good.size() ? length + 1 : length), {std::to_string(good.size())}));
  }
  CHECK(says(verdict(path, "PK\x03\x04" + good.substr(4)), {"not a packed file"}));
  CHECK(verdict(path, "") != "");
}

/// A random value that fits nowhere.
Json absurd(std::mt19937_64& engine) {
  const std::vector<Json> values = {0,
                                    1,
                                    -1,
                                    7,
                                    63,
                                    64,
                                    1u << 31,
                                    uint64_t{1} << 58,
                                    uint64_t{1} << 62,
                                    uint64_t{1} << 63,
                                    ~uint64_t{0},
                                    1e308,
                                    0.5,
                                    "",
                                    "none",
                                    "zstd",
                                    "int4",
                                    "e8m0",
                                    "palette8",
                                    "00000000",
                                    "\xE2\x82\xAC",
                                    nullptr,
                                    true,
                                    Json::array(),
                                    Json::object(),
                                    Json::array({0, uint64_t{1} << 63, uint64_t{1} << 63}),
                                    Json::array({0, ~uint64_t{0}}),
                                    Json::array({uint64_t{1} << 32, uint64_t{1} << 32}),
                                    Json::array({1, 1, 1, 1, 1, 1}),
                                    std::string(300, 'n')};
  return values[engine() % values.size()];
}

Json* any_node(Json& root, std::mt19937_64& engine) {
  Json* node = &root;
  while (node->is_structured() && !node->empty() && engine() % 8 != 0) {
    auto child = node->begin();
    std::advance(child, static_cast<std::ptrdiff_t>(engine() % node->size()));
    node = &*child;
  }
  return node;
}

void mutate(Json& header, std::mt19937_64& engine) {
  Json& node = *any_node(header, engine);
  switch (engine() % 6) {
    case 0: node = absurd(engine); break;
    case 1: {  // delete a part
      if (!node.is_structured() || node.empty()) break;
      const size_t at = engine() % node.size();
      if (node.is_array()) {
        node.erase(at);
      } else {
        auto member = node.begin();
        std::advance(member, static_cast<std::ptrdiff_t>(at));
        node.erase(member.key());
      }
      break;
    }
    case 2: {  // twice the same
      if (node.is_array() && !node.empty()) node.push_back(node[engine() % node.size()]);
      if (node.is_object()) node["extra"] = absurd(engine);
      break;
    }
    case 3: {  // what stands elsewhere
      const Json copy = *any_node(header, engine);
      node = copy;
      break;
    }
    case 4:
      if (node.is_number_unsigned()) node = node.get<uint64_t>() + (engine() % 2 ? 1 : ~uint64_t{0});
      break;
    default: {
      if (!node.is_array() || node.empty()) break;
      Json& element = node[engine() % node.size()];
      std::swap(element, node[engine() % node.size()]);
    }
  }
}

/// Opens, checks and, where that is well, decodes everything that is not too large. Gives the message.
std::string use(const std::filesystem::path& path) {
  std::string message = verdict(path);
  if (!message.empty()) return message;
  const CrumbFile file = CrumbFile::open(path).take();
  for (const PackedTensor& tensor : file.header().tensors) {
    if (!tensor.encoding) continue;
    const LoadedTensor loaded = LoadedTensor::load(file, tensor).take();
    std::vector<float> values(loaded.view().layout.matrix.size());
    dequantize(loaded.view(), values, 1);
  }
  return message;
}

TEST_CASE("packed file, hostile: headers changed at random, checksums right") {
  const TempDir folder;
  const auto path = folder.path() / "m.crumb";
  const std::string good = write_sample(path, kMany);
  const std::string text(testing::header_of(good));
  const std::string rest = good.substr(kCrumbPreamble + text.size());
  const Taken taken(good);
  CHECK(verdict(path, Taken(taken).build()) == "");
  std::mt19937_64 engine(20240711);
  size_t sound = 0;
  const size_t rounds = testing::slow() ? 100000 : 2000;
  for (size_t round = 0; round < rounds; ++round) {
    std::string content;
    const bool in_text = engine() % 3 == 0;
    if (in_text) {
      std::string changed = text;
      for (size_t times = engine() % 3 + 1; times > 0; --times) {
        const size_t at = engine() % changed.size();
        switch (engine() % 4) {
          case 0:
          case 1: {  // another digit
            const size_t digit = changed.find_first_of("0123456789", at);
            if (digit != std::string::npos) changed[digit] = static_cast<char>('0' + engine() % 10);
            break;
          }
          case 2: changed[at] = static_cast<char>(engine()); break;
          default: {  // a piece elsewhere: the length stays, so that later offsets hold
            const size_t length = std::min<size_t>({engine() % 40, changed.size() - at});
            const std::string piece = changed.substr(engine() % (changed.size() - length), length);
            changed.replace(at, length, piece);
          }
        }
      }
      content = testing::with_header(changed, rest);
    } else {
      Taken other = taken;
      for (size_t times = engine() % 2 + 1; times > 0; --times) mutate(other.header, engine);
      content = engine() % 4 != 0 ? other.build() : testing::with_header(other.header.dump(), rest);
    }
    testing::write_all(path, content);
    const AllocationPeak peak;
    std::string message;
    try {
      message = use(path);
    } catch (const Error& error) {
      message = error.what();  // decoding said no
    }
    sound += message.empty();
    REQUIRE(message != "(an empty message)");
    REQUIRE(peak.bytes() <= std::ssize(content) + kMostExtra);
  }
  MESSAGE(sound << " of " << rounds << " changes left a sound file");
  CHECK(sound < rounds / 2);
}

TEST_CASE("packed file, hostile: headers that name absurd things") {
  const TempDir folder;
  const auto path = folder.path() / "m.crumb";
  const std::string good = write_sample(path, kSmall);
  const auto with = [&](auto change) {
    Taken taken(good);
    change(taken.header);
    return bounded_verdict(path, taken.build());
  };
  const uint64_t most = ~uint64_t{0};
  for (const Json& shape :
       {Json::array({uint64_t{1} << 63, 2}), Json::array({most, most}), Json::array({1u << 30, 1u << 30}),
        Json::array({uint64_t{1} << 58, 1}), Json::array({most, 1, 1})}) {
    CAPTURE(shape.dump());
    CHECK(says(with([&](Json& h) { h["tensors"][0]["shape"] = shape; }), {"a.weight"}));
    CHECK(says(with([&](Json& h) { h["tensors"][2]["shape"] = shape; }), {"'c'"}));
  }
  // An empty axis does not excuse the others: no partial product may overflow.
  CHECK(with([&](Json& h) { h["tensors"][2]["shape"] = Json::array({0, most, most}); }) != "");
  CHECK(with([&](Json& h) { h["tensors"][0]["shape"] = Json::array({most, most, 0}); }) != "");
  CHECK(with([](Json& h) { h["tensors"][0]["shape"] = Json::array(); }) != "");
  CHECK(with([](Json& h) { h["tensors"][0]["shape"] = Json(std::vector<int>(1000, 1)); }) != "");
  CHECK(with([](Json& h) { h["tensors"][0]["shape"] = Json::array({-3, 10}); }) != "");
  CHECK(with([](Json& h) { h["tensors"][0]["shape"] = Json::array({3.0, 10.0}); }) != "");
  CHECK(says(with([](Json& h) { h["tensors"][1]["name"] = "a.weight"; }), {"a.weight", "twice"}));
  CHECK(says(with([](Json& h) { h["tensors"][1]["name"] = ""; }), {"name"}));
  CHECK(says(with([](Json& h) { h["tensors"][0]["dtype"] = "F31"; }), {"a.weight", "F31"}));
  CHECK(says(with([](Json& h) { h["tensors"][0]["dtype"] = "I32"; }), {"a.weight", "I32"}));
  CHECK(says(with([](Json& h) { h["tensors"][0].erase("zeros"); }), {"a.weight", "zeros"}));
  CHECK(says(with([](Json& h) { h["tensors"][0].erase("codes"); }), {"a.weight", "codes"}));
  CHECK(
      says(with([](Json& h) { h["tensors"][0]["data"] = h["tensors"][0]["codes"]; }), {"a.weight", "data"}));
  CHECK(says(with([](Json& h) { h["tensors"][2]["spec"] = "int4"; }), {"'c'", "spec"}));
  CHECK(says(with([](Json& h) { h["surprise"] = 1; }), {"surprise"}));
  CHECK(says(with([](Json& h) { h["format"] = "bread"; }), {"format"}));
  for (const char* key : {"format", "model", "features", "tensors", "files"}) {
    CHECK(says(with([&](Json& h) { h.erase(key); }), {key}));
    CHECK(with([&](Json& h) { h[key] = 3; }) != "");
  }
  const auto encoding = [&](const char* key, const Json& value) {
    return with([&](Json& h) { h["tensors"][0]["encoding"][key] = value; });
  };
  CHECK(says(encoding("number", "int9"), {"a.weight", "int9"}));
  CHECK(says(encoding("number", "e8m0"), {"a.weight", "e8m0"}));
  CHECK(encoding("number", "palette4") != "");
  CHECK(says(encoding("range", "half"), {"a.weight", "half"}));
  CHECK(says(encoding("scale", "f64"), {"a.weight", "f64"}));
  CHECK(says(encoding("zero", "one"), {"a.weight", "one"}));
  CHECK(encoding("zero", "none") != "");
  CHECK(encoding("zero", "float") != "");
  for (const Json& block :
       {Json::array({0, 5}), Json::array({1, 0}), Json::array({1}), Json::array({1, 5, 1}),
        Json::array({1, most}), Json::array({most, most}), Json::array({1, -5}), Json(5)}) {
    CAPTURE(block.dump());
    CHECK(says(encoding("block", block), {"a.weight"}));
  }
  for (const Json& exponent :
       {Json(127), Json(-127), Json(0.5), Json(most), Json(most - 5), Json("1"), Json(1e300)}) {
    CAPTURE(exponent.dump());
    CHECK(says(encoding("scale_exponent", exponent), {"a.weight", "scale_exponent"}));
  }
  for (const char* name : {"../x", "/etc/passwd", "", ".", "a/../b", ".."}) {
    CHECK(with([&](Json& h) { h["files"][0]["path"] = name; }) != "");
  }
  CHECK(says(with([](Json& h) { h["files"].push_back(h["files"][0]); }), {"config.json", "twice"}));

  // Blobs elsewhere than they must be: written around Taken::build, which would put them right.
  const std::string text(testing::header_of(good));
  const std::string rest = good.substr(kCrumbPreamble + text.size());
  const auto blob = [&](const char* key, const Json& value) {
    Json header = Json::parse(text);
    header["tensors"][1]["scales"][key] = value;
    std::string changed = header.dump();
    REQUIRE(changed.size() <= text.size());
    changed.resize(text.size(), ' ');
    return bounded_verdict(path, testing::with_header(changed, rest));
  };
  REQUIRE(blob("codec", "none") == "");
  for (const uint64_t value :
       {uint64_t{0}, uint64_t{64}, most, most - 63, uint64_t{1} << 62, uint64_t{1} << 63}) {
    CAPTURE(value);
    CHECK(says(blob("offset", value), {"'b'", "scales", "offset"}));
    CHECK(says(blob("stored", value), {"'b'", "scales"}));
    CHECK(says(blob("raw", value), {"'b'", "scales"}));
  }
  for (const char* crc : {"", "0", "ABCDEF01", "0x123456", "0000000g", "000000000"}) {
    CHECK(says(blob("crc32", crc), {"'b'", "scales", "crc32"}));
  }
  CHECK(says(blob("codec", "gzip"), {"'b'", "scales", "gzip"}));
  CHECK(says(blob("codec", "zstd"), {"'b'", "scales"}));
}

/// A header whose blobs lie one behind the other, at offsets modulo 2^64, from `first` on: tensors kept as they were,
/// then files. Its length is first - 64.
std::string header_of_sizes(const std::vector<uint64_t>& tensors, const std::vector<uint64_t>& files,
                            uint64_t first, std::mt19937_64& engine) {
  uint64_t at = first;
  const auto blob = [&](uint64_t stored, bool plain, uint64_t raw) {
    Json json = {{"offset", at}, {"stored", stored}, {"raw", plain ? stored : raw}};
    json["codec"] = plain ? "none" : "zstd";
    json["crc32"] = "00000000";
    at += stored;
    return json;
  };
  Json header = {{"format", "crumb"}, {"model", engine() % 2 ? "graph" : ""}, {"features", Json::array()}};
  header["tensors"] = header["files"] = Json::array();
  for (const uint64_t stored : tensors) {
    const bool plain = stored <= kMostElements;
    const uint64_t raw = plain ? stored : 1;
    header["tensors"].push_back({{"name", "t" + std::to_string(header["tensors"].size())},
                                 {"dtype", "U8"},
                                 {"shape", {raw}},
                                 {"data", blob(stored, plain, raw)}});
  }
  for (const uint64_t stored : files) {
    const size_t number = header["files"].size();
    header["files"].push_back({{"path", number == 0 ? "graph.onnx" : "f" + std::to_string(number)},
                               {"data", blob(stored, engine() % 2 == 0, engine())}});
  }
  std::string text = header.dump();
  REQUIRE(kCrumbPreamble + text.size() <= first);
  text.resize(first - kCrumbPreamble, ' ');
  return text;
}

TEST_CASE("packed file, hostile: sizes of blobs that come to the file's modulo 2^64") {
  const TempDir folder;
  const auto path = folder.path() / "m.crumb";
  constexpr uint64_t kFirst = 4096;
  std::mt19937_64 engine(3);
  for (int round = 0; round < (testing::slow() ? 50000 : 2000); ++round) {
    std::vector<uint64_t> tensors(engine() % 4), files(engine() % 4);
    // The blobs that a file of so many bytes holds come first, then such as no file holds.
    const uint64_t held = 64 * (engine() % 4);
    uint64_t sum = 0;
    const auto draw = [&](uint64_t& size) {
      size = engine() % 4 == 0 ? held - std::min(sum, held) : (engine() >> engine() % 60) / 64 * 64;
      sum += size;
    };
    for (uint64_t& size : tensors) draw(size);
    for (uint64_t& size : files) draw(size);
    files.push_back(held - sum);
    const std::string content =
        testing::with_header(header_of_sizes(tensors, files, kFirst, engine), std::string(held, '\0'));
    std::string culprit;
    uint64_t left = held;
    for (size_t i = 0; i < tensors.size() + files.size() && culprit.empty(); ++i) {
      const bool tensor = i < tensors.size();
      const uint64_t stored = tensor ? tensors[i] : files[i - tensors.size()];
      if (stored > left)
        culprit = (tensor                ? "'t"
                   : i == tensors.size() ? "'graph.onnx"
                                         : "'f") +
                  (i == tensors.size() ? "" : std::to_string(tensor ? i : i - tensors.size())) + "'";
      left -= std::min(stored, left);
    }
    testing::write_all(path, content);
    const Result<CrumbFile> file = CrumbFile::open(path);
    if (culprit.empty()) {
      REQUIRE(file.ok());
    } else {
      REQUIRE(!file.ok());
      REQUIRE(says(file.failure().message, {culprit, "stores", std::to_string(content.size())}));
    }
  }
}

TEST_CASE("packed file, hostile: headers made to cost memory or stack") {
  const TempDir folder;
  const auto path = folder.path() / "m.crumb";
  for (const size_t size : {size_t{5} << 20, size_t{10} << 20}) {
    CAPTURE(size);
    const auto of = [&](const std::string& begin, const std::string& again, const std::string& end = "") {
      std::string text = begin;
      while (text.size() < size) text += again;
      return bounded_verdict(path, testing::with_header(text + end, ""));
    };
    CHECK(of("", "[") != "");
    CHECK(of("", "{\"a\":") != "");
    CHECK(of("{\"a\":\"", "x", "\"}") != "");
    CHECK(of("[0", ",0", "]") != "");
    CHECK(of("[[]", ",[]", "]") != "");
    CHECK(of("{\"format\":\"crumb\",\"features\":[],\"tensors\":[{}", ",{}", "]}") != "");
    CHECK(of("{\"tensors\":[{\"name\":\"a\",\"dtype\":\"F32\",\"shape\":[1", ",1", "]}]}") != "");
    CHECK(of("1", "0") != "");
    CHECK(of("-", "-") != "");
    CHECK(of("", " ") != "");
    CHECK(of("", std::string(1, '\0')) != "");
    CHECK(of("\"", "\\u0000", "\"") != "");
    // As many tensors as possible: well-formed, and every blob empty at the same offset.
    std::string list;
    for (size_t i = 0; list.size() + 200 < size; ++i) {
      list +=
          (i ? "," : "") + ("{\"name\":\"" + std::to_string(i)) +
          R"(","dtype":"U8","shape":[0],"data":{"offset":@@@@@@@@,"stored":0,"raw":0,"codec":"none","crc32":"00000000"}})";
    }
    std::string text =
        R"({"format":"crumb","model":"","features":[],"tensors":[)" + list + R"(],"files":[]})";
    std::string offset = std::to_string((kCrumbPreamble + text.size() + 63) / 64 * 64);
    offset.insert(0, 8 - offset.size(), ' ');
    for (size_t at = 0; (at = text.find("@@@@@@@@", at)) != std::string::npos;) text.replace(at, 8, offset);
    text.resize((text.size() + 63) / 64 * 64, ' ');
    bounded_verdict(path, testing::with_header(text, ""));
  }
}

std::string compress(std::string_view raw, int window_log = 0) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  if (window_log) ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
  std::string out(ZSTD_compressBound(raw.size()) + 64, '\0');
  ZSTD_inBuffer in{raw.data(), raw.size(), 0};
  ZSTD_outBuffer to{out.data(), out.size(), 0};
  if (window_log)
    ZSTD_compressStream2(context, &to, &in, ZSTD_e_continue);  // no size is promised: the window stays
  REQUIRE(ZSTD_compressStream2(context, &to, &in, ZSTD_e_end) == 0);
  ZSTD_freeCCtx(context);
  out.resize(to.pos);
  return out;
}

TEST_CASE("packed file, hostile: compressed blobs that are not what they say") {
  const TempDir folder;
  const auto path = folder.path() / "m.crumb";
  const std::string good = write_sample(path, {{"w", {40, 200}, "int8:channel"}}, 3);
  const auto with = [&](auto change) {
    Taken taken(good);
    change(taken.blob("w", "codes"));
    return bounded_verdict(path, taken.build());
  };
  const std::string raw(8000, '\1');
  CHECK(with([&](std::string& b) { b = compress(raw); }) == "");
  CHECK(with([&](std::string& b) { b = compress(raw, 23); }) == "");
  CHECK(says(with([&](std::string& b) { b = compress(raw, 24); }), {"'w'", "codes"}));
  CHECK(says(with([&](std::string& b) { b = compress(raw, 27); }), {"'w'", "codes"}));
  CHECK(says(with([&](std::string& b) { b = compress(raw + "x"); }), {"'w'", "codes", "8000"}));
  CHECK(says(with([&](std::string& b) { b = compress(raw.substr(1)); }), {"'w'", "codes", "7999", "8000"}));
  CHECK(says(with([&](std::string& b) { b = compress(std::string(300 << 20, '\1')); }),
             {"'w'", "codes", "8000"}));
  CHECK(says(with([&](std::string& b) { b = compress(raw) + "y"; }), {"'w'", "codes", "1 byte"}));
  CHECK(says(with([&](std::string& b) { b = compress(raw.substr(4000)) + compress(raw.substr(4000)); }),
             {"'w'", "codes"}));
  CHECK(says(with([&](std::string& b) { b = std::string("\x50\x2A\x4D\x18\x04\0\0\0abcd", 12); }),
             {"'w'", "codes"}));
  CHECK(says(with([](std::string& b) { b.clear(); }), {"'w'", "codes"}));
  CHECK(says(with([](std::string& b) { b = "not zstd at all"; }), {"'w'", "codes"}));
  CHECK(says(with([](std::string& b) { b.resize(b.size() - 1); }), {"'w'", "codes"}));

  std::mt19937_64 engine(7);
  for (int round = 0; round < (testing::slow() ? 20000 : 500); ++round) {
    const std::string message =
        with([&](std::string& b) { b[engine() % b.size()] ^= static_cast<char>(1 << engine() % 8); });
    // zstd frames have no checksum of their own: a change may well decompress to other codes of the right
    // length, whose checksum build() gives.
    REQUIRE((message.empty() || says(message, {"'w'", "codes"})));
  }

  // A blob that is legal and grows ten thousand times is checked in the memory that any other takes.
  Taken large(write_sample(path, {{"w", {2, 4}, "uint8:tensor"}}, 3));
  large.header["tensors"][0]["shape"] = Json::array({1u << 14, 1u << 14});
  large.header["tensors"][0]["encoding"]["block"] = Json::array({1u << 14, 1u << 14});
  large.header["tensors"][0]["codes"]["raw"] = 1u << 28;
  large.header["tensors"][0]["codes"]["codec"] = "zstd";
  large.blob("w", "codes") = compress(std::string(size_t{1} << 28, '\0'));
  const std::string content = large.build();
  REQUIRE(content.size() < 100000);
  CHECK(bounded_verdict(path, content) == "");
  large.header["tensors"][0]["encoding"]["block"] = Json::array({1, 1});  // now the scales are too few
  CHECK(says(bounded_verdict(path, large.build()), {"'w'", "scales"}));
}

TEST_CASE("packed file, hostile: contents that no quantizer writes are named with tensor and place") {
  const TempDir folder;
  const auto path = folder.path() / "m.crumb";
  for (const int level : {0, 3}) {
    std::vector<Wanted> wanted = kMany;
    const std::string good = write_sample(path, wanted, 0);
    const auto with = [&](const char* tensor, const char* part, auto change) {
      Taken taken(good);
      std::string& blob = taken.blob(tensor, part);
      change(blob);
      if (level > 0) {
        const size_t index = taken.index(tensor, part);
        Taken::descriptions(taken.header)[index]->at("codec") = "zstd";
        blob = compress(blob);
      }
      return verdict(path, taken.build());
    };
    const auto code = [&](const char* tensor, uint64_t row, uint64_t cols, uint64_t col, int bits,
                          uint8_t pattern) {
      return with(tensor, "codes", [&](std::string& blob) {
        auto* bytes = reinterpret_cast<uint8_t*>(blob.data()) + row * packed_bytes(cols, bits);
        std::vector<uint8_t> codes(cols);
        unpack_codes(bytes, bits, 0, codes);
        codes[col] = pattern;
        pack_codes(codes, bits, bytes);
      });
    };
    CHECK(with("a", "codes", [](std::string&) {}) == "");
    CHECK(says(code("a", 2, 10, 7, 4, 8), {"'a'", "codes", "-8", "row 2", "column 7", "-7"}));
    CHECK(code("a", 2, 10, 7, 4, 9) == "");
    CHECK(says(code("ternary", 1, 5, 4, 2, 2), {"'ternary'", "codes", "-2", "row 1", "column 4"}));
    CHECK(says(code("fp8", 0, 6, 5, 8, 0x7F), {"'fp8'", "codes", "127", "row 0", "column 5"}));
    CHECK(says(code("fp8", 1, 6, 0, 8, 0xFF), {"'fp8'", "codes", "255", "row 1", "column 0"}));
    CHECK(says(code("half", 1, 6, 3, 8, 0x7C), {"'half'", "codes", "row 1", "column 3"}));
    CHECK(says(code("half", 1, 6, 3, 8, 0xFE), {"'half'", "codes"}));
    CHECK(says(code("narrow", 1, 6, 3, 4, 15), {"'narrow'", "codes", "15", "row 1", "column 3", "14"}));

    const auto last_bit = [](std::string& blob) { blob.back() = static_cast<char>(blob.back() | 0x80); };
    CHECK(says(with("ternary", "codes", last_bit), {"'ternary'", "codes", "padding", "row 1"}));
    CHECK(says(with("palette", "codes", last_bit), {"'palette'", "codes", "padding", "row 3"}));
    CHECK(says(with("ternary", "codes", [](std::string& b) { b[1] = static_cast<char>(b[1] | 4); }),
               {"'ternary'", "codes", "padding", "row 0"}));

    const auto put = [](size_t index, auto value) {
      return
          [=](std::string& blob) { std::memcpy(blob.data() + index * sizeof value, &value, sizeof value); };
    };
    const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    for (const float bad : {inf, -inf, nan, -1.0F, -0.0F}) {
      CAPTURE(bad);
      CHECK(says(with("ternary", "scales", put(1, bad)), {"'ternary'", "scales", "scale 1"}));
      CHECK(says(with("b", "tensor_scale", put(0, bad)), {"'b'", "tensor_scale"}));
    }
    CHECK(with("ternary", "scales", put(1, 0.0F)) == "");
    for (const uint16_t bad : {uint16_t{0x7C00}, uint16_t{0x7E00}, uint16_t{0xBC00}, uint16_t{0x8000}}) {
      CHECK(says(with("a", "scales", put(3, bad)), {"'a'", "scales", "scale 3"}));
    }
    CHECK(says(with("b", "scales", put(1, uint8_t{0x7F})), {"'b'", "scales", "scale 1"}));
    CHECK(says(with("b", "scales", put(0, uint8_t{0x88})), {"'b'", "scales", "scale 0"}));
    CHECK(says(with("b", "tensor_scale", put(0, 3e38F)), {"'b'", "scales", "inf"}));  // the product
    CHECK(with("powers", "scales", put(0, uint8_t{0xFF})) == "");                     // scale zero
    CHECK(says(with("a", "zeros", put(2, uint8_t{0x88})), {"'a'", "zeros", "-8"}));
    CHECK(says(with("narrow", "zeros", put(0, uint8_t{0xF0})), {"'narrow'", "zeros", "15", "index 1"}));
    for (const uint16_t bad : {uint16_t{0x7F80}, uint16_t{0xFF80}, uint16_t{0x7FC0}}) {
      CHECK(says(with("float zero", "zeros", put(1, bad)), {"'float zero'", "zeros", "1"}));
    }
    CHECK(says(with("palette", "codebook", put(1, 100.0F)), {"'palette'", "codebook", "entry 2"}));
    CHECK(says(with("palette", "codebook", put(3, nan)), {"'palette'", "codebook", "entry 3"}));
    CHECK(says(with("palette", "codebook", put(0, -inf)), {"'palette'", "codebook", "entry 0"}));
  }
  // Zero points are packed like one row: bits after the last are zero.
  Taken odd(write_sample(path, {{"w", {3, 5}, "int3:zero=int"}}));
  odd.blob("w", "zeros").back() = static_cast<char>(odd.blob("w", "zeros").back() | 0x80);
  CHECK(says(verdict(path, odd.build()), {"'w'", "zeros", "padding"}));
}

TEST_CASE("packed file, hostile: padding between blobs is zero") {
  const TempDir folder;
  const auto path = folder.path() / "m.crumb";
  std::string content = write_sample(path, kSmall);
  const CrumbHeader header = CrumbFile::open(path).take().header();
  const Blob& codes = *header.tensors[0].part(Part::kCodes);
  const uint64_t after = codes.offset + codes.stored;
  REQUIRE(after % 64 != 0);
  content[after] = '\1';
  CHECK(says(verdict(path, content), {"padding", std::to_string(after)}));
}

}  // namespace
}  // namespace crumb
