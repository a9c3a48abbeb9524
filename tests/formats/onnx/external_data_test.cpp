// External data of ONNX models: where they may lie. Both readers that take them, of graphs and of weights, are asked about
// the same files in tests/graph/onnx/onnx_external_test.cpp.
#include "formats/onnx/external_data.h"

#include <doctest/doctest.h>

#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tests/support/testing.h"

namespace crumb {
namespace {

namespace fs = std::filesystem;

Result<OnnxExternalPlace> placed(std::string_view location, std::uint64_t bytes = 8) {
  const OnnxExternalEntry entries[] = {{"location", location}};
  return place_onnx_external(entries, bytes);
}

void put(const fs::path& path) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << "12345678";
}

TEST_CASE("external data: no location that is accepted leads out of the folder, of a hundred thousand") {
  // The names of a location's parts, among them links; every file and folder exists at every depth, so that a step too
  // many would be seen.
  const testing::TempDir dir;
  const fs::path home = dir.path() / "a" / "model";
  for (const char* place : {"a/model/f", "a/model/d/f", "a/model/d/d/f", "a/f", "a/d/f", "f", "d/f"})
    put(dir.path() / place);
  fs::create_symlink("..", home / "up");
  fs::create_symlink("../../f", home / "d" / "in");  // a/f
  fs::create_symlink("../f", home / "d" / "here");
  fs::create_symlink(dir.path(), home / "away");
  fs::create_symlink("loop", home / "loop");
  const OnnxDataFolder folder = OnnxDataFolder::at(home);
  const char* parts[] = {"f",    "d",    "..",    ".", "",   "up",   "in", "here",
                         "away", "loop", "model", "a", "C:", "..\\", "\\", "..."};
  std::mt19937_64 engine(5);
  int taken = 0, refused = 0;
  for (int round = 0; round < (testing::slow() ? 100'000 : 5000); ++round) {
    std::string location;
    for (std::uint64_t n = 1 + engine() % 5; n-- > 0;)
      location += std::string(parts[engine() % std::size(parts)]) + (n > 0 || engine() % 16 == 0 ? "/" : "");
    if (engine() % 16 == 0) location = dir.path().string() + "/" + location;
    CAPTURE(location);
    const Result<OnnxExternalPlace> place = placed(location);
    if (!place.ok()) {
      ++refused;
      continue;
    }
    const Result<fs::path> found = folder.find(place.value());
    if (!found.ok()) {
      ++refused;
      continue;
    }
    ++taken;
    const std::string real = fs::canonical(found.value()).string();
    REQUIRE(real.starts_with(fs::canonical(home).string() + "/"));
  }
  CHECK(taken > 50);
  CHECK(refused > 1000);
}

TEST_CASE("external data: a model that is a link has its data where it lies, too") {
  // As download caches keep files: names are links into one folder.
  const testing::TempDir dir;
  const fs::path blobs = dir.path() / "blobs", names = dir.path() / "names";
  put(blobs / "1");
  put(blobs / "2");
  put(dir.path() / "secret");
  fs::create_directories(names);
  fs::create_symlink("../blobs/1", names / "model.onnx");
  fs::create_symlink("../blobs/2", names / "model.onnx_data");
  fs::create_symlink("../secret", names / "secret");
  const OnnxDataFolder folder = OnnxDataFolder::of_model(names / "model.onnx");
  CHECK(folder.find({"model.onnx_data", 0}).ok());
  CHECK(!folder.find({"secret", 0}).ok());
  CHECK(!folder.find({"nobody", 0}).ok());
  CHECK(!OnnxDataFolder::at(names).find({"model.onnx_data", 0}).ok());
  CHECK(!OnnxDataFolder().find({"model.onnx_data", 0}).ok());
  CHECK(!OnnxDataFolder::at({}).find({"model.onnx_data", 0}).ok());
}

TEST_CASE("external data: offsets and sizes at the end of numbers") {
  const auto at = [](const std::string& offset, std::uint64_t bytes) {
    const OnnxExternalEntry entries[] = {{"location", "w"}, {"offset", offset}};
    return place_onnx_external(entries, bytes);
  };
  CHECK(at("9223372036854775799", 8).ok());
  CHECK(!at("9223372036854775800", 8).ok());
  CHECK(!at("18446744073709551615", 1).ok());
  CHECK(!at("18446744073709551615", ~std::uint64_t{0}).ok());
  CHECK(!at("0", std::uint64_t{1} << 63).ok());
  const std::uint64_t most = ~std::uint64_t{0};
  CHECK(check_onnx_external({"w", 8}, 8, 16).ok());
  CHECK(!check_onnx_external({"w", 9}, 8, 16).ok());
  CHECK(!check_onnx_external({"w", most - 7}, 8, 16).ok());
  CHECK(!check_onnx_external({"w", 17}, 0, 16).ok());
}

}  // namespace
}  // namespace crumb
