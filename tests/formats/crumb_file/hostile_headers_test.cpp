// Packed files whose headers are hostile: each is refused in words, in bounded memory.
#include <doctest/doctest.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "quant/quantized_tensor.h"
#include "tests/formats/crumb_file/damage.h"
#include "tests/formats/crumb_file/samples.h"
#include "tests/support/sanitized.h"
#include "tests/support/testing.h"

namespace crumb {
namespace {

using testing::AllocationPeak;
using testing::bounded_verdict;
using testing::header_of;
using testing::Json;
using testing::kMany;
using testing::kMostExtra;
using testing::kSmall;
using testing::says;
using testing::Taken;
using testing::TempDir;
using testing::verdict;
using testing::write_sample;

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
  const size_t rounds = testing::slow() ? 100000 : testing::kSanitized ? 800 : 2000;
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

}  // namespace
}  // namespace crumb
