// The two readers of ONNX files agree about external data: a file that one refuses is refused by the other, in the same words.
#include <doctest/doctest.h>

#include <fstream>
#include <string>
#include <vector>

#include "formats/checkpoint/checkpoint.h"
#include "graph/onnx/read.h"
#include "tests/support/testing.h"

namespace crumb::graph {
namespace {

namespace fs = std::filesystem;

// Protobuf by hand: a field of bytes, and one of a number below 128.
std::string bytes(int field, const std::string& payload) {
  std::string length;
  std::size_t size = payload.size();
  for (; size > 127; size >>= 7) length += static_cast<char>(size | 128u);
  return std::string(1, static_cast<char>(field * 8 + 2)) + length + static_cast<char>(size) + payload;
}
std::string number(int field, int value) { return {static_cast<char>(field * 8), static_cast<char>(value)}; }

std::string entry(const std::string& key, const std::string& value) {
  return bytes(13, bytes(1, key) + bytes(2, value));
}

/// y = Neg(w), w being two floats elsewhere.
std::string model(const std::string& entries) {
  const std::string tensor = number(1, 2) + number(2, 1) + bytes(8, "w") + entries + number(14, 1);
  const std::string graph = bytes(1, bytes(1, "w") + bytes(2, "y") + bytes(4, "Neg")) + bytes(2, "g") +
                            bytes(5, tensor) + bytes(12, bytes(1, "y"));
  return number(1, 8) + bytes(7, graph) + bytes(8, number(2, 13));
}

void put(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

/// What stands behind "'path': " or "'path': tensor 'w': " or "initializer 'w' (float [2]): ".
std::string reason(const std::string& message) {
  const std::size_t at = std::min(message.find("its "), message.find("external_data"));
  return at == std::string::npos ? message : message.substr(at);
}

/// What each reader says of the model; "" where it took it, with the floats 1 and 2.
std::pair<std::string, std::string> verdicts(const fs::path& path) {
  std::pair<std::string, std::string> said;
  const float expected[] = {1, 2};
  const auto wanted = std::as_bytes(std::span(expected));
  try {
    const Graph graph = read_onnx(path);
    CHECK(std::ranges::equal(graph.initializers.at("w").bytes(), wanted));
  } catch (const Error& error) {
    said.first = reason(error.what());
  }
  const Result<Checkpoint> checkpoint = Checkpoint::open(path);
  if (checkpoint.ok()) {
    const auto read = checkpoint.value().load(*checkpoint.value().find("w"));
    CHECK((read.ok() && std::ranges::equal(read.value(), wanted)));
  } else {
    said.second = reason(checkpoint.failure().message);
  }
  return said;
}

TEST_CASE("external data: graphs and weights are read by one rule") {
  const testing::TempDir dir;
  const fs::path home = dir.path() / "model", path = home / "m.onnx";
  const float values[] = {1, 2};
  const std::string data(reinterpret_cast<const char*>(values), sizeof values);
  for (const char* place : {"model/w", "model/sub/w", "model/a\\b", "model/w:0", "secret", "w"})
    put(dir.path() / place, data);
  put(home / "short", data.substr(1));
  put(home / "later", "1234567" + data);
  fs::create_symlink("../secret", home / "link");
  fs::create_symlink("..", home / "up");
  fs::create_symlink("w", home / "inside");
  fs::create_symlink("sub", home / "folder");
  fs::create_symlink("loop", home / "loop");
  fs::create_symlink("nowhere", home / "dangling");
  fs::create_symlink(home, dir.path() / "model2");  // a folder that is a link
  const std::string absolute = (home / "w").string(), folder_name = home.filename().string();
  struct Case {
    std::string entries;
    bool sound;
  };
  const auto at = [](const std::string& location) { return entry("location", location); };
  const std::vector<Case> cases = {
      {at("w"), true},
      {at("./w"), true},
      {at("sub//w"), true},
      {at("inside"), true},
      {at("folder/w"), true},
      {at("a\\b"), true},  // a name here; elsewhere a file in a folder
      {at("w:0"), true},
      {at("later") + entry("offset", "7"), true},
      {at("later") + entry("offset", "7") + entry("length", "8") + entry("checksum", "?"), true},
      {at("later") + entry("offset", "8"), false},
      {at("w") + entry("length", "7"), false},
      {at("w") + entry("offset", "-1"), false},
      {at("w") + entry("offset", "18446744073709551608"), false},
      {at("w") + entry("offset", "9223372036854775800"), false},
      {at("w") + at("w"), false},
      {at("w") + entry("offset", "0") + entry("offset", "0"), false},
      {at("short"), false},
      {"", false},
      {at(""), false},
      {at("."), false},
      {at(".."), false},
      {at("sub"), false},
      {at("sub/"), false},
      {at("missing"), false},
      {at("../secret"), false},
      {at("sub/../w"), false},
      {at("sub/../../secret"), false},
      {at("../" + folder_name + "/w"), false},
      {at(absolute), false},
      {at("/" + absolute), false},
      {at("/etc/hostname"), false},
      {at("/proc/self/exe"), false},
      {at("link"), false},
      {at("./link"), false},
      {at("up/secret"), false},
      {at("up/" + folder_name + "/link"), false},
      {at("loop"), false},
      {at("dangling"), false},
      {at("C:\\w"), false},
      {at("C:/w"), false},
      {at("\\w"), false},
      {at("\\\\host\\w"), false},
      {at("..\\secret"), false},
      {at("sub\\..\\..\\secret"), false},
      {at(std::string("w\0x", 3)), false},
      {at(std::string(70'000, 'w')), false},
  };
  const fs::path before = fs::current_path();
  for (const Case& one : cases) {
    put(path, model(one.entries));
    for (const fs::path& name :
         {path, dir.path() / "model2" / "m.onnx", fs::path("m.onnx"), fs::path("./m.onnx")}) {
      fs::current_path(home);
      const auto [graph, weights] = verdicts(name);
      fs::current_path(before);
      CAPTURE(one.entries);
      CAPTURE(name);
      CHECK(graph == weights);
      CHECK(graph.empty() == one.sound);
    }
  }
  fs::current_path(before);
}

}  // namespace
}  // namespace crumb::graph
