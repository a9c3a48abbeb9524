#include "base/files/mapped_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>

#include "tests/support/testing.h"

namespace crumb {
namespace {

std::filesystem::path put(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST_CASE("a mapped file shows its bytes, also after moves and releases") {
  const testing::TempDir dir;
  const std::string text = [] {
    std::string t(100'000, 'a');
    for (std::size_t i = 0; i < t.size(); ++i) t[i] = static_cast<char>('a' + i % 26);
    return t;
  }();
  MappedFile file = MappedFile::open(put(dir.path() / "f", text)).take();
  REQUIRE(file.size() == text.size());
  MappedFile moved = std::move(file);
  file = MappedFile::open(put(dir.path() / "g", "other")).take();
  CHECK(file.size() == 5);
  const auto same = [&] {
    return std::equal(moved.bytes().begin(), moved.bytes().end(), std::as_bytes(std::span(text)).begin());
  };
  CHECK(same());
  moved.release(0, text.size());
  CHECK(same());
  moved.release(5000, 60'000);
  moved.release(99'999, ~std::uint64_t{0});
  moved.release(1'000'000, 1);
  moved.release(moved.bytes().subspan(10, 50'000));
  CHECK(same());
}

TEST_CASE("empty files, folders, pipes and missing files") {
  const testing::TempDir dir;
  CHECK(MappedFile::open(put(dir.path() / "empty", "")).take().bytes().empty());

  const Result<MappedFile> missing = MappedFile::open(dir.path() / "none");
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.failure().message.find("No such file") != std::string::npos);
  CHECK(missing.failure().message.find("none") != std::string::npos);

  const Result<MappedFile> folder = MappedFile::open(dir.path());
  REQUIRE_FALSE(folder.ok());
  CHECK(folder.failure().message.find("it is a folder") != std::string::npos);

  REQUIRE(::mkfifo((dir.path() / "pipe").c_str(), 0600) == 0);
  CHECK_FALSE(MappedFile::open(dir.path() / "pipe").ok());
}

TEST_CASE("text files are read whole up to a bound") {
  const testing::TempDir dir;
  const auto path = put(dir.path() / "t", "hello");
  CHECK(read_text_file(path, 5).take() == "hello");
  CHECK_FALSE(read_text_file(path, 4).ok());
}

}  // namespace
}  // namespace crumb
