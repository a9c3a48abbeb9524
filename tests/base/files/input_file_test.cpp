// Files that are read piece by piece: what is no file, and files that change, shrink or vanish under way.
#include "base/files/input_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/samples.h"
#include "tests/support/testing.h"

using crumb::InputFile;
using crumb::testing::says;
namespace fs = std::filesystem;

namespace {

std::string pattern(size_t size) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31 + i / 251);
  return text;
}

fs::path write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::string read(const InputFile& file, uint64_t offset, size_t size) {
  std::string out(size, '?');
  file.read(offset, std::as_writable_bytes(std::span(out))).take();
  return out;
}

std::string failure(const InputFile& file, uint64_t offset, size_t size) {
  std::vector<std::byte> out(size);
  const crumb::Status status = file.read(offset, out);
  REQUIRE(!status.ok());
  return status.failure().message;
}

}  // namespace

TEST_CASE("any stretch of a file") {
  const crumb::testing::TempDir dir;
  const std::string text = pattern(10007);
  const InputFile file = InputFile::open(write(dir.path() / "a", text)).take();
  CHECK(file.size() == text.size());
  for (const size_t offset : {0, 1, 4096, 10006, 10007}) {
    for (const size_t size : {0, 1, 513, 5000}) {
      if (offset + size <= text.size()) CHECK(read(file, offset, size) == text.substr(offset, size));
    }
  }
  CHECK(says(failure(file, 10000, 8), {"/a'", "ends at byte 10007"}));
  CHECK(says(failure(file, uint64_t{1} << 40, 1), {"/a'", "ends"}));
}

TEST_CASE("several threads read at once") {
  const crumb::testing::TempDir dir;
  const std::string text = pattern(300000);
  const InputFile file = InputFile::open(write(dir.path() / "a", text)).take();
  std::vector<int> right(4);
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < right.size(); ++t) {
      threads.emplace_back([&, t] {
        for (size_t i = 0; i < 50; ++i)
          right[t] += read(file, t * 7777 + i, 60000) == text.substr(t * 7777 + i, 60000);
      });
    }
  }
  CHECK(right == std::vector<int>(4, 50));
}

TEST_CASE("what is no file is refused") {
  const crumb::testing::TempDir dir;
  const fs::path pipe = dir.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const auto refusal = [](const fs::path& path) {
    const crumb::Result<InputFile> file = InputFile::open(path);
    REQUIRE(!file.ok());
    return file.failure().message;
  };
  CHECK(says(refusal(dir.path()), {"folder"}));
  CHECK(says(refusal(pipe), {"/pipe'", "not a regular file"}));
  CHECK(says(refusal(dir.path() / "none"), {"/none'", "No such file"}));
  CHECK(says(refusal("/dev/null"), {"not a regular file"}));
}

TEST_CASE("a file that is not what it was when it was opened is refused") {
  const crumb::testing::TempDir dir;
  const fs::path path = write(dir.path() / "a", pattern(5000));
  const InputFile file = InputFile::open(path).take();
  const auto then = fs::last_write_time(path);
  CHECK(read(file, 0, 10) == pattern(10));

  SUBCASE("removed") {
    fs::remove(path);
    CHECK(says(failure(file, 0, 10), {"/a'", "No such file"}));
  }
  SUBCASE("shorter") {
    fs::resize_file(path, 100);
    CHECK(says(failure(file, 0, 10), {"/a'", "changed while it was being read"}));
  }
  SUBCASE("longer") {
    fs::resize_file(path, 6000);
    CHECK(says(failure(file, 0, 10), {"changed while it was being read"}));
  }
  SUBCASE("touched") {
    fs::last_write_time(path, then + std::chrono::seconds(1));
    CHECK(says(failure(file, 0, 10), {"changed while it was being read"}));
  }
  SUBCASE("replaced by one of the same size and date") {
    const fs::path other = write(dir.path() / "b", pattern(5000));
    fs::last_write_time(other, then);
    fs::rename(other, path);
    CHECK(says(failure(file, 0, 10), {"changed while it was being read"}));
  }
  SUBCASE("a folder in its place") {
    fs::remove(path);
    fs::create_directory(path);
    CHECK(says(failure(file, 0, 10), {"folder"}));
  }
  SUBCASE("another name or other rights are no change to a reader") {
    fs::create_hard_link(path, dir.path() / "again");
    fs::permissions(path, fs::perms::owner_read);
    CHECK(read(file, 0, 10) == pattern(10));
    CHECK(InputFile::open(path).take().identity().changed_ns >= file.identity().changed_ns);
  }
}
